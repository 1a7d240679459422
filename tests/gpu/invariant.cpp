// SPDX-License-Identifier: Apache-2.0
// Batch-invariant chains: the bits of a row are the same for every M, at every position and beside
// any other rows. The rows of a launch of all rows are compared with those of launches that begin
// at some row and have fewer. Results are f32, which shows another order of a sum.
#include <cstring>

#include "tests/gpu/bound_chain.h"
#include "tests/gpu/modes.h"

namespace catenary::gpu_suite {
namespace {

constexpr i64 kFewRows = 64;  // every M up to this; those of skinny and of cluster split-K

struct Sizes {
  i64 rows, n, k;
};

Sizes sizes(const Suite& suite) {
  return suite.simulated() ? Sizes{140, 40, 328} : Sizes{4096, 1544, 4104};
}

struct InvariantCase {
  const char* name;
  const char* text;  // after the name of the chain; N and K are replaced by sizes
};

constexpr InvariantCase kCases[] = {
    {"bf16",
     "input x: bf16[M, K], weight w: bf16[N, K]) {\n"
     "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }"},
    {"f16, bias and silu",
     "input x: f16[M, K], weight w: f16[N, K], weight b: f16[N]) {\n"
     "  y = silu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: f32 }"},
    {"dual",
     "input x: bf16[M, K], weight w: bf16[N, K], weight v: bf16[N, K]) {\n"
     "  y = mul(silu(contract \"mk,nk->mn\"(x, w)), contract \"mk,nk->mn\"(x, v))\n"
     "  return y: f32 }"},
    {"norm inside",
     "input x: bf16[M, K], weight w: bf16[N, K]) {\n"
     "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.0003), 0.00001))\n"
     "  y = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n  return y: f32 }"},
    {"tf32",
     "input x: f32[M, K], weight w: f32[N, K]) {\n"
     "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }"},
};

std::string text_of(const InvariantCase& c, const Sizes& s, bool invariant) {
  std::string text =
      fmt::format("chain c[M in 1..{}]{}(", s.rows, invariant ? " batch_invariant" : "");
  for (const char* at = c.text; *at != 0; ++at) {
    // Labels, names and ops are in lower case.
    if (*at == 'K' || *at == 'N') {
      text += fmt::format("{}", *at == 'K' ? s.k : s.n);
    } else {
      text += *at;
    }
  }
  return text;
}

// The results of M rows of x from row `first` on.
Expected<std::vector<u8>> run_rows(Suite& suite, BoundChain& chain, void* x, i64 row_bytes,
                                   i64 first, i64 m) {
  if (Error error = chain.poison(suite, 0, 0xff)) return error;
  chain.tensors()[0] = static_cast<u8*>(x) + first * row_bytes;
  LaunchArguments arguments = chain.arguments(suite.stream());
  arguments.symbol = m;
  if (Error error = suite.reschedule()) return error;
  if (Error error = chain.executable().launch(arguments)) return error;
  return chain.read(suite, 0);
}

std::vector<i64> row_counts(const Suite& suite, i64 rows) {
  std::vector<i64> counts;
  for (i64 m = 1; m <= kFewRows; m += suite.simulated() ? 7 : 1) counts.push_back(m);
  for (const i64 m : {65, 100, 128, 129, 200, 500, 1000, 2048, 3000})
    if (m < rows) counts.push_back(m);
  return counts;
}

// How many of the launches have a row of other bits than the launch of all rows.
Expected<i64> differing_launches(Suite& suite, const InvariantCase& c, bool invariant) {
  const Sizes s = sizes(suite);
  auto chain = BoundChain::make(suite, text_of(c, s, invariant), s.rows, FillKind::kNormal, 11);
  if (!chain) return chain.takeError();
  void* x = chain->tensors()[0];
  const i64 row_bytes = chain->tensor_bytes(0) / s.rows;
  const i64 result_bytes = chain->tensor_bytes(chain->first_output()) / s.rows;
  Expected<std::vector<u8>> all = run_rows(suite, *chain, x, row_bytes, 0, s.rows);
  if (!all) return all.takeError();
  i64 differing = 0;
  for (const i64 m : row_counts(suite, s.rows)) {
    const i64 first = m * 37 % (s.rows - m);
    Expected<std::vector<u8>> some = run_rows(suite, *chain, x, row_bytes, first, m);
    if (!some) return some.takeError();
    const u8* expected = all->data() + first * result_bytes;
    if (std::memcmp(some->data(), expected, static_cast<size_t>(m * result_bytes)) != 0)
      ++differing;
  }
  return differing;
}

constexpr i64 kGroups = 3;

// All groups have one weight, so a row may be of any of them.
Error check_ragged(Suite& suite) {
  const Sizes s = sizes(suite);
  const std::string text = fmt::format(
      "chain c batch_invariant(input x: bf16[{0}, {1}], weight w: bf16[{2}, {3}, {1}],\n"
      "    input e: i32[{2}]) {{\n"
      "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  return y: f32 }}",
      s.rows, s.k, kGroups, s.n);
  const auto rows = static_cast<i32>(s.rows);
  std::vector<u8> expected;
  for (const std::vector<i32>& ends : {std::vector<i32>{rows, rows, rows},
                                       {1, 2, rows},
                                       {0, 33, rows},
                                       {17, 17, rows},
                                       {64, rows - 1, rows}}) {
    auto chain = BoundChain::make(suite, text, 0, FillKind::kNormal, 12, {}, ends);
    if (!chain) return chain.takeError();
    const i64 bytes = chain->tensor_bytes(1) / kGroups;
    const auto weights = reinterpret_cast<cuda::DevicePtr>(chain->tensors()[1]);
    for (i64 g = 1; g < kGroups; ++g) {
      if (Error error = suite.check(
              suite.api().memcpy_dtod_async(weights + static_cast<u64>(g * bytes), weights,
                                            static_cast<size_t>(bytes), suite.stream()),
              "copying a weight")) {
        return error;
      }
    }
    if (Error error = chain->poison(suite, 0, 0xff)) return error;
    if (Error error = chain->executable().launch(chain->arguments(suite.stream()))) return error;
    Expected<std::vector<u8>> got = chain->read(suite, 0);
    if (!got) return got.takeError();
    if (expected.empty()) expected = *got;
    if (*got != expected) {
      return make_error(ErrorCode::kMismatch, "ragged rows with ends {}, {}, {} have other bits",
                        ends[0], ends[1], ends[2]);
    }
  }
  return Error::success();
}

}  // namespace

Error run_invariant(Suite& suite) {
  if (suite.options().rehearse) return Error::success();
  const size_t launches = row_counts(suite, sizes(suite).rows).size();
  i64 free_differing = 0;
  for (const InvariantCase& c : kCases) {
    Expected<i64> differing = differing_launches(suite, c, true);
    if (!differing) return differing.takeError();
    if (*differing > 0) {
      return make_error(ErrorCode::kMismatch, "{}: {} of {} launches have rows of other bits",
                        c.name, *differing, launches);
    }
    if (free_differing > 0) continue;
    Expected<i64> control = differing_launches(suite, c, false);
    if (!control) return control.takeError();
    free_differing = *control;
  }
  if (free_differing == 0) {
    return make_error(ErrorCode::kMismatch,
                      "free plans have the same bits for every M: this test cannot fail");
  }
  if (Error error = check_ragged(suite)) return error;
  suite.progress(
      fmt::format("invariant: {} chains, {} launches each, and ragged rows have the same bits; {} "
                  "launches of a free plan differ",
                  std::size(kCases), launches, free_differing),
      true);
  return Error::success();
}

}  // namespace catenary::gpu_suite
