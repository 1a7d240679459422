// SPDX-License-Identifier: Apache-2.0
// Random calls of the C ABI's builder, with valid handles and arguments of any value: every call
// succeeds or is refused with a message, and a chain that verifies is printed, parsed and
// evaluated.
#include <cstring>

#include "catenary/catenary.h"
#include "tests/support/fuzz.h"

using namespace catenary;

namespace {

constexpr const char* kNames[] = {nullptr,
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
constexpr const char* kEquations[] = {
    "mk,nk->mn", "mn->n", "mn->m",    "mk,enk->mn",      "mn,mk->enk",          "m,m->m", "mk,nk",
    "->",        "",      "mm,mm->m", "\xff,\xff->\xff", "abcdefgh->abcdefghi", "k,k->"};
constexpr const char* kOps[] = {"add", "mul", "relu",     "silu", "clamp", "leaky_relu", "scale",
                                "max", "exp", "contract", "cos",  "",      "rellu"};
constexpr const char* kReductions[] = {"sum", "reduce_max", "max", "", nullptr};
constexpr const char* kLabels[] = {nullptr, "", "m", "mn", "n", "nm", "mm", "\xff"};
constexpr i64 kSizes[] = {0,
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
constexpr size_t kStructSizes[] = {0, 8, sizeof(ctn_parameter) - 1, 2000, SIZE_MAX};
constexpr double kNumbers[] = {0, -0.0, 1, -1.5, 0.3, 1e-46, 1e39, 1e300, -1e-300};

template <typename T, size_t n>
T pick(Random& random, const T (&from)[n]) {
  return from[random.range(0, static_cast<i64>(n) - 1)];
}

// Most values are those of a caller that knows the chain.
class Calls {
 public:
  explicit Calls(u64 seed) : random_(seed) { check(ctn_chain_create("c", &chain_)); }
  ~Calls() { ctn_chain_destroy(chain_); }

  void run() {
    for (i64 left = random_.range(1, 24); left > 0; --left) call();
    finish();
  }

 private:
  void check(ctn_status status) {
    REQUIRE(status != CTN_INTERNAL);
    if (status == CTN_OK) return;
    const std::string message = ctn_last_error();
    REQUIRE(!message.empty());
    REQUIRE(message.size() < 4096);
    for (const char c : message) REQUIRE((c >= ' ' && c <= '~'));
  }

  ctn_value value() {
    if (random_.chance(5)) return static_cast<ctn_value>(random_.next());
    return static_cast<ctn_value>(random_.range(0, std::max(values_, 1) - 1));
  }
  // Made by a call; the next value has the next number.
  void made(ctn_status status, const ctn_value& number) {
    check(status);
    if (status != CTN_OK) return;
    REQUIRE(number == values_);
    ++values_;
  }
  const char* name() { return random_.chance(60) ? nullptr : pick(random_, kNames); }
  i32 small(i32 most) {
    return random_.chance(5) ? static_cast<i32>(random_.next())
                             : static_cast<i32>(random_.range(0, most));
  }

  void call() {
    ctn_value fresh = -7;
    switch (random_.range(0, 9)) {
      case 0:
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
    given.dtype = random_.chance(60) ? CTN_F32 : small(4);
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
    REQUIRE(ctn_chain_print(chain_, &text) == verified);
    if (verified != CTN_OK) return;
    ctn_chain* parsed = nullptr;
    REQUIRE(ctn_chain_parse(text, std::strlen(text), &parsed) == CTN_OK);
    char* again = nullptr;
    REQUIRE(ctn_chain_print(parsed, &again) == CTN_OK);
    REQUIRE(std::string(text) == again);
    ctn_reference_args args{};
    args.struct_size = sizeof args;
    args.num_tensors = 1;  // without an array: refused, whatever the chain takes
    check(ctn_reference_run(parsed, &args));
    ctn_string_free(text);
    ctn_string_free(again);
    ctn_chain_destroy(parsed);
  }

  Random random_;
  ctn_chain* chain_ = nullptr;
  int values_ = 0;
};

}  // namespace

TEST_CASE("random calls of the C ABI") {
  test::fuzz(20'000, [](u64 seed) { Calls(seed).run(); });
}
