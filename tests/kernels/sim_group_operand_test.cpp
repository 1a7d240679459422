// SPDX-License-Identifier: Apache-2.0
// Epilogue operands that are taken by the group of a row (`b @ "en"`) in the simulator, over every
// family of ragged rows: groups of 0, 1 and odd sizes, rows after the last end, invalid ends;
// biases, scales and tables per group; dual GEMM. In other kernels: sim_group_sum_test.cpp.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

using Ends = std::vector<std::vector<i32>>;

struct Case {
  std::string name;
  std::string family;
  std::string tile;
  std::string chain;
  Ends ends;
  i64 symbol = 0;
};

const Ends kEnds = {{30, 30, 31, 98}, {0, 64, 65, 130}, {0, 0, 0, 0}, {-5, 33, 20, 900}};
const Ends kFewRows = {{7, 7, 8, 41}, {0, 16, 33, 60}, {0, 0, 0, 0}, {-5, 33, 20, 900}};

std::string run(const Case& from, u64 seed, const HostCompiler& compiler) {
  SimulatedChainOptions options;
  options.plan.force_tile = from.tile;
  options.family = from.family;
  options.symbol = from.symbol;
  options.ends = from.ends[0];
  options.sm_count = 2;
  options.compiler = &compiler;
  const std::string name = fmt::format("{}, {} {}", from.name, from.family, from.tile);
  auto chain = SimulatedChain::make(from.chain, options);
  if (!chain) return name + ": " + take_report(chain.takeError()).message;
  const auto& kernels = chain->plan().buckets[find_bucket(chain->plan(), from.symbol)].kernels;
  if (family_name(kernels.back()) != from.family) return name + ": another family";
  for (const auto& ends : from.ends) {
    // Ends are data: the kernels stay the same.
    if (Error error = chain->set_ends(ends))
      return name + ": " + take_report(std::move(error)).message;
    const SimulatedOutcome outcome = chain->run(++seed);
    if (outcome.name.empty()) continue;
    return fmt::format("{}, ends {}, seed {}: {}: {}", name, fmt::join(ends, " "), seed,
                       outcome.name, outcome.message);
  }
  return "";
}

void run_all(const std::vector<Case>& cases) {
  run_cases(cases, [](const Case& from, i64 index, const HostCompiler& compiler) {
    return run(from, static_cast<u64>(index) * 100, compiler);
  });
}

// Four groups over m rows; `parameters` and `body` use c, the contraction, and return y.
std::string rows(const char* m, const std::string& parameters, const std::string& body, i64 n = 72,
                 i64 k = 256, const char* symbol = "") {
  return fmt::format(
      "chain a{5}(input x: bf16[{4}, {3}], weight w: bf16[4, {2}, {3}], input e: i32[4],\n"
      "        {0}) {{\n"
      "  c = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n  {1} }}",
      parameters, body, n, k, m, symbol);
}

const std::string kBias = "weight b: bf16[4, 72]";
const char* const kAddBias = "y = relu(add(c, b @ \"en\"))\n  return y: bf16";

struct Form {
  const char* name;
  std::string chain;
};

std::vector<Form> forms(const char* m) {
  return {
      {"bias", rows(m, kBias, kAddBias)},
      {"bias of f32, transposed",
       rows(m, "input b: f32[72, 4]", "y = add(c, b @ \"ne\")\n  return y: f32")},
      {"scale and zero", rows(m, "weight s: f32[4] align 4, weight z: f32[4] align 4",
                              "y = add(mul(c, s @ \"e\"), z @ \"e\")\n  return y: f32")},
      {"bias beside a residual", rows(m, kBias + ", input r: bf16[" + std::string(m) + ", 72]",
                                      "y = add(add(c, b @ \"en\"), r)\n  return y: bf16, c: f32")},
      {"bias per row and group", rows(m, "weight b: f32[" + std::string(m) + ", 4] align 4",
                                      "y = add(c, b @ \"me\")\n  return y: f32")},
      {"bias of another kernel",
       rows(m, "input p: bf16[4, 72]", "y = add(c, relu(add(p, 1)) @ \"en\")\n  return y: f32")},
      {"odd columns", rows(m, "weight b: bf16[4, 75] align 2",
                           "y = add(c, b @ \"en\")\n  return y: bf16 align 2", 75)},
      {"dual GEMM",
       rows(m, "weight v: bf16[4, 72, 256], weight b: bf16[4, 72], weight d: f32[4, 72]",
            "u = contract \"mk,enk->mn\"(x, v) ragged m by e over e\n"
            "  y = mul(relu(add(c, b @ \"en\")), add(u, d @ \"en\"))\n  return y: f32")},
  };
}

}  // namespace

TEST_CASE("operands by group: every form, by every family") {
  std::vector<Case> cases;
  for (const Form& form : forms("130")) {
    cases.push_back({form.name, "gemm_sm90", "", form.chain, kEnds});
    cases.push_back({form.name, "gemm_sm80", "", form.chain, kEnds});
  }
  for (const Form& form : forms("60")) {
    cases.push_back({form.name, "skinny", "", form.chain, kFewRows});
  }
  run_all(cases);
}

TEST_CASE("operands by group: kinds of tiles, a batch, one group, a symbol") {
  std::vector<Case> cases;
  for (const char* tile : {"64x64x64g1s8", "128x128x64p2s6c2", "128x256x64g2s4c2",
                           "64x256x64p2s4c2", "128x128x64p2s6n2"}) {
    cases.push_back(
        {"bias", "gemm_sm90", tile, rows("130", "weight b: bf16[4, 264]", kAddBias, 264), kEnds});
  }
  const std::string batch =
      "chain a(input x: bf16[3, 40, 256], weight w: bf16[3, 3, 72, 256], input e: i32[3],\n"
      "        weight b: bf16[3, 3, 72]) {\n"
      "  c = contract \"bmk,benk->bmn\"(x, w) ragged m by e over e\n"
      "  y = add(c, b @ \"ben\")\n  return y: f32 }";
  const std::string one =
      "chain a(input x: bf16[16, 256], weight w: bf16[1, 72, 256], input e: i32[1],\n"
      "        weight b: bf16[1, 72]) {\n"
      "  c = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n"
      "  y = add(c, b @ \"en\")\n  return y: f32 }";
  for (const char* family : {"gemm_sm90", "gemm_sm80", "skinny"}) {
    cases.push_back({"in a batch", family, "", batch, {{0, 17, 33}, {1, 2, 40}}});
    cases.push_back({"one group", family, "", one, {{16}, {0}, {7}}});
    const std::string symbol = rows("M", kBias, kAddBias, 72, 256, "[M in 0..60]");
    cases.push_back({"a symbol", family, "", symbol, {{3, 3, 30, 40}}, 47});
  }
  run_all(cases);
}

namespace {

std::string refusal(const std::string& text, const PlanOptions& plan) {
  SimulatedChainOptions options;
  options.plan = plan;
  auto chain = SimulatedChain::make(text, options);
  if (chain) return "";
  const ErrorReport report = take_report(chain.takeError());
  return fmt::format("{}: {}", error_code_name(report.code), report.message);
}

}  // namespace

TEST_CASE("operands by group: not with split-K") {
  PlanOptions split;
  split.split_k = 2;
  split.force_tile = "64x64x64g1s8";
  CHECK(
      refusal(rows("130", kBias, kAddBias), split).find("the epilogue takes an operand by group") !=
      std::string::npos);
}
