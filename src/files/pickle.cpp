#include "files/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace fulmar {
namespace {

using Kind = PickleValue::Kind;

// A genuine 14B checkpoint needs 200 KB and 50,000 values.
constexpr size_t kMaxBytes = size_t{64} << 20;
constexpr size_t kMaxValues = size_t{1} << 20;
constexpr size_t kMaxItems = size_t{4} << 20;  // over all containers
constexpr size_t kMaxStack = size_t{1} << 20;
constexpr size_t kMaxMemo = size_t{1} << 20;
constexpr size_t kMaxMarks = 64;
constexpr size_t kMaxTensorArguments = 8;

constexpr std::string_view kOrderedDict = "collections\nOrderedDict";
constexpr std::string_view kRebuildTensor = "torch._utils\n_rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils\n_rebuild_parameter";
constexpr std::array<std::string_view, 11> kAllowedGlobals = {
    kOrderedDict,         kRebuildTensor,           kRebuildParameter,      "torch\nFloatStorage",
    "torch\nHalfStorage", "torch\nBFloat16Storage", "torch\nDoubleStorage", "torch\nLongStorage",
    "torch\nIntStorage",  "torch\nByteStorage",     "torch\nCharStorage"};

class Machine {
 public:
  explicit Machine(ByteSpan bytes) : bytes_(bytes.first(std::min(bytes.size(), kMaxBytes))) {}

  Result<Pickle> run() {
    while (!stopped_) {
      start_ = at_;
      if (at_ >= bytes_.size()) return fail("ends without STOP");
      opcode_ = std::to_integer<uint8_t>(bytes_[at_++]);
      FULMAR_TRY(step());
      if (stack_.size() > kMaxStack) return fail(fmt::format("more than {} values on the stack", kMaxStack));
      if (pickle_.values.size() > kMaxValues) return fail(fmt::format("more than {} values", kMaxValues));
    }
    if (stack_.size() != 1 || stack_[0]->is(Kind::mark)) {
      return fail(fmt::format("STOP with {} values left; wanted 1", stack_.size()));
    }
    pickle_.root = stack_[0];
    pickle_.length = at_;
    return std::move(pickle_);
  }

 private:
  Error fail(std::string_view what) const {
    return {ErrorKind::corrupt,
            fmt::format("pickle: {} (opcode 0x{:02x} at byte {})", what, opcode_, start_)};
  }

  Status step() {
    switch (opcode_) {
      case 0x80:
        return protocol();
      case '.':
        stopped_ = true;
        return {};
      case 'c':
        return global();
      case 'N':
        return push(Kind::none);
      case 0x88:
        return push_integer(Kind::boolean, 1);
      case 0x89:
        return push_integer(Kind::boolean, 0);
      case 'K':
        return number<uint8_t>();
      case 'M':
        return number<uint16_t>();
      case 'J':
        return number<int32_t>();
      case 0x8a:
        return long_integer();
      case 'G':
        return take(8).ok() ? push(Kind::real) : fail("is cut short");
      case 'X':
        return text();
      case '}':
        return push(Kind::dict);
      case ']':
        return push(Kind::list);
      case ')':
        return push(Kind::tuple);
      case '(':
        return mark();
      case 't':
        return tuple_from_mark();
      case 0x85:
        return tuple_of(1);
      case 0x86:
        return tuple_of(2);
      case 0x87:
        return tuple_of(3);
      case 'a':
        return extend(Kind::list, 1);
      case 's':
        return extend(Kind::dict, 2);
      case 'e':
        return extend_from_mark(Kind::list);
      case 'u':
        return extend_from_mark(Kind::dict);
      case 'q':
        return put<uint8_t>();
      case 'r':
        return put<uint32_t>();
      case 'h':
        return get<uint8_t>();
      case 'j':
        return get<uint32_t>();
      case 'Q':
        return persistent();
      case 'R':
        return reduce();
      case 'b':
        return build();
      default:
        return fail("opcode is not allowed");
    }
  }

  // Takes the next `count` bytes of operands.
  Result<ByteSpan> take(size_t count) {
    if (!lies_inside(bytes_, at_, count)) return fail("is cut short");
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }

  template <class T>
  Result<T> operand() {
    FULMAR_ASSIGN(const ByteSpan raw, take(sizeof(T)));
    return load_at<T>(raw, 0);
  }

  Result<std::string_view> line() {
    const std::string_view rest = as_text(bytes_.subspan(at_));
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) return fail("is cut short");
    at_ += end + 1;
    return rest.substr(0, end);
  }

  // Makes a value and pushes it on the stack.
  PickleValue& make(Kind kind) {
    PickleValue& value = pickle_.values.emplace_back();
    value.kind = kind;
    stack_.push_back(&value);
    return value;
  }

  Status push(Kind kind) {
    make(kind);
    return {};
  }

  Status push_integer(Kind kind, int64_t number) {
    make(kind).integer = number;
    return {};
  }

  // Takes the value on top, which must not be a mark.
  Result<PickleValue*> pop() {
    if (stack_.empty() || stack_.back()->is(Kind::mark)) return fail("finds nothing on the stack");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }

  // Takes the topmost mark and returns its stack index.
  Result<size_t> topmost_mark() {
    if (marks_.empty()) return fail("finds no mark");
    const size_t index = marks_.back();
    marks_.pop_back();
    return index;
  }

  // Moves the values from `first` on off the stack and appends them to `target`.
  Status move_items(size_t first, PickleValue& target) {
    items_ += stack_.size() - first;
    if (items_ > kMaxItems) return fail(fmt::format("more than {} items", kMaxItems));
    target.items.insert(target.items.end(), stack_.begin() + static_cast<ptrdiff_t>(first), stack_.end());
    stack_.resize(first);
    return {};
  }

  Status protocol() {
    FULMAR_ASSIGN(const uint8_t version, operand<uint8_t>());
    if (version < 2 || version > 4) return fail(fmt::format("protocol {}; wanted 2 to 4", version));
    return {};
  }

  Status global() {
    const size_t begin = at_;
    FULMAR_ASSIGN(const std::string_view module, line());
    FULMAR_ASSIGN(const std::string_view name, line());
    const std::string_view both = as_text(bytes_.subspan(begin, at_ - 1 - begin));
    if (std::find(kAllowedGlobals.begin(), kAllowedGlobals.end(), both) == kAllowedGlobals.end()) {
      return fail(fmt::format("global '{} {}' is not allowed; this file may try to run code",
                              printable(module), printable(name)));
    }
    make(Kind::global).text = both;
    return {};
  }

  template <class T>
  Status number() {
    FULMAR_ASSIGN(const T value, operand<T>());
    return push_integer(Kind::integer, value);
  }

  Status long_integer() {
    FULMAR_ASSIGN(const uint8_t length, operand<uint8_t>());
    FULMAR_ASSIGN(const ByteSpan raw, take(length));
    if (length > 8) {
      make(Kind::big_integer).text = as_text(raw);
      return {};
    }
    const bool negative = length > 0 && (std::to_integer<uint8_t>(raw.back()) & 0x80) != 0;
    int64_t value = negative ? -1 : 0;
    std::memcpy(&value, raw.data(), length);
    return push_integer(Kind::integer, value);
  }

  Status text() {
    FULMAR_ASSIGN(const uint32_t length, operand<uint32_t>());
    FULMAR_ASSIGN(const ByteSpan raw, take(length));
    make(Kind::text).text = as_text(raw);
    return {};
  }

  Status mark() {
    if (marks_.size() >= kMaxMarks) return fail(fmt::format("nested deeper than {}", kMaxMarks));
    marks_.push_back(stack_.size());
    make(Kind::mark);
    return {};
  }

  Status tuple_from_mark() {
    FULMAR_ASSIGN(const size_t index, topmost_mark());
    PickleValue& tuple = *stack_[index];
    tuple.kind = Kind::tuple;
    return move_items(index + 1, tuple);
  }

  Status tuple_of(size_t count) {
    const size_t floor = marks_.empty() ? 0 : marks_.back() + 1;
    if (stack_.size() < floor + count) return fail("finds too few values on the stack");
    PickleValue& tuple = pickle_.values.emplace_back();
    tuple.kind = Kind::tuple;
    FULMAR_TRY(move_items(stack_.size() - count, tuple));
    stack_.push_back(&tuple);
    return {};
  }

  // Appends the values from `first` on to the container right below them.
  Status append_to(size_t first, Kind kind) {
    if (first == 0 || !stack_[first - 1]->is(kind)) return fail("finds no container of the right type");
    if (kind == Kind::dict && (stack_.size() - first) % 2 != 0) return fail("finds a key without a value");
    return move_items(first, *stack_[first - 1]);
  }

  Status extend(Kind kind, size_t count) {
    const size_t floor = marks_.empty() ? 0 : marks_.back() + 1;
    if (stack_.size() < floor + count + 1) return fail("finds too few values on the stack");
    return append_to(stack_.size() - count, kind);
  }

  Status extend_from_mark(Kind kind) {
    FULMAR_ASSIGN(const size_t index, topmost_mark());
    stack_.erase(stack_.begin() + static_cast<ptrdiff_t>(index));
    return append_to(index, kind);
  }

  template <class Index>
  Status put() {
    FULMAR_ASSIGN(const Index index, operand<Index>());
    if (index >= kMaxMemo) return fail(fmt::format("memo index {} is not below {}", index, kMaxMemo));
    if (stack_.empty() || stack_.back()->is(Kind::mark)) return fail("finds nothing on the stack");
    if (memo_.size() <= index) memo_.resize(size_t{index} + 1, nullptr);
    memo_[index] = stack_.back();
    return {};
  }

  template <class Index>
  Status get() {
    FULMAR_ASSIGN(const Index index, operand<Index>());
    if (index >= memo_.size() || memo_[index] == nullptr) return fail(fmt::format("memo {} is empty", index));
    stack_.push_back(memo_[index]);
    return {};
  }

  Status persistent() {
    FULMAR_ASSIGN(PickleValue* const id, pop());
    make(Kind::storage).items.push_back(id);
    return {};
  }

  Status reduce() {
    FULMAR_ASSIGN(PickleValue* const arguments, pop());
    FULMAR_ASSIGN(PickleValue* const callee, pop());
    if (!arguments->is(Kind::tuple) || !callee->is(Kind::global)) return fail("is not a call of a global");
    const std::string_view name = callee->text;
    if (name == kOrderedDict && arguments->items.empty()) return push(Kind::dict);
    if (name == kRebuildTensor && arguments->items.size() <= kMaxTensorArguments) {
      make(Kind::tensor).items = arguments->items;
      return {};
    }
    if (name == kRebuildParameter && !arguments->items.empty() && arguments->items[0]->is(Kind::tensor)) {
      make(Kind::tensor).items = arguments->items[0]->items;
      return {};
    }
    return fail(fmt::format("call of '{}' with {} arguments is not allowed", printable(name),
                            arguments->items.size()));
  }

  // Ignores the attributes of an object, such as the module versions of a state dict.
  Status build() {
    FULMAR_TRY(drop());
    if (stack_.empty() || stack_.back()->is(Kind::mark)) return fail("finds no object");
    return {};
  }

  Status drop() {
    FULMAR_ASSIGN([[maybe_unused]] const PickleValue* const dropped, pop());
    return {};
  }

  const ByteSpan bytes_;
  size_t at_ = 0;
  size_t start_ = 0;  // of the present opcode
  uint8_t opcode_ = 0;
  bool stopped_ = false;
  size_t items_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;  // stack indices
  std::vector<PickleValue*> memo_;
  Pickle pickle_;
};

}  // namespace

const PickleValue* PickleValue::entry(std::string_view key) const {
  for (size_t i = items.size(); kind == Kind::dict && i >= 2; i -= 2) {
    const PickleValue& name = *items[i - 2];
    if (name.is(Kind::text) && name.text == key) return items[i - 1];
  }
  return nullptr;
}

Result<Pickle> read_pickle(ByteSpan bytes) { return Machine(bytes).run(); }

}  // namespace fulmar
