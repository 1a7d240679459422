// SPDX-License-Identifier: Apache-2.0
// `gemm_dequant` in the simulator, under many schedules: exact integers bit for bit, real data
// inside the interval; every integer, scale and activation dtype, with and without zeros; tails of
// M, N and K; pairs, batches; clusters; what precedes the dependency wait.
#include <doctest/doctest.h>

#include "compiler/families/gemm_dequant/candidates.h"
#include "compiler/kernel_family.h"
#include "ir/text/text.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Shape {
  i64 m, n, k, group;  // group: columns that share a scale
};

struct PackedCase {
  std::string q = "i4", x = "bf16", scale = "bf16";
  bool zero = false;
  Shape shape = {40, 40, 256, 128};
  std::string tile = "packed2t2x40s2b2";
  FillKind fill = FillKind::kExactInteger;
  std::string role = "weight";  // of q, scale and zero
  bool dual = false;
  i64 batch = 1;
};

// y = relu(x W^T + b), or silu(x W^T) (x V^T + b), each weight with its own scales.
std::string text_of(const PackedCase& c) {
  const auto& [m, n, k, group] = c.shape;
  const std::string batch = c.batch > 1 ? fmt::format("{}, ", c.batch) : "";
  const std::string label = c.batch > 1 ? "g" : "";
  const auto weight = [&](const std::string& name) {
    const std::string numbers = fmt::format("[{}{}, {}]", batch, n, ceil_div(k, group));
    return fmt::format(", {} {}: {}[{}{}, {}] packed, {} {}s: {}{}{}", c.role, name, c.q, batch, n,
                       k, c.role, name, c.scale, numbers,
                       c.zero ? fmt::format(", {} {}z: i8{}", c.role, name, numbers) : "");
  };
  const auto product = [&](const std::string& name) {
    return fmt::format(
        "  {0}w = dequant({0}, {0}s{1}) block (1, {2})\n"
        "  {0}y = contract \"{3}mk,{3}nk->{3}mn\"(x, {0}w)\n",
        name, c.zero ? ", " + name + "z" : "", group, label);
  };
  std::string text = c.batch > 1
                         ? fmt::format("chain a(input x: {}[{}, {}, {}]", c.x, c.batch, m, k)
                         : fmt::format("chain a[M in 0..{}](input x: {}[M, {}]", m, c.x, k);
  text += weight("q") + (c.dual ? weight("v") : "") +
          fmt::format(", weight b: f32[{}] align 4) {{\n", n);
  text += product("q");
  if (c.dual)
    return text + product("v") + "  y = mul(silu(qy), add(vy, b))\n  return y: f32 align 4 }";
  return text + "  y = relu(add(qy, b))\n  return y: f32 align 4 }";
}

std::string name_of(const PackedCase& c) {
  return fmt::format("{} {} {} zero {} dual {} batch {} {}x{}x{} g{} {}", c.q, c.x, c.scale, c.zero,
                     c.dual, c.batch, c.shape.m, c.shape.n, c.shape.k, c.shape.group, c.tile);
}

Expected<SimulatedChain> make(const PackedCase& c, const HostCompiler* compiler = nullptr,
                              bool weights_as_inputs = false) {
  SimulatedChainOptions options;
  if (c.batch == 1) options.symbol = c.shape.m;
  options.plan.force_tile = c.tile;
  options.fill = c.fill;
  options.compiler = compiler;
  options.weights_as_inputs = weights_as_inputs;
  return SimulatedChain::make(text_of(c), options);
}

// Empty: the chain is one kernel of the family and right for every seed.
std::string failure(const PackedCase& c, const HostCompiler& compiler, u64 seeds) {
  auto chain = make(c, &compiler);
  if (!chain) return name_of(c) + ": " + take_report(chain.takeError()).message;
  const auto& kernels = chain->plan().buckets.back().kernels;
  if (kernels.size() != 1 || family_name(kernels[0]) != "gemm_dequant")
    return name_of(c) + ": another family";
  if (kernels[0].candidate.tile != c.tile) return name_of(c) + ": another tile";
  return first_failure(*chain, name_of(c), seeds);
}

void pass(const std::vector<PackedCase>& cases, u64 seeds) {
  run_cases(cases, [&](const PackedCase& c, i64, const HostCompiler& compiler) {
    return failure(c, compiler, seeds);
  });
}

}  // namespace

TEST_SUITE("gemm_dequant in the simulator") {
  TEST_CASE("every dtype of integers, activations and scales, with zeros and without") {
    std::vector<PackedCase> cases;
    for (const char* q : {"i8", "i4", "u4"}) {
      for (const char* x : {"bf16", "f16"}) {
        for (const char* scale : {"bf16", "f16", "f32"}) {
          for (const bool zero : {false, true}) {
            const FillKind fill =
                cases.size() % 3 == 0 ? FillKind::kNormal : FillKind::kExactInteger;
            cases.push_back({q, x, scale, zero, {40, 40, 256, 128}, "packed1t2x40s2b2", fill});
          }
        }
      }
    }
    pass(cases, 3);
  }

  TEST_CASE("tails of M, N and K under blocks of every length") {
    std::vector<PackedCase> cases;
    for (const i64 m : {1, 7, 8, 33}) {
      for (const i64 group : {32, 64, 96, 128, 192, 256, 672}) {
        const bool zero = (m + group) % 3 == 0;
        cases.push_back({"i4", "bf16", "bf16", zero, {m, 97, 672, group}, "packed1t2x16s3b2"});
        cases.push_back(
            {"i8", "f16", "f32", !zero, {m, 17, 672, group}, "packed2t2x8s2b4", FillKind::kNormal});
      }
    }
    pass(cases, 3);
  }

  TEST_CASE("tiles: one to four fragments of a warpgroup, slices of unlike height, clusters") {
    std::vector<PackedCase> cases;
    for (const char* tile :
         {"packed1t10x16s3b2", "packed2t10x24s2b2", "packed2t19x8s2b2", "packed1t4x16s2b2n6",
          "packed2t4x16s2b2", "packed2t4x16s4b4c2", "packed1t3x24s2b2c4", "packed2t10x8s2b2c4"}) {
      for (const i64 group : {128, 1440}) {
        cases.push_back({"i4", "bf16", "bf16", false, {20, 300, 1440, group}, tile});
        cases.push_back({"u4", "f16", "bf16", true, {9, 300, 1440, group}, tile});
      }
    }
    // Stages that begin inside a block.
    for (const char* tile : {"packed1t8x16s2b3", "packed1t8x16s2b5"})
      cases.push_back({"i4", "bf16", "f32", false, {20, 128, 1536, 128}, tile});
    pass(cases, 3);
  }

  TEST_CASE("pairs of weights and batches") {
    std::vector<PackedCase> cases;
    for (const char* tile : {"packed2t3x16s2b2", "packed2t5x24s2b2c2", "packed4t5x16s2b2"}) {
      for (const bool dual : {false, true}) {
        PackedCase c{"i4", "bf16", "bf16", dual, {20, 150, 544, 64}, tile, FillKind::kNormal};
        c.dual = dual;
        cases.push_back(c);
        c.batch = 3;
        cases.push_back(c);
      }
    }
    pass(cases, 3);
  }

  TEST_CASE("integers, scales and zeros are read before the dependency wait only if weights") {
    for (const char* role : {"weight", "input"}) {
      CAPTURE(role);
      PackedCase c{"i4", "bf16", "bf16", true, {40, 40, 512, 64}};
      c.role = role;
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
