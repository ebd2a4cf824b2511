#include "ranks/host_channel.h"

#include <array>
#include <vector>

#include "base/check.h"

namespace fulmar {

namespace {

class HostChannel final : public Channel {
 public:
  HostChannel(Ops& sender, Ops& receiver, size_t bytes) : sender_(sender), receiver_(receiver) {
    for (std::vector<std::byte>& buffer : buffers_) buffer.resize(bytes);
  }

  void send(std::span<const Tensor> tensors) override {
    std::vector<std::byte>& buffer = buffers_[static_cast<size_t>(turnstile_.wait_to_fill())];
    FULMAR_CHECK(message_bytes(tensors) <= buffer.size());
    std::byte* at = buffer.data();
    for (const Tensor& tensor : tensors) {
      sender_.read(at, tensor.data, message_bytes({&tensor, 1}));
      at += message_bytes({&tensor, 1});
    }
    turnstile_.filled();
  }

  void receive(std::span<const Tensor> tensors) override {
    const std::vector<std::byte>& buffer = buffers_[static_cast<size_t>(turnstile_.wait_to_empty())];
    FULMAR_CHECK(message_bytes(tensors) <= buffer.size());
    const std::byte* at = buffer.data();
    for (const Tensor& tensor : tensors) {
      receiver_.write(tensor.data, at, message_bytes({&tensor, 1}));
      at += message_bytes({&tensor, 1});
    }
    turnstile_.emptied();
  }

  void close(const std::string& reason) override { turnstile_.close(reason); }

 private:
  Ops& sender_;
  Ops& receiver_;
  std::array<std::vector<std::byte>, kMostUnderWay> buffers_;
  Turnstile turnstile_;
};

}  // namespace

std::unique_ptr<Channel> make_host_channel(Ops& sender, Ops& receiver, size_t bytes) {
  return std::make_unique<HostChannel>(sender, receiver, bytes);
}

}  // namespace fulmar
