#include "model/block_kind.h"

#include "files/model_config.h"
#include "model/rwkv6.h"
#include "model/rwkv7.h"
#include "rwkv6/state.h"
#include "rwkv7/state.h"

namespace fulmar {

namespace {

template <class Version>
std::unique_ptr<Stack> make(const Binder& binder, LayerRange held, Buffers& buffers, int64_t max_rows) {
  return std::make_unique<Version>(binder, held, buffers, max_rows);
}

constexpr BlockKind kBlock7{kFields7, kKeptRow7, true, make<Rwkv7>};
constexpr BlockKind kBlock6{kFields6, kKeptRow6, false, make<Rwkv6>};

}  // namespace

const BlockKind& block_kind(const ModelConfig& config) {
  return *of_version(config.version, &kBlock7, &kBlock6);
}

}  // namespace fulmar
