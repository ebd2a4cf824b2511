// The adapters on the devices of one model: copied when a request wants them, kept as long as there is room.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "adapters/fit.h"
#include "base/result.h"
#include "engine/engine.h"
#include "server/adapters/adapter_table.h"
#include "server/core/adapter_figures.h"

namespace fulmar {

// What adapters need to know of a model beside its engine.
struct AdapterBase {
  BaseShapes shapes;
  // Returns SHA-256 of the model's file, in hexadecimal digits; may read all of it at the first call. From
  // any thread.
  std::function<Result<std::string>()> sha256;
  // Opens the model's file, for adapters whose live form depends on its weights (DoRA). From any thread.
  std::function<Result<std::unique_ptr<Checkpoint>>()> open;
};

// Thread-safe. Lives in its model's facts: it is gone before the engine.
class AdapterShelf {
 public:
  AdapterShelf(Engine& engine, AdapterBase base);

  const AdapterBase& base() const { return base_; }
  // Returns a text that is equal for models that take the same adapters: version and sizes.
  const std::string& shapes_text() const { return shapes_text_; }

  // Returns the adapter's copy on the devices, made now where there is none; `budget` bounds the bytes of
  // all. Blocks for the copy, which the engine's thread makes between two steps. Errors: 400 where it exceeds
  // the budget or is refused by the model; 503 with Retry-After while those in use leave no room.
  std::variant<std::shared_ptr<const DeviceAdapter>, ApiError> lease(const AdapterContentPtr& content,
                                                                     uint64_t budget, bool any_base);
  // Drops a copy: at once, or where a row uses it when room is next wanted after that.
  void forget(const std::string& version);
  AdapterFigures figures() const;

 private:
  struct ShelfPlace {
    AdapterContentPtr content;
    std::shared_ptr<const DeviceAdapter> device;  // null: being copied
    uint64_t bytes = 0, used = 0;
    bool dropped = false;  // goes once nobody uses it
  };
  using ShelfPlaces = std::list<ShelfPlace>;

  ShelfPlaces::iterator find(const std::string& version);
  bool in_use(const ShelfPlace& place) const { return !place.device || place.device.use_count() > 1; }
  // Takes out those that leave so that `bytes` more fit. An error where they cannot.
  std::variant<ShelfPlaces, ApiError> make_room(uint64_t bytes, uint64_t budget);
  Result<std::shared_ptr<const DeviceAdapter>> copy(const AdapterContent& content, bool any_base);
  // Takes out those that were dropped and are not used any more.
  ShelfPlaces take_dropped();
  // Frees what was taken out; without the lock, as it may wait for a device.
  void let_go(ShelfPlaces leaving);

  Engine& engine_;
  const AdapterBase base_;
  const std::string shapes_text_;
  mutable std::mutex mutex_;
  std::condition_variable copied_;
  ShelfPlaces places_;
  uint64_t clock_ = 0;
  AdapterFigures figures_;  // the counters and the peak
};

}  // namespace fulmar
