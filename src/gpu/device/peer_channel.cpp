#include "gpu/device/peer_channel.h"

#include "base/check.h"
#include "gpu/device/device.h"
#include "gpu/device/memory.h"

namespace fulmar::gpu {

namespace {

class PeerChannel final : public Channel {
 public:
  PeerChannel(const ChannelEnd& sender, const ChannelEnd& receiver, size_t bytes)
      : sender_(sender), receiver_(receiver), bytes_(bytes) {}
  ~PeerChannel() override {
    for (const Inbox& inbox : inboxes_) {
      for (const cudaEvent_t event : {inbox.filled, inbox.emptied}) {
        if (event != nullptr) ignore_failure(cudaEventDestroy(event));
      }
    }
  }

  Status open() {
    FULMAR_GPU_TRY(cudaSetDevice(sender_.device));
    for (Inbox& inbox : inboxes_) FULMAR_GPU_TRY(make_event(inbox.filled));
    FULMAR_GPU_TRY(cudaSetDevice(receiver_.device));
    for (Inbox& inbox : inboxes_) {
      FULMAR_GPU_TRY(make_event(inbox.emptied));
      FULMAR_ASSIGN(inbox.memory, allocate_device(bytes_));
    }
    return {};
  }

  void send(std::span<const Tensor> tensors) override {
    const Inbox& inbox = inboxes_[turnstile_.wait_to_fill()];
    FULMAR_CHECK(message_bytes(tensors) <= bytes_);
    FULMAR_GPU(cudaSetDevice(sender_.device));
    FULMAR_GPU(cudaStreamWaitEvent(sender_.stream, inbox.emptied, 0));
    auto* at = static_cast<std::byte*>(inbox.memory.data());
    for (const Tensor& tensor : tensors) {
      const size_t bytes = message_bytes({&tensor, 1});
      FULMAR_GPU(
          cudaMemcpyPeerAsync(at, receiver_.device, tensor.data, sender_.device, bytes, sender_.stream));
      at += bytes;
    }
    FULMAR_GPU(cudaEventRecord(inbox.filled, sender_.stream));
    turnstile_.filled();
  }

  void receive(std::span<const Tensor> tensors) override {
    const Inbox& inbox = inboxes_[turnstile_.wait_to_empty()];
    FULMAR_CHECK(message_bytes(tensors) <= bytes_);
    FULMAR_GPU(cudaSetDevice(receiver_.device));
    FULMAR_GPU(cudaStreamWaitEvent(receiver_.stream, inbox.filled, 0));
    const auto* at = static_cast<const std::byte*>(inbox.memory.data());
    for (const Tensor& tensor : tensors) {
      const size_t bytes = message_bytes({&tensor, 1});
      FULMAR_GPU(cudaMemcpyAsync(tensor.data, at, bytes, cudaMemcpyDeviceToDevice, receiver_.stream));
      at += bytes;
    }
    FULMAR_GPU(cudaEventRecord(inbox.emptied, receiver_.stream));
    turnstile_.emptied();
  }

  void close(const std::string& reason) override { turnstile_.close(reason); }

 private:
  struct Inbox {
    Buffer memory;  // on the receiver's device
    cudaEvent_t filled = nullptr, emptied = nullptr;
  };
  static cudaError_t make_event(cudaEvent_t& event) {
    return cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }

  const ChannelEnd sender_, receiver_;
  const size_t bytes_;
  Inbox inboxes_[kMostUnderWay];
  Turnstile turnstile_;
};

}  // namespace

Result<bool> enable_peer_access(int from, int to) {
  int reaches = 0;
  FULMAR_GPU_TRY(cudaDeviceCanAccessPeer(&reaches, from, to));
  if (reaches == 0) return false;
  FULMAR_GPU_TRY(cudaSetDevice(from));
  const cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
  if (error != cudaErrorPeerAccessAlreadyEnabled) FULMAR_GPU_TRY(error);
  forget_failure();
  return true;
}

Result<std::unique_ptr<Channel>> open_peer_channel(const ChannelEnd& sender, const ChannelEnd& receiver,
                                                   size_t bytes) {
  if (sender.device != receiver.device) {
    FULMAR_ASSIGN(const bool reaches, enable_peer_access(sender.device, receiver.device));
    if (!reaches) return std::unique_ptr<Channel>();
  }
  auto channel = std::make_unique<PeerChannel>(sender, receiver, bytes);
  FULMAR_TRY(channel->open());
  return std::unique_ptr<Channel>(std::move(channel));
}

}  // namespace fulmar::gpu
