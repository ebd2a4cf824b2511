// Adapters on a model's devices while rows use them: who stays, who goes, and that no stream ever changes its
// adapter.
#include <gmock/gmock.h>

#include <map>
#include <random>

#include "server/adapters/adapter_registry.h"
#include "server/adapters/adapter_rig.h"
#include "support/tiny_engine.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;

// A registry over a small model on the CPU.
class AdaptedEngine {
 public:
  explicit AdaptedEngine(AdapterLimits limits = {}) : registry_(models_, std::move(limits)) {
    auto facts = std::make_shared<ServedModel>();
    facts->id = "tiny";
    facts->engine = &tiny_.engine();
    facts->tokenizer = &tiny_.tokenizer();
    facts->adapters = std::make_shared<AdapterShelf>(tiny_.engine(), adapter_base(TinyEngine::spec(7)));
    model_ = facts;
    models_.add(facts);
  }

  // Registers a LoRA under that id whose numbers depend on `kind`; returns its version.
  std::string add(const std::string& id, int kind) {
    const std::string file = lora_file(0.02f * static_cast<float>(kind + 1));
    const std::vector<NamedBytes> files = {{"a.safetensors", file}};
    NewAdapter adapter;
    adapter.id = id;
    auto parcel = read_parcel(files, {.scale = 5.0 + kind});
    EXPECT_TRUE(parcel.ok());
    if (parcel.ok()) adapter.parcel = std::move(*parcel);
    const auto added = registry_.add(std::move(adapter));
    EXPECT_TRUE(std::holds_alternative<std::string>(added));
    return std::holds_alternative<std::string>(added) ? std::get<std::string>(added) : std::string();
  }
  AdapterChosen choose(const AdapterWish& wish) { return registry_.choose({}, model_, wish); }
  std::variant<AdapterUse, ApiError> lease(const std::string& id) {
    const AdapterChosen chosen = choose({.id = id});
    if (const auto* fault = std::get_if<ApiError>(&chosen)) return *fault;
    return registry_.lease(std::get<AdapterChoice>(chosen), model_);
  }
  AdapterFigures figures() const { return registry_.figures(); }
  AdapterRegistry& registry() { return registry_; }
  TinyEngine& tiny() { return tiny_; }

 private:
  TinyEngine tiny_{{.slots = 4, .prefill_chunk = 16}};
  ModelRegistry models_;
  AdapterRegistry registry_;
  ServedModelPtr model_;
};

// Bytes of one of lora_file()'s adapters.
constexpr uint64_t kBytes = (2 * 64 + 64 * 2) * sizeof(float);

AdapterLimits room_for(uint64_t count) { return {.device_bytes = count * kBytes}; }

ApiError fault_of(const std::variant<AdapterUse, ApiError>& leased) {
  EXPECT_TRUE(std::holds_alternative<ApiError>(leased));
  return std::holds_alternative<ApiError>(leased) ? std::get<ApiError>(leased) : ApiError();
}

TEST(AdapterShelf, AnAdapterInUseIsNeverEvicted) {
  AdaptedEngine engine(room_for(2));
  for (int i = 0; i < 4; i++) engine.add(std::string(1, static_cast<char>('a' + i)), i);
  auto a = engine.lease("a");
  auto b = engine.lease("b");
  ASSERT_TRUE(std::holds_alternative<AdapterUse>(a) && std::holds_alternative<AdapterUse>(b));
  const ApiError busy = fault_of(engine.lease("c"));
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.text, "adapter GPU admission denied: active leases");
  EXPECT_GT(busy.retry_after, 0);
  a = ApiError();
  EXPECT_TRUE(std::holds_alternative<AdapterUse>(engine.lease("c")));  // in a's place
  EXPECT_EQ(engine.figures().evictions, 1);
  const int64_t loads = engine.figures().loads;
  EXPECT_TRUE(std::holds_alternative<AdapterUse>(engine.lease("b")));
  EXPECT_EQ(engine.figures().loads, loads);
  EXPECT_LE(engine.figures().peak_bytes, 2 * kBytes);
}

TEST(AdapterShelf, OneBeyondTheBudgetIsRefused) {
  AdaptedEngine engine({.device_bytes = kBytes - 1});
  engine.add("a", 0);
  const ApiError large = fault_of(engine.lease("a"));
  EXPECT_EQ(large.status, 400);
  EXPECT_EQ(large.text, "adapter exceeds GPU budget");
}

TEST(AdapterShelf, ARemovedAdapterLivesAsLongAsItsRows) {
  AdaptedEngine engine(room_for(1));
  const std::string version = engine.add("a", 0);
  engine.add("b", 1);
  auto used = engine.lease("a");
  ASSERT_TRUE(std::holds_alternative<AdapterUse>(used));
  EXPECT_TRUE(engine.registry().remove({}, "a", version));
  EXPECT_FALSE(engine.registry().remove({}, "a", version));
  EXPECT_EQ(fault_of(engine.lease("a")).text, "unknown adapter id");
  EXPECT_EQ(fault_of(engine.lease("b")).status, 503);
  EXPECT_NE(std::get<AdapterUse>(used).adapter, nullptr);
  used = ApiError();
  EXPECT_TRUE(std::holds_alternative<AdapterUse>(engine.lease("b")));
  EXPECT_EQ(engine.figures().evictions, 0);  // it went because it was removed
}

TEST(AdapterShelf, ScaleZeroLoadsNothing) {
  AdaptedEngine engine;
  engine.add("a", 0);
  const AdapterChosen none = engine.choose({.id = "a", .scale = 0.0});
  ASSERT_TRUE(std::holds_alternative<AdapterChoice>(none));
  EXPECT_EQ(std::get<AdapterChoice>(none).id, "a");
  EXPECT_EQ(engine.figures().loads, 0);
}

// Streams run while adapters come, go and make room for others: each says what it says alone.
TEST(AdapterShelf, NoStreamChangesItsAdapterWhateverHappensMeanwhile) {
  constexpr int kKinds = 4, kRounds = 60;
  AdaptedEngine engine(room_for(3));
  const auto ask_with = [](const AdapterUse& use) {
    Ask ask = TinyEngine::greedy("tell me", 24);
    ask.adapter = use;
    return ask;
  };
  std::map<int, std::string> alone;
  alone[-1] = engine.tiny().run(TinyEngine::greedy("tell me", 24)).text;
  for (int kind = 0; kind < kKinds; kind++) {
    engine.add("x", kind);
    const auto use = engine.lease("x");
    ASSERT_TRUE(std::holds_alternative<AdapterUse>(use));
    alone[kind] = engine.tiny().run(ask_with(std::get<AdapterUse>(use))).text;
    EXPECT_NE(alone[kind], alone[-1]);
  }
  engine.registry().remove({}, "x", {});
  struct Stream {
    std::shared_ptr<RecordingListener> listener;
    int kind = -1;
  };
  std::vector<Stream> streams;
  std::map<std::string, int> registered;  // id -> kind
  std::mt19937 random(11);
  const auto below = [&](int most) { return std::uniform_int_distribution<int>(0, most - 1)(random); };
  int64_t refused = 0;
  for (int round = 0; round < kRounds; round++) {
    const std::string id(1, static_cast<char>('a' + below(3)));
    const int what = below(6);
    if (what == 0) {
      engine.registry().remove({}, id, {});
      registered.erase(id);
    } else if (what == 1 || registered.empty()) {
      registered[id] = below(kKinds);
      engine.add(id, registered[id]);
    } else if (what == 2 && !streams.empty()) {
      EXPECT_EQ(streams.front().listener->finished().at(0).text, alone[streams.front().kind]);
      streams.erase(streams.begin());
    } else {
      const auto use = engine.lease(id);
      if (const auto* fault = std::get_if<ApiError>(&use)) {
        EXPECT_EQ(fault->status, registered.contains(id) ? 503 : 400) << fault->text;
        ++refused;
        continue;
      }
      ASSERT_TRUE(registered.contains(id));
      streams.push_back({engine.tiny().submit({ask_with(std::get<AdapterUse>(use))}), registered[id]});
    }
  }
  for (const Stream& stream : streams) {
    EXPECT_EQ(stream.listener->finished().at(0).text, alone[stream.kind]);
  }
  EXPECT_GT(engine.figures().evictions + refused, 0);
}

}  // namespace
}  // namespace fulmar::testing
