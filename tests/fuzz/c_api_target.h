// SPDX-License-Identifier: Apache-2.0
// Random calls of the C ABI, with valid handles and arguments of any value: every call succeeds or
// is refused with a message; a chain that verifies is printed, parsed and evaluated, its facts are
// asked for, and the chains of its gradient and of one device verify. Weights are repacked.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "catenary/catenary.h"
#include "ir/random/random.h"
#include "tests/fuzz/require.h"

namespace catenary::fuzz {

inline constexpr const char* kNames[] = {nullptr,
                                         "",
                                         "x",
                                         "y",
                                         "w",
                                         "t0",
                                         "t1",
                                         "t5",
                                         "M",
                                         "2x",
                                         "a b",
                                         "\x1b[31m",
                                         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
inline constexpr const char* kEquations[] = {
    "mk,nk->mn", "mn->n", "mn->m",    "mk,enk->mn",      "mn,mk->enk",          "m,m->m", "mk,nk",
    "->",        "",      "mm,mm->m", "\xff,\xff->\xff", "abcdefgh->abcdefghi", "k,k->"};
inline constexpr const char* kOps[] = {
    "add",  "sub",      "mul",     "div",  "min",   "max",        "scale",    "neg",        "clamp",
    "relu", "relu2",    "silu",    "gelu", "tanh",  "leaky_relu", "softplus", "gelu_tanh",  "exp",
    "abs",  "square",   "sqrt",    "log",  "rsqrt", "recip",      "pow",      "exp2",       "erf",
    "sin",  "cos",      "lt",      "ge",   "ne",    "select",     "sigmoid",  "quick_gelu", "eq",
    "",     "contract", "dequant", "tan",  "rellu", nullptr};
inline constexpr const char* kReductions[] = {"sum", "reduce_max", "max", "", nullptr};
inline constexpr const char* kLabels[] = {nullptr, "", "m", "mn", "n", "nm", "mm", "\xff"};
inline constexpr i64 kSizes[] = {0,
                                 1,
                                 1,
                                 2,
                                 2,
                                 3,
                                 4,
                                 4,
                                 4,
                                 -1,
                                 CTN_SYMBOL,
                                 i64{1} << 31,
                                 i64{1} << 40,
                                 INT64_MAX,
                                 INT64_MIN + 1};
inline constexpr size_t kStructSizes[] = {0, 8, sizeof(ctn_parameter) - 1, 2000, SIZE_MAX};
inline constexpr double kNumbers[] = {0, -0.0, 1, -1.5, 0.3, 1e-46, 1e39, 1e300, -1e-300};

template <class Source, typename T, size_t n>
T pick(Source& random, const T (&from)[n]) {
  return from[random.range(0, static_cast<i64>(n) - 1)];
}

// Choices that the bytes of an input make; 0 after the last one.
class Bytes {
 public:
  Bytes(const u8* data, size_t size) : data_(data), left_(size) {}
  u64 next() {
    u64 word = 0;
    for (int i = 0; i < 8 && left_ > 0; ++i, --left_) word = word << 8 | *data_++;
    return word;
  }
  // As of Random, by one byte.
  i64 range(i64 lo, i64 hi) { return lo + byte() % (hi - lo + 1); }
  bool chance(int percent) { return byte() * 100 < percent * 256; }

 private:
  int byte() { return left_ == 0 ? 0 : (--left_, *data_++); }
  const u8* data_;
  size_t left_;
};

// Most values are those of a caller that knows the chain. `Source`: Random, or Bytes.
template <class Source>
class Calls {
 public:
  explicit Calls(Source source) : random_(std::move(source)) {
    check(ctn_chain_create("c", &chain_));
  }
  ~Calls() { ctn_chain_destroy(chain_); }

  void run() {
    for (i64 left = random_.range(1, 24); left > 0; --left) call();
    finish();
    if (random_.chance(10)) repack();
  }

 private:
  void check(ctn_status status) {
    FUZZ_REQUIRE(status != CTN_INTERNAL);
    if (status == CTN_OK) return;
    const std::string message = ctn_last_error();
    FUZZ_REQUIRE(!message.empty());
    FUZZ_REQUIRE(message.size() < 4096);
    for (const char c : message) FUZZ_REQUIRE((c >= ' ' && c <= '~'));
  }

  ctn_value value() {
    if (random_.chance(5)) return static_cast<ctn_value>(random_.next());
    return static_cast<ctn_value>(random_.range(0, std::max(values_, 1) - 1));
  }
  // Made by a call; the next value has the next number.
  void made(ctn_status status, const ctn_value& number) {
    check(status);
    if (status != CTN_OK) return;
    FUZZ_REQUIRE(number == values_);
    ++values_;
  }
  const char* name() { return random_.chance(60) ? nullptr : pick(random_, kNames); }
  i32 small(i32 most) {
    return random_.chance(5) ? static_cast<i32>(random_.next())
                             : static_cast<i32>(random_.range(0, most));
  }

  void call() {
    ctn_value fresh = -7;
    switch (random_.range(0, 10)) {
      case 0:
        if (random_.chance(30)) {
          return check(ctn_chain_word(
              chain_, random_.chance(50) ? "batch_invariant" : pick(random_, kNames)));
        }
        return check(ctn_chain_symbol(chain_, pick(random_, kNames), pick(random_, kSizes),
                                      pick(random_, kSizes)));
      case 1:
      case 2:
      case 3:
        return parameter();
      case 4:
        return made(ctn_chain_constant(chain_, pick(random_, kNumbers), name(), &fresh), fresh);
      case 5:
        return contract();
      case 6:
        return made(random_.chance(50)
                        ? ctn_chain_sum(chain_, pick(random_, kEquations), value(), name(), &fresh)
                        : ctn_chain_reduce(chain_, pick(random_, kReductions),
                                           pick(random_, kEquations), value(), name(), &fresh),
                    fresh);
      case 7:
        return made(ctn_chain_cast(chain_, value(), small(3), name(), &fresh), fresh);
      case 8:
        return result();
      case 9:
        return dequant();
      default:
        return elementwise();
    }
  }

  void parameter() {
    int64_t dims[9], strides[9];
    for (int64_t& dim : dims)
      dim = random_.chance(80) ? random_.range(1, 4) : pick(random_, kSizes);
    for (int64_t& stride : strides) stride = pick(random_, kSizes);
    ctn_parameter given{};
    given.struct_size = random_.chance(98) ? sizeof given : pick(random_, kStructSizes);
    given.name = name();
    given.role = random_.chance(80) ? random_.range(0, 1) : small(3);
    given.dtype = random_.chance(60) ? CTN_F32 : small(7);
    given.packed = random_.chance(90) ? 0 : small(2);
    given.rank = random_.chance(80) ? 2 : small(9);
    given.dims = random_.chance(98) ? dims : nullptr;
    given.strides = random_.chance(80) ? nullptr : strides;
    given.align = random_.chance(80) ? 0 : random_.range(-1, 64);
    ctn_value fresh = -7;
    made(ctn_chain_parameter(chain_, &given, &fresh), fresh);
  }

  void contract() {
    ctn_ragged ragged{};
    ragged.struct_size = sizeof ragged;
    ragged.label = static_cast<char>(random_.chance(80) ? 'm' : random_.next());
    ragged.group = static_cast<char>(random_.chance(80) ? 'e' : random_.next());
    ragged.ends = value();
    ctn_value fresh = -7;
    made(ctn_chain_contract(chain_, pick(random_, kEquations), value(), value(),
                            random_.chance(90) ? 1 : 3, random_.chance(80) ? nullptr : &ragged,
                            name(), &fresh),
         fresh);
  }

  void dequant() {
    ctn_value fresh = -7;
    const auto block = [&] {
      return random_.chance(80) ? random_.range(1, 4) : pick(random_, kSizes);
    };
    const ctn_value zero = random_.chance(50) ? -1 : value();
    const i64 rows = block();
    made(ctn_chain_dequant(chain_, value(), value(), zero, rows, block(), name(), &fresh), fresh);
  }

  void elementwise() {
    const ctn_use uses[] = {
        {value(), pick(random_, kLabels)}, {value(), nullptr}, {value(), nullptr}};
    const double attributes[] = {pick(random_, kNumbers), pick(random_, kNumbers), 0};
    ctn_value fresh = -7;
    made(ctn_chain_elementwise(chain_, pick(random_, kOps), uses, random_.range(0, 3), attributes,
                               random_.range(0, 3), name(), &fresh),
         fresh);
  }

  void result() {
    int64_t strides[9];
    for (int64_t& stride : strides) stride = pick(random_, kSizes);
    ctn_output given{};
    given.struct_size = sizeof given;
    given.value = value();
    given.dtype = small(4);
    given.num_strides = random_.chance(80) ? 0 : small(9);
    given.strides = strides;
    given.in_place = random_.chance(70) ? 0 : value() + 1;
    check(ctn_chain_return(chain_, &given));
  }

  void finish() {
    ctn_output given{};
    given.struct_size = sizeof given;
    given.value = values_ - 1;
    given.dtype = CTN_F32;
    check(ctn_chain_return(chain_, &given));
    const ctn_status verified = ctn_chain_verify(chain_);
    check(verified);
    char* text = nullptr;
    FUZZ_REQUIRE(ctn_chain_print(chain_, &text) == verified);
    if (verified != CTN_OK) return;
    ctn_chain* parsed = nullptr;
    FUZZ_REQUIRE(ctn_chain_parse(text, std::strlen(text), &parsed) == CTN_OK);
    char* again = nullptr;
    FUZZ_REQUIRE(ctn_chain_print(parsed, &again) == CTN_OK);
    FUZZ_REQUIRE(std::string(text) == again);
    ctn_reference_args args{};
    args.struct_size = sizeof args;
    args.num_tensors = 1;  // without an array: refused, whatever the chain takes
    check(ctn_reference_run(parsed, &args));
    facts(parsed);
    gradient(parsed);
    ctn_string_free(text);
    ctn_string_free(again);
    ctn_chain_destroy(parsed);
  }

  void facts(const ctn_chain* chain) {
    char digest[65] = {}, same[65] = {};
    FUZZ_REQUIRE(ctn_chain_digest(chain, digest) == CTN_OK);
    FUZZ_REQUIRE(ctn_chain_digest(chain_, same) == CTN_OK);
    FUZZ_REQUIRE(std::string(digest) == same && std::strlen(digest) == 64);
    ctn_operands* operands = nullptr;
    FUZZ_REQUIRE(ctn_chain_operands(chain, &operands) == CTN_OK);
    size_t count = 0;
    FUZZ_REQUIRE(ctn_operands_count(operands, &count) == CTN_OK);
    for (size_t i = 0; i <= count; ++i) {
      ctn_operand operand{};
      operand.struct_size = sizeof operand;
      FUZZ_REQUIRE((ctn_operands_get(operands, i, &operand) == CTN_OK) == (i < count));
      if (i < count) FUZZ_REQUIRE(operand.bytes >= 0 && operand.rank <= 8);
    }
    ctn_operands_destroy(operands);
    char* factors = nullptr;
    check(ctn_chain_factors(chain, &factors));
    ctn_string_free(factors);
    std::vector<int64_t> parts(static_cast<size_t>(random_.range(0, 4)));
    for (int64_t& part : parts) part = random_.chance(80) ? random_.range(1, 3) : small(9);
    ctn_chain* one = nullptr;
    check(ctn_chain_shard(chain, parts.data(), parts.size(), &one));
    if (one != nullptr) FUZZ_REQUIRE(ctn_chain_verify(one) == CTN_OK);
    ctn_chain_destroy(one);
  }

  void gradient(const ctn_chain* chain) {
    const char* const wanted[] = {"x", "t0"};
    ctn_gradient_options options{};
    options.struct_size = sizeof options;
    options.wanted = wanted;
    options.num_wanted = random_.chance(70) ? 0 : static_cast<size_t>(random_.range(0, 2));
    options.recompute = random_.chance(90) ? random_.range(0, 3) : small(5);
    options.save_f32 = random_.range(0, 1);
    options.save_budget = random_.chance(90) ? random_.range(0, 100) : pick(random_, kSizes);
    options.f32_weights = random_.range(0, 1);
    options.accumulate = random_.range(0, 1);
    ctn_gradient* made = nullptr;
    check(ctn_chain_gradient(chain, &options, &made));
    if (made == nullptr) return;
    size_t count = 0;
    FUZZ_REQUIRE(ctn_gradient_count(made, &count) == CTN_OK && count >= 2);
    for (size_t i = 0; i < count; ++i) {
      ctn_chain* part = nullptr;
      FUZZ_REQUIRE(ctn_gradient_chain(made, i, &part, nullptr) == CTN_OK);
      FUZZ_REQUIRE(ctn_chain_verify(part) == CTN_OK);
      ctn_chain_destroy(part);
    }
    ctn_gradient_destroy(made);
  }

  // 0 where it is negative, or more memory than a test takes.
  static int64_t product(int64_t a, int64_t b) {
    constexpr int64_t kMost = 1 << 16;
    const bool fits = a >= 0 && b >= 0 && a <= kMost && b <= kMost;
    return fits && a * b <= kMost ? a * b : 0;
  }

  // Buffers have exactly the bytes that are named.
  void repack() {
    const auto size = [&] {
      return random_.chance(90) ? random_.range(0, 40) : pick(random_, kSizes);
    };
    ctn_repack_args args{};
    args.struct_size = sizeof args;
    args.format = small(5);
    args.dtype = random_.chance(90) ? random_.range(CTN_I8, CTN_U4) : small(7);
    args.rows = size();
    args.columns = size();
    args.groups = random_.chance(50) ? 0 : size();
    int64_t packed = 0;
    check(ctn_packed_bytes(args.dtype, args.rows, args.columns, &packed));
    // What most formats take: words of 32 bits along one side.
    const int64_t bits = args.dtype == CTN_I8 ? 8 : 4;
    const auto words = [&](int64_t along, int64_t other) {
      const int64_t plain = product(along, other) * bits / 8;
      return random_.chance(70) ? plain : product((product(along, bits) + 31) / 32, other) * 4;
    };
    using Buffer = std::vector<unsigned char>;
    Buffer weight(static_cast<size_t>(words(args.columns, args.rows)), 0x5a);
    Buffer zeros(static_cast<size_t>(words(args.rows, args.groups)), 0xa5);
    Buffer to(static_cast<size_t>(product(packed, 1)));
    Buffer to_zeros(static_cast<size_t>(product(args.rows, args.groups)));
    args.weight = random_.chance(90) ? weight.data() : nullptr;
    args.weight_bytes = weight.size();
    args.packed = to.data();
    args.packed_bytes = to.size();
    args.zeros = args.groups == 0 ? nullptr : zeros.data();
    args.zeros_bytes = zeros.size();
    args.packed_zeros = args.groups == 0 ? nullptr : to_zeros.data();
    args.packed_zeros_bytes = to_zeros.size();
    check(ctn_repack(&args));
  }

  Source random_;
  ctn_chain* chain_ = nullptr;
  int values_ = 0;
};

}  // namespace catenary::fuzz
