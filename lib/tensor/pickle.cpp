#include "tensor/pickle.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "core/error.h"
#include "tensor/pickle_object.h"

namespace sgtrain::tensor {

using pickling::Arena;
using pickling::broken;
using pickling::Object;
using Kind = Object::Kind;

namespace {

// Opcodes by their letter, as pickletools names them.
enum Op : unsigned char {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kBinFloat = 'G',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinBytes8 = 0x8e,
  kByteArray8 = 0x96,
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kList = 'l',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyDict = '}',
  kDict = 'd',
  kSetItem = 's',
  kSetItems = 'u',
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kReduce = 'R',
  kNewObj = 0x81,
  kNewObjEx = 0x92,
  kBuild = 'b',
  kBinPersId = 'Q',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kMemoize = 0x94,
  kProto = 0x80,
  kFrame = 0x95,
};
constexpr int kNewestProtocol = 5;
constexpr std::size_t kMaxStack = 5'000'000;

}  // namespace

class Unpickler::Machine {
 public:
  Machine(std::span<const std::byte> bytes, std::string where)
      : bytes_(bytes), where_(std::move(where)) {}

  void run() {
    guarded([&] {
      while (!step(u8())) {
        if (stack_.size() > kMaxStack) broken("too many objects");
      }
      result_ = pop();
      pickling::check_tree(result_);
    });
  }

  // Everything that can be wrong is wrong with the file: say which, and where in it.
  template <class F>
  auto guarded(F f) -> decltype(f()) {
    try {
      return f();
    } catch (const core::InputError&) {
      throw;
    } catch (const core::Error& error) {
      throw core::InputError(fmt::format("cannot read the pickle (byte {}): {}", at_, error.what()),
                             where_, fix_);
    } catch (const c10::Error& error) {
      throw core::InputError(
          fmt::format("cannot read the pickle: {}", error.what_without_backtrace()), where_, fix_);
    }
  }

  std::size_t at_ = 0;
  Arena arena_;
  Object* result_ = nullptr;

 private:
  static constexpr const char* fix_ =
      "the file is damaged, or not a checkpoint of tensors and plain values";

  std::string_view take(std::uint64_t n) {
    if (n > bytes_.size() - at_) broken("it ends too early");
    const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + at_;
    at_ += n;
    return {begin, n};
  }
  template <class T>
  T little() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::uint8_t u8() { return little<std::uint8_t>(); }
  std::string_view line() {
    const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + at_;
    const void* end = std::memchr(begin, '\n', bytes_.size() - at_);
    if (end == nullptr) broken("it ends too early");
    const std::string_view text = take(static_cast<const char*>(end) - begin);
    ++at_;
    return text;
  }

  void push(Object* object) { stack_.push_back(object); }
  Object* pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) broken("its stack is empty");
    Object* top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Object* top() {
    Object* object = pop();
    push(object);
    return object;
  }
  std::vector<Object*> pop_to_mark() {
    if (marks_.empty()) broken("a mark is missing");
    std::vector<Object*> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                               stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }

  // One opcode; true at the end. In groups, so that each stays readable.
  bool step(std::uint8_t op) {
    if (op == kStop) return true;
    if (!scalar(op) && !text(op) && !container(op) && !object(op) && !memo(op)) {
      broken(fmt::format("opcode 0x{:02x} is not one that torch.save writes", op));
    }
    return false;
  }

  bool scalar(std::uint8_t op) {
    Object* made = nullptr;
    switch (op) {
      case kNone:
        made = arena_.make(Kind::kNone);
        break;
      case kNewTrue:
      case kNewFalse:
        made = arena_.make(Kind::kBool);
        made->number.boolean = op == kNewTrue;
        break;
      case kBinInt:
        made = arena_.integer(little<std::int32_t>());
        break;
      case kBinInt1:
        made = arena_.integer(u8());
        break;
      case kBinInt2:
        made = arena_.integer(little<std::uint16_t>());
        break;
      case kLong1:
        made = big_integer(take(u8()));
        break;
      case kLong4:
        made = big_integer(take(little<std::uint32_t>()));
        break;
      case kBinFloat:
        made = arena_.make(Kind::kFloat);
        made->number.real = std::bit_cast<double>(__builtin_bswap64(little<std::uint64_t>()));
        break;
      default:
        return false;
    }
    push(made);
    return true;
  }

  Object* big_integer(std::string_view digits) {
    if (digits.size() > 8) {  // kept as its bytes: no number here needs it
      Object* out = arena_.make(Kind::kBytes);
      out->text = digits;
      return out;
    }
    const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = 0; i < digits.size(); ++i) {
      value &= ~(std::uint64_t{0xFF} << (8 * i));
      value |= std::uint64_t{static_cast<unsigned char>(digits[i])} << (8 * i);
    }
    return arena_.integer(static_cast<std::int64_t>(value));
  }

  bool text(std::uint8_t op) {
    Kind kind = Kind::kString;
    std::string_view content;
    switch (op) {
      case kShortBinString:
      case kShortBinUnicode:
        content = take(u8());
        break;
      case kBinString:
      case kBinUnicode:
        content = take(little<std::uint32_t>());
        break;
      case kBinUnicode8:
        content = take(little<std::uint64_t>());
        break;
      case kShortBinBytes:
        kind = Kind::kBytes, content = take(u8());
        break;
      case kBinBytes:
        kind = Kind::kBytes, content = take(little<std::uint32_t>());
        break;
      case kByteArray8:
      case kBinBytes8:
        kind = Kind::kBytes, content = take(little<std::uint64_t>());
        break;
      default:
        return false;
    }
    Object* out = arena_.make(kind);
    out->text = content;
    push(out);
    return true;
  }

  bool container(std::uint8_t op) {
    switch (op) {
      case kMark:
        marks_.push_back(stack_.size());
        return true;
      case kPop:
        if (!marks_.empty() && marks_.back() == stack_.size()) {
          marks_.pop_back();
        } else {
          pop();
        }
        return true;
      case kEmptySet:
      case kEmptyList:
        push(arena_.make(Kind::kList));
        return true;
      case kEmptyDict:
        push(arena_.make(Kind::kDict));
        return true;
      case kEmptyTuple:
        push(arena_.make(Kind::kTuple));
        return true;
      case kTuple1:
      case kTuple2:
      case kTuple3: {
        std::vector<Object*> items(op - kTuple1 + 1);
        for (std::size_t i = items.size(); i-- > 0;) items[i] = pop();
        push(arena_.tuple(std::move(items)));
        return true;
      }
      case kTuple:
        push(arena_.tuple(pop_to_mark()));
        return true;
      case kFrozenSet:
      case kList:
        push(arena_.make(Kind::kList));
        return swap_in(pop_to_mark_below());
      case kDict:
        push(arena_.make(Kind::kDict));
        return swap_in(pop_to_mark_below());
      case kAppend:
        add({pop()}, false);
        return true;
      case kAddItems:
      case kAppends:
        add(pop_to_mark(), false);
        return true;
      case kSetItem: {
        Object* value = pop();
        Object* key = pop();
        add({key, value}, true);
        return true;
      }
      case kSetItems:
        add(pop_to_mark(), true);
        return true;
      default:
        return false;
    }
  }

  // LIST, DICT, FROZENSET: the new container was pushed above the items that it takes.
  std::vector<Object*> pop_to_mark_below() {
    Object* container = pop();
    std::vector<Object*> items = pop_to_mark();
    push(container);
    return items;
  }
  bool swap_in(std::vector<Object*> items) {
    const bool pairs = top()->is(Kind::kDict);
    add(std::move(items), pairs);
    return true;
  }

  void add(const std::vector<Object*>& items, bool pairs) {
    Object* target = top();
    const bool fits = target->is(Kind::kObject) || target->is(pairs ? Kind::kDict : Kind::kList);
    if (!fits || (pairs && items.size() % 2 != 0)) broken("items are added to no container");
    target->items.insert(target->items.end(), items.begin(), items.end());
    target->ordered = target->ordered || (pairs && target->is(Kind::kObject));
  }

  bool object(std::uint8_t op) {
    switch (op) {
      case kGlobal: {
        const std::string_view module = line();
        push(global(module, line()));
        return true;
      }
      case kStackGlobal: {
        const Object* name = pop();
        const Object* module = pop();
        if (!name->is(Kind::kString) || !module->is(Kind::kString)) broken("a global has no name");
        push(global(module->text, name->text));
        return true;
      }
      case kReduce:
      case kNewObj: {
        Object* args = pop();
        Object* callable = pop();
        push(pickling::reduce(arena_, callable, args));
        return true;
      }
      case kNewObjEx: {
        Object* named = pop();
        Object* args = pop();
        Object* callable = pop();
        push(pickling::reduce(arena_, callable, arena_.tuple({args, named})));
        return true;
      }
      case kBuild: {
        Object* state = pop();
        pickling::build(arena_, top(), state);
        return true;
      }
      case kBinPersId:
        push(pickling::persistent(arena_, pop()));
        return true;
      default:
        return false;
    }
  }

  Object* global(std::string_view module, std::string_view name) {
    Object* out = arena_.make(Kind::kGlobal);
    out->text = fmt::format("{}.{}", module, name);
    if (pickling::is_harmful(out->text)) {
      throw core::InputError(
          fmt::format("refused: the file asks to run '{}' when it is loaded", out->text), where_,
          "a checkpoint of weights never does; do not load this file in Python either");
    }
    return out;
  }

  bool memo(std::uint8_t op) {
    switch (op) {
      case kBinPut:
        memo_[u8()] = top();
        return true;
      case kLongBinPut:
        memo_[little<std::uint32_t>()] = top();
        return true;
      case kMemoize:
        memo_[static_cast<std::uint32_t>(memo_.size())] = top();
        return true;
      case kBinGet:
        return recall(u8());
      case kLongBinGet:
        return recall(little<std::uint32_t>());
      case kProto:
        if (const int version = u8(); version > kNewestProtocol) {
          broken(fmt::format("its protocol {} is not known", version));
        }
        return true;
      case kFrame:
        little<std::uint64_t>();
        return true;
      default:
        return false;
    }
  }
  bool recall(std::uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) broken("it refers to an object that is not there");
    push(found->second);
    return true;
  }

  std::span<const std::byte> bytes_;
  std::string where_;
  std::vector<Object*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, Object*> memo_;
};

Unpickler::Unpickler(std::span<const std::byte> bytes, std::string where)
    : machine_(std::make_unique<Machine>(bytes, std::move(where))) {}
Unpickler::~Unpickler() = default;

void Unpickler::run() {
  machine_->run();
}

std::size_t Unpickler::consumed() const {
  return machine_->at_;
}

const std::vector<StorageRef>& Unpickler::storages() const {
  return machine_->arena_.storages;
}

Value Unpickler::result(const std::function<at::Tensor(const StorageRef&)>& load) const {
  return machine_->guarded(
      [&] { return pickling::to_value(machine_->arena_, machine_->result_, load); });
}

}  // namespace sgtrain::tensor
