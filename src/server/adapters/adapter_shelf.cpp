#include "server/adapters/adapter_shelf.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "adapters/live_form.h"
#include "adapters/names.h"
#include "base/log.h"
#include "base/sha256.h"
#include "server/adapters/adapter_room.h"

namespace fulmar {
namespace {

constexpr int64_t kRetrySeconds = 1;

// Stands for a model whose weights do not matter.
class NoCheckpoint final : public Checkpoint {
 public:
  const std::vector<StoredTensor>& tensors() const override { return none_; }
  std::string describe() const override { return "nothing"; }

 private:
  std::vector<StoredTensor> none_;
};

bool depends_on_weights(const Adapter& adapter) {
  return std::any_of(adapter.deltas.begin(), adapter.deltas.end(), [](const Delta& delta) {
    return delta.kind == DeltaKind::dora_out || delta.kind == DeltaKind::dora_in;
  });
}

std::string text_of(const BaseShapes& base) {
  std::vector<std::string> lines;
  for (const auto& [name, shape] : base.tensors) {
    std::string line = name;
    for (const int64_t size : shape) {
      if (size != 1) line += fmt::format(" {}", size);  // files differ in ones
    }
    lines.push_back(std::move(line));
  }
  std::sort(lines.begin(), lines.end());
  Sha256 sum;
  for (const std::string& line : lines) sum.add(line + "\n");
  return fmt::format("rwkv{} {}x{}x{} {}", base.version, base.n_layer, base.n_head, base.head_size,
                     sum.hex());
}

ApiError no_device_memory(const Error& error) {
  ApiError fault = api_error(error);
  if (fault.status == 503) fault.retry_after = kRetrySeconds;
  return fault;
}

}  // namespace

AdapterShelf::AdapterShelf(Engine& engine, AdapterBase base)
    : engine_(engine), base_(std::move(base)), shapes_text_(text_of(base_.shapes)) {}

AdapterShelf::ShelfPlaces::iterator AdapterShelf::find(const std::string& version) {
  return std::find_if(places_.begin(), places_.end(),
                      [&](const ShelfPlace& place) { return place.content->version == version; });
}

std::variant<AdapterShelf::ShelfPlaces, ApiError> AdapterShelf::make_room(uint64_t bytes, uint64_t budget) {
  std::vector<HeldAdapter> held;
  std::vector<ShelfPlaces::iterator> at;
  for (auto place = places_.begin(); place != places_.end(); ++place) {
    held.push_back({place->bytes, place->used, in_use(*place)});
    at.push_back(place);
  }
  const RoomPlan plan = plan_room(held, bytes, budget);
  if (plan.way == RoomPlan::Way::never) return bad_value("adapter exceeds GPU budget", "adapter_id");
  if (plan.way == RoomPlan::Way::busy) {
    ApiError busy{503, "adapter GPU admission denied: active leases", {}, "unavailable", {}};
    busy.retry_after = kRetrySeconds;
    return busy;
  }
  ShelfPlaces leaving;
  for (const size_t i : plan.leaving) leaving.splice(leaving.end(), places_, at[i]);
  figures_.evictions += static_cast<int64_t>(leaving.size());
  return leaving;
}

void AdapterShelf::let_go(ShelfPlaces leaving) {
  for (const ShelfPlace& place : leaving) {
    if (!place.content->adapter.states.empty())
      engine_.remove_state(adapter_state_name(place.content->version));
  }
}

AdapterShelf::ShelfPlaces AdapterShelf::take_dropped() {
  ShelfPlaces gone;
  for (auto place = places_.begin(); place != places_.end();) {
    const auto next = std::next(place);
    if (place->dropped && !in_use(*place)) gone.splice(gone.end(), places_, place);
    place = next;
  }
  return gone;
}

std::variant<std::shared_ptr<const DeviceAdapter>, ApiError> AdapterShelf::lease(
    const AdapterContentPtr& content, uint64_t budget, bool any_base) {
  std::unique_lock lock(mutex_);
  copied_.wait(lock, [&] {
    const auto place = find(content->version);
    return place == places_.end() || place->device;
  });
  if (const auto place = find(content->version); place != places_.end()) {
    place->used = ++clock_;
    place->dropped = false;
    figures_.hits++;
    return place->device;
  }
  figures_.misses++;
  ShelfPlaces leaving = take_dropped();
  auto room = make_room(content->adapter.bytes(), budget);
  if (const auto* fault = std::get_if<ApiError>(&room)) {
    lock.unlock();
    let_go(std::move(leaving));
    return *fault;
  }
  leaving.splice(leaving.end(), std::get<ShelfPlaces>(room));
  places_.push_back({.content = content, .bytes = content->adapter.bytes(), .used = ++clock_});
  const auto mine = std::prev(places_.end());
  lock.unlock();
  // Frees the memory of those that leave, and fills it, without holding up leases of others.
  let_go(std::move(leaving));
  const auto began = std::chrono::steady_clock::now();
  auto made = copy(*content, any_base);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  lock.lock();
  std::variant<std::shared_ptr<const DeviceAdapter>, ApiError> answer = ApiError();
  if (made.ok()) {
    mine->device = *made;
    figures_.loads++;
    figures_.load_ms += took.count();
    answer = *made;
  } else {
    places_.erase(mine);
    answer = no_device_memory(made.error());
  }
  uint64_t bytes = 0;
  for (const ShelfPlace& place : places_) bytes += place.bytes;
  figures_.peak_bytes = std::max(figures_.peak_bytes, bytes);
  copied_.notify_all();
  return answer;
}

Result<std::shared_ptr<const DeviceAdapter>> AdapterShelf::copy(const AdapterContent& content,
                                                                bool any_base) {
  const Adapter& adapter = content.adapter;
  if (!adapter.base_fingerprint.empty() && !any_base) {
    FULMAR_ASSIGN(const std::string sha256, base_.sha256());
    FULMAR_TRY(check_fingerprint(adapter, sha256));
  }
  std::unique_ptr<Checkpoint> weights = std::make_unique<NoCheckpoint>();
  if (depends_on_weights(adapter)) {
    FULMAR_ASSIGN(weights, base_.open());
  }
  FULMAR_ASSIGN(const LiveForm form, live_form(adapter, *weights, base_.shapes));
  FULMAR_ASSIGN(auto device, engine_.load_adapter(form.deltas));
  if (!adapter.states.empty()) {
    FULMAR_TRY(engine_.add_states({{adapter_state_name(content.version), state_numbers(adapter)}}));
  }
  spdlog::info("adapter on devices version={:.8} bytes={}", content.version, device->bytes());
  return device;
}

void AdapterShelf::forget(const std::string& version) {
  std::unique_lock lock(mutex_);
  if (const auto place = find(version); place != places_.end()) place->dropped = true;
  ShelfPlaces gone = take_dropped();
  lock.unlock();
  let_go(std::move(gone));
}

AdapterFigures AdapterShelf::figures() const {
  std::lock_guard lock(mutex_);
  AdapterFigures now = figures_;
  for (const ShelfPlace& place : places_) {
    now.held++;
    now.bytes += place.bytes;
  }
  return now;
}

}  // namespace fulmar
