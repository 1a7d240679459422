// SPDX-License-Identifier: Apache-2.0
// `skinny_dequant` in the simulator, under many schedules: exact integers bit for bit, real data
// inside the interval; every integer, scale and activation dtype, with and without zeros; tails of
// N and K; slices that begin and end inside a block of columns; clusters; what precedes the
// dependency wait.
#include <doctest/doctest.h>

#include "compiler/families/skinny_dequant/candidates.h"
#include "compiler/kernel_family.h"
#include "ir/random/random_chain.h"
#include "ir/text/text.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Shape {
  i64 m, n, k, group;  // group: columns that share a scale
};

struct DequantCase {
  std::string q = "i4", x = "bf16", scale = "bf16";
  bool zero = false;
  Shape shape = {3, 40, 256, 128};
  std::string tile;  // empty: the planner's choice
  FillKind fill = FillKind::kExactInteger;
  std::string role = "weight";  // of q, scale and zero
};

std::string text_of(const DequantCase& c) {
  const auto& [m, n, k, group] = c.shape;
  const std::string numbers = fmt::format("[{}, {}]", n, ceil_div(k, group));
  return fmt::format(
      "chain a[M in 0..{0}](input x: {1}[M, {2}], {3} q: {4}[{5}, {2}] packed, {3} s: {6}{7}{8},\n"
      "        weight b: f32[{5}] align 4) {{\n"
      "  w = dequant(q, s{9}) block (1, {10})\n"
      "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: f32 align 4 }}",
      m, c.x, k, c.role, c.q, n, c.scale, numbers,
      c.zero ? fmt::format(", {} z: i8{}", c.role, numbers) : "", c.zero ? ", z" : "", group);
}

std::string name_of(const DequantCase& c) {
  return fmt::format("{} {} {} zero {} {}x{}x{} g{} {}", c.q, c.x, c.scale, c.zero, c.shape.m,
                     c.shape.n, c.shape.k, c.shape.group, c.tile);
}

Expected<SimulatedChain> make(const DequantCase& c, const HostCompiler* compiler = nullptr,
                              bool weights_as_inputs = false) {
  SimulatedChainOptions options;
  options.symbol = c.shape.m;
  options.plan.force_tile = c.tile;
  options.fill = c.fill;
  options.compiler = compiler;
  options.weights_as_inputs = weights_as_inputs;
  return SimulatedChain::make(text_of(c), options);
}

// Empty: the chain is one kernel of the family and right for every seed.
std::string failure(const DequantCase& c, const HostCompiler& compiler, u64 seeds) {
  auto chain = make(c, &compiler);
  if (!chain) return name_of(c) + ": " + take_report(chain.takeError()).message;
  const auto& kernels = chain->plan().buckets.back().kernels;
  const bool another = family_name(kernels[0]) != "skinny_dequant" && !c.tile.empty();
  if (kernels.size() != 1 || another) return name_of(c) + ": another family";
  if (!c.tile.empty() && kernels[0].candidate.tile != c.tile) return name_of(c) + ": another tile";
  return first_failure(*chain, name_of(c), seeds);
}

void pass(const std::vector<DequantCase>& cases, u64 seeds) {
  run_cases(cases, [&](const DequantCase& c, i64, const HostCompiler& compiler) {
    return failure(c, compiler, seeds);
  });
}

}  // namespace

TEST_SUITE("skinny_dequant in the simulator") {
  TEST_CASE("every dtype of integers, activations and scales, with zeros and without") {
    std::vector<DequantCase> cases;
    for (const char* q : {"i8", "i4", "u4"}) {
      for (const char* x : {"bf16", "f16"}) {
        for (const char* scale : {"bf16", "f16", "f32"}) {
          for (const bool zero : {false, true}) {
            for (const FillKind fill : {FillKind::kExactInteger, FillKind::kNormal})
              cases.push_back({q, x, scale, zero, {3, 40, 256, 128}, "", fill, "weight"});
          }
        }
      }
    }
    pass(cases, 4);
  }

  TEST_CASE("every number of rows of X; N and K with tails; every group") {
    std::vector<DequantCase> cases;
    for (i64 m = 0; m <= 32; m += m < 16 ? 1 : 5) {
      cases.push_back({"i4", "bf16", "bf16", m % 2 == 1, {m, 33, 160, 32}, ""});
      cases.push_back({"i8", "f16", "f32", m % 3 == 1, {m, 17, 224, 64}, ""});
    }
    // One warp, whose threads take vectors of 16.
    for (const i64 m : {17, 24, 32}) {
      cases.push_back({"i8", "bf16", "bf16", true, {m, 17, 32, 32}, ""});
      cases.push_back({"i4", "f16", "f32", false, {m, 33, 64, 64}, "", FillKind::kNormal});
    }
    for (const i64 n : {1, 15, 16, 31, 65, 129}) {
      for (const i64 group : {32, 64, 96, 128, 352}) {
        cases.push_back({"u4", "bf16", "f16", true, {5, n, 352, group}, ""});
        cases.push_back({"i4", "f16", "bf16", false, {9, n, 352, group}, "", FillKind::kNormal});
      }
    }
    pass(cases, 3);
  }

  TEST_CASE("tiles: rings shallower and deeper than the slice, row tiles, clusters") {
    std::vector<DequantCase> cases;
    // 23 K blocks, the last one half: uneven slices, which begin and end inside a block of columns.
    for (const char* tile :
         {"dequant1t1s1b1x1b1", "dequant2t1s2b1x2b1", "dequant4t2s2b2x1b6", "dequant4t3s3b1x2b2",
          "dequant8t1s4b1x1b3", "dequant3t1s2b3x3b1", "dequant2t2s2b4x2b2", "dequant2t1s3b2x1b4c2",
          "dequant2t2s2b1x1b2c4", "dequant1t3s2b1x2b1c8", "dequant1t2s2b2x1b2c8n4"}) {
      for (const i64 group : {32, 128, 1440}) {
        cases.push_back({"i4", "bf16", "bf16", false, {8, 70, 1440, group}, tile});
        cases.push_back({"u4", "bf16", "bf16", true, {3, 70, 1440, group}, tile});
        cases.push_back({"i8", "bf16", "f32", true, {11, 70, 1440, group}, tile});
      }
    }
    pass(cases, 3);
  }

  TEST_CASE("random chains with small M: epilogues, symbols, several outputs") {
    struct RandomCase {
      std::string text;
      i64 symbol;
      FillKind fill;
    };
    std::vector<RandomCase> cases;
    for (u64 seed = 0; cases.size() < 40; ++seed) {
      RandomChainOptions options;
      options.small_m = true;
      options.no_dequant = false;
      options.no_ragged = seed % 3 != 0;
      options.exact_only = seed % 2 == 0;
      const Chain chain = random_chain(seed, options);
      const auto is_dequant = [](const Value& value) { return value.op == Op::kDequant; };
      const VerifiedChain verified = llvm::cantFail(verify(chain));
      if (llvm::none_of(chain.values, is_dequant)) continue;
      auto plan = make_plan(verified, llvm::cantFail(find_target("h200")));
      if (!plan) {
        llvm::consumeError(plan.takeError());
        continue;
      }
      cases.push_back({print(chain), chain.symbol ? chain.symbol->hi : 0,
                       options.exact_only ? FillKind::kExactInteger : FillKind::kNormal});
    }
    run_cases(cases, [](const RandomCase& c, i64, const HostCompiler& compiler) {
      SimulatedChainOptions options;
      options.symbol = c.symbol;
      options.fill = c.fill;
      options.compiler = &compiler;
      auto chain = SimulatedChain::make(c.text, options);
      if (!chain) return take_report(chain.takeError()).message + "\n" + c.text;
      const std::string wrong = first_failure(*chain, "random", 3);
      return wrong.empty() ? wrong : wrong + "\n" + c.text;
    });
  }

  TEST_CASE("integers, scales and zeros are read before the dependency wait only if weights") {
    for (const char* role : {"weight", "input"}) {
      CAPTURE(role);
      const DequantCase c{"i4", "bf16", "bf16", true, {4, 40, 512, 64}, "dequant4t1s1b1x1b1",
                          {},   role};
      auto chain = make(c, nullptr, /*weights_as_inputs=*/true);
      if (!chain) FAIL(take_report(chain.takeError()).message);
      for (u64 seed = 1; seed <= 5; ++seed) {
        const SimulatedOutcome outcome = chain->run(seed);
        const bool early = std::string(role) == "weight";
        CHECK_MESSAGE(outcome.name == (early ? "before_dependency_wait" : ""), outcome.message);
      }
    }
  }
}
