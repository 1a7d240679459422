// SPDX-License-Identifier: Apache-2.0
// The chains that the suite runs: random ones over every dtype, layout, epilogue and forced plan,
// and handwritten ones for features that are rare in random chains (ragged labels, zero sizes,
// buckets of the symbol, several tiles).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/plan.h"
#include "ir/random/fill.h"

namespace catenary::gpu_suite {

struct Case {
  std::string name;
  i64 index = -1;  // in its CaseList
  u64 seed = 0;
  Chain chain;
  // Forced choices; dropped if no candidate fits them.
  PlanOptions options;
  int tile = -1;                   // row to force, of gemm_sm80_tiles(), then of sm90_shapes()
  std::vector<std::string> tiles;  // to force; the first that fits
  // The family that must compute it, under exactly these options; empty: any.
  std::string family;
  bool real_data = false;  // also on real data
  bool must_be_exact = false;
  std::vector<i64> symbols;  // {0} if the chain has none
  // Ragged ends instead of random ones, one vector per run.
  std::vector<std::vector<i32>> ends;
  bool reduced = false;  // its sizes are smaller than written
};

// The cases of one run: handwritten ones (if `written`), then random exact ones up to
// `exact_configs` in all, then a quarter as many random chains with every op. Every fourth exact
// one is a contraction that gemm_sm90 can take.
struct CaseList {
  i64 exact_configs = 0;
  u64 seed = 1;
  bool written = true;
  bool small = false;  // for the simulator: less work per case
};
i64 num_cases(const CaseList& list);
Case make_case(i64 index, const CaseList& list);

// A handwritten chain; ends as in Case.
struct WrittenCase {
  std::string name;
  std::string text;
  std::vector<i64> symbols;
  std::vector<std::vector<i32>> ends;
  int split_k = 0;
  std::string tile = "";
  std::string family = "";     // as in Case
  bool prefer_inside = false;  // as in PlanOptions
};
const std::vector<WrittenCase>& written_cases();
std::vector<WrittenCase> skinny_cases();  // these functions return parts of written_cases()
std::vector<WrittenCase> ragged_cases_sm90();
std::vector<WrittenCase> ragged_cases_skinny();
std::vector<WrittenCase> small_m_cases();
std::vector<WrittenCase> beside_cases();
std::vector<WrittenCase> norm_cases();
std::vector<WrittenCase> row_reduction_cases();
std::vector<WrittenCase> tf32_cases();
std::vector<WrittenCase> cp_async_cases();
std::vector<WrittenCase> math_cases();
std::vector<WrittenCase> group_operand_cases();
std::vector<WrittenCase> in_place_cases();
std::vector<WrittenCase> sum_cases();
std::vector<WrittenCase> cluster_cases();
std::vector<WrittenCase> transposed_cases();
std::vector<WrittenCase> dequant_cases();
std::vector<WrittenCase> dequantise_cases();
std::vector<WrittenCase> fp8_cases();

// Small chains of every family, for the sanitizers: one launch of a few CTAs each.
const std::vector<WrittenCase>& sanitizer_cases();
std::vector<WrittenCase> dequant_sanitizer_cases();  // a part of them

Case from_text(const WrittenCase& written, u64 seed);

// The plan under the case's options, or without those that do not fit: split-K, tile, then both.
// `options` receives the options in use.
Expected<Plan> plan_case(const VerifiedChain& chain, const Target& target, const Case& from,
                         PlanOptions& options);

// The problem with the plan of a case that names a family; empty: none.
std::string family_problem(const Case& from, const Plan& plan);

// Symbol values to run: both ends, one next to each, one between.
std::vector<i64> symbol_values(const Chain& chain, u64 seed);

}  // namespace catenary::gpu_suite
