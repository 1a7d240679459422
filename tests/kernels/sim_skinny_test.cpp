// SPDX-License-Identifier: Apache-2.0
// `skinny` in the simulator, under many schedules: exact integers bit for bit, as the only kernel
// and after a kernel that computes its X or its W; which loads precede the dependency wait;
// propagation of NaN and infinity.
#include <doctest/doctest.h>

#include "compiler/families/skinny/candidates.h"
#include "compiler/kernel_family.h"
#include "tests/support/sim_chain.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

constexpr u64 kSeeds = 20;

// By skinny, where it has a candidate.
SimulatedChain make(const std::string& text, SimulatedChainOptions options = {}) {
  options.family = "skinny";
  auto chain = SimulatedChain::make(text, std::move(options));
  if (!chain) FAIL(text << "\n" << take_report(chain.takeError()).message);
  return std::move(*chain);
}

const SkinnyConfig& skinny(const SimulatedChain& chain, size_t kernel) {
  const auto& kernels = chain.plan().buckets.back().kernels;
  REQUIRE(kernel < kernels.size());
  REQUIRE(family_name(kernels[kernel]) == "skinny");
  return kernels[kernel].config.get<SkinnyConfig>();
}

void passes(const SimulatedChain& chain) {
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    const SimulatedOutcome outcome = chain.run(seed);
    const std::string text = fmt::format("seed {}: {}: {}", seed, outcome.name, outcome.message);
    CHECK_MESSAGE(outcome.name == "", text);
  }
}

// Every seed reports a read before the dependency wait, at `where`.
void reads_early(const SimulatedChain& chain, const std::string& where) {
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    const SimulatedOutcome outcome = chain.run(seed);
    CHECK_MESSAGE(outcome.name == "before_dependency_wait", outcome.message);
    CHECK_MESSAGE(outcome.message.find(where) != std::string::npos, outcome.message);
  }
}

constexpr const char* kGated =
    "chain a(input x: bf16[9, 1088], weight w: bf16[23, 1088], weight v: bf16[23, 1088],\n"
    "        weight b: f32[23] align 4) {\n"
    "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
    "  h = mul(relu(add(g, b)), u)\n  return h: f32 align 4 }";

constexpr const char* kLinear =
    "chain a(input x: bf16[9, 1088], weight w: bf16[23, 1088], weight b: f32[23] align 4) {\n"
    "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: f32 align 4 }";

// The second layer reads the first layer's result.
constexpr const char* kLayers =
    "chain a(input x: bf16[5, 512], weight w: bf16[256, 512], weight v: bf16[40, 256]) {\n"
    "  h = cast(contract \"mk,nk->mn\"(x, w), bf16)\n"
    "  y = contract \"mk,nk->mn\"(h, v)\n  return y: f32 }";

constexpr const char* kMadeWeight =
    "chain a(input x: bf16[5, 512], input p: bf16[24, 512]) {\n"
    "  w = cast(relu(p), bf16)\n  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32, w: bf16 }";

}  // namespace

TEST_SUITE("skinny in the simulator") {
  TEST_CASE("the planner's choice for every math mode") {
    for (const char* target : {"h200", "a100"}) {
      for (const char* dtype : {"bf16", "f16", "f32"}) {
        for (const int m : {1, 8, 13}) {
          CAPTURE(target);
          CAPTURE(dtype);
          CAPTURE(m);
          SimulatedChainOptions options;
          options.target = target;
          const SimulatedChain chain =
              make(fmt::format("chain a(input x: {0}[{1}, 1088], weight w: {0}[39, 1088],\n"
                               "        weight b: f32[39]) {{\n"
                               "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n"
                               "  return y: f32 align 4 }}",
                               dtype, m),
                   options);
          CHECK(skinny(chain, 0).tile.columns == (m > 8 ? 16 : 8));
          passes(chain);
        }
      }
    }
  }

  TEST_CASE("the planner's choice on every target") {
    for (const Target& target : all_targets()) {
      CAPTURE(target.name);
      SimulatedChainOptions options;
      options.target = target.name;
      options.plan.split_k = 1;
      // 65 K blocks: more than registers hold, so that there are shared blocks in one or more
      // groups.
      const SimulatedChain chain = make(
          "chain a(input x: bf16[7, 4160], weight w: bf16[39, 4160], weight b: f32[39]) {\n"
          "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: f32 align 4 }",
          options);
      CHECK(skinny(chain, 0).loads.bulk == (target.compute_capability() == 90));
      passes(chain);
    }
  }

  TEST_CASE("shapes: K blocks in shared memory, in registers, uneven, slices not full") {
    for (const char* tile :
         {"skinny8x1s2r1g4p3", "skinny8x1s0r3g1p3", "skinny8x2s3r0g16p3", "skinny5x1s2r2g1p2",
          "skinny8x1s2r1g2p3a", "skinny8x1s0r3g1p3a", "skinny8x2s3r0g2p3a", "skinny5x1s2r2g1p2a",
          "skinny4x1s5r1g3p2a", "skinny4x2s6r0g4p6a"}) {
      SimulatedChainOptions options;
      options.plan.force_tile = tile;
      CAPTURE(tile);
      const SimulatedChain chain = make(kGated, options);
      CHECK(skinny(chain, 0).dual);
      CHECK(skinny(chain, 0).loads.bulk == (std::string(tile).back() != 'a'));
      passes(chain);
    }
  }

  TEST_CASE("cluster split-K; warps with several row tiles of W") {
    // 17 K blocks over 2, 4 and 8 CTAs: uneven k-slices. 9 rows of X: some CTAs store a column more
    // than others. 23 rows of each W: the last row tiles are empty.
    for (const char* tile :
         {"skinny4x1s2r1g4p3c2", "skinny2x2s3r0g2p3c4", "skinny1x2s1r2g1p1c8",
          "skinny4x1s2r1g2p3t2c2", "skinny2x1s2r1g4p3x8t4c4", "skinny2x1s4r1g8p5x8t2c2",
          "skinny1x1s2r1g16p3t4c8", "skinny4x1s3r2g4p5x8t2", "skinny4x1s3r2g3p5x8t2a"}) {
      CAPTURE(tile);
      SimulatedChainOptions options;
      options.plan.force_tile = tile;
      const SimulatedChain chain = make(kGated, options);
      CHECK(tile_name(skinny(chain, 0)) == tile);
      passes(chain);
    }
  }

  TEST_CASE("slices of N: CTAs with unlike numbers of rows, one weight and two") {
    // 23 rows in 2, 3 and 5 slices of vectors of two rows: the last one has an odd row.
    for (const char* tile :
         {"skinny4x1s4r1g4p3n2", "skinny8x1s0r3g1p3n5", "skinny4x1s5r0g8p5n3",
          "skinny8x1s3r1g3p3n5a", "skinny4x1s2r1g4p3c2n3", "skinny2x1s3r0g2p3c3n2",
          "skinny4x1s5r0g4p5x8n2", "skinny1x1s1r2g1p1c8n1", "skinny4x1s5r0g1p5n12"}) {
      CAPTURE(tile);
      SimulatedChainOptions options;
      options.plan.force_tile = tile;
      for (const char* text : {kGated, kLinear}) {
        const SimulatedChain chain = make(text, options);
        CHECK(tile_name(skinny(chain, 0)) == tile);
        passes(chain);
      }
    }
  }

  TEST_CASE("K of no whole blocks, and CTAs of a cluster that divide it inside a block") {
    for (const char* dtype : {"bf16", "f32"}) {
      for (const int k : {264, 328, 1096, 1144}) {
        for (const char* tile :
             {"skinny4x1s8r1g2p3", "skinny4x1s3r7g3p3a", "skinny2x2s6r4g1p10",
              "skinny2x1s8r2g4p5c2", "skinny1x1s7r1g4p2c5n2", "skinny1x1s3r8g2p4c3n3"}) {
          CAPTURE(dtype);
          CAPTURE(k);
          CAPTURE(tile);
          SimulatedChainOptions options;
          options.plan.force_tile = tile;
          const SimulatedChain chain =
              make(fmt::format("chain a(input x: {0}[5, {1}], weight w: {0}[20, {1}]) {{\n"
                               "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }}",
                               dtype, dtype[0] == 'f' ? k / 2 : k),
                   options);
          passes(chain);
        }
      }
    }
  }

  TEST_CASE("clusters: every row count, in a batch, after a kernel that computes X") {
    SimulatedChainOptions options;
    options.plan.force_tile = "skinny2x1s1r1g2p2c4";
    for (const int m : {0, 1, 2, 3, 4, 5, 7, 8}) {
      options.symbol = m;
      const SimulatedChain chain = make(
          "chain a[M in 0..8](input x: bf16[M, 3, 576], weight w: bf16[3, 20, 576]) {\n"
          "  y = contract \"mbk,bnk->mbn\"(x, w)\n  return y: f32 }",
          options);
      CHECK(skinny(chain, 0).schedule.cluster_k == 4);
      passes(chain);
    }
    options.symbol = 0;
    options.plan.force_tile = "skinny1x1s2r0g1p1t2c4";
    const SimulatedChain layers = make(
        "chain a(input x: bf16[5, 512], weight w: bf16[512, 512], weight v: bf16[40, 512]) {\n"
        "  h = cast(contract \"mk,nk->mn\"(x, w), bf16)\n"
        "  y = contract \"mk,nk->mn\"(h, v)\n  return y: f32 }",
        options);
    CHECK(skinny(layers, 0).schedule.cluster_k == 4);
    CHECK(layers.plan().buckets[0].pdl[1]);
    passes(layers);
  }

  TEST_CASE("split-K with uneven k-slices") {
    for (const char* target : {"h200", "l4"}) {
      SimulatedChainOptions options;
      options.target = target;
      options.plan.split_k = 2;
      // Else the planner may choose gemm_sm90.
      if (target == std::string("h200")) options.plan.force_tile = "skinny4x1s1r2g1p1";
      const SimulatedChain chain = make(kGated, options);
      CHECK(skinny(chain, 0).schedule.split_k == 2);
      CHECK(skinny(chain, 0).k_blocks() % 2 == 1);
      passes(chain);
    }
  }

  TEST_CASE("two layers with PDL: W is loaded before the wait, X after it") {
    const SimulatedChain chain = make(kLayers);
    CHECK(skinny(chain, 0).loads.w_is_weight);
    CHECK(skinny(chain, 1).loads.w_is_weight);
    CHECK(chain.plan().buckets[0].pdl[1]);
    // X is the previous kernel's result: a read before the wait would be a fault under every seed.
    passes(chain);
    // By cp.async, with PDL (b200) and without (a100).
    for (const char* target : {"b200", "a100"}) {
      SimulatedChainOptions options;
      options.target = target;
      const SimulatedChain other = make(kLayers, options);
      CHECK(!skinny(other, 1).loads.bulk);
      passes(other);
    }

    SimulatedChainOptions inputs;
    inputs.weights_as_inputs = true;
    reads_early(make(kLayers, inputs), "(ld_global_weight_v4");
    SimulatedChainOptions shared = inputs;
    shared.plan.force_tile = "skinny4x1s2r0g2p1";
    reads_early(make(kLayers, shared), "(bulk_load");
    shared.plan.force_tile = "skinny4x1s2r0g2p1a";
    reads_early(make(kLayers, shared), "(cp_async_16");
  }

  TEST_CASE("an epilogue's weights are read before the wait, its other operands after it") {
    const char* text =
        "chain a(input x: bf16[5, 512], weight w: bf16[24, 512], weight b: f32[24],\n"
        "        input r: f32[5, 24]) {\n"
        "  y = add(relu(add(contract \"mk,nk->mn\"(x, w), b)), r)\n  return y: f32 }";
    passes(make(text));
    SimulatedChainOptions options;
    options.weights_as_inputs = true;
    reads_early(make(text, options), "thread");
  }

  TEST_CASE("a W that is not a weight is read after the wait") {
    SimulatedChainOptions inputs;
    inputs.weights_as_inputs = true;
    const SimulatedChain chain = make(kMadeWeight, inputs);
    CHECK(!skinny(chain, 1).loads.w_is_weight);
    passes(chain);
    const SimulatedChain mixed = make(
        "chain a(input x: bf16[5, 512], weight w: bf16[24, 512], input v: bf16[24, 512]) {\n"
        "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
        "  h = mul(relu(g), u)\n  return h: f32 }",
        inputs);
    CHECK(!skinny(mixed, 0).loads.w_is_weight);
    passes(mixed);
  }

  TEST_CASE("a NaN in W affects only its column, an infinity in X only its row") {
    // 39 columns and 11 rows: clamped rows of W and zero rows of X take part in the MMAs.
    const auto text = [](bool w_first, const char* dtype) {
      const std::string w = fmt::format("weight w: {}[39, 576]", dtype);
      const std::string x = fmt::format("input x: {}[11, 576]", dtype);
      return fmt::format(
          "chain a({}, {}) {{\n  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 align 4 }}",
          w_first ? w : x, w_first ? x : w);
    };
    // The planted value is in the first parameter.
    for (const char* dtype : {"bf16", "f32"}) {
      for (const bool w_first : {true, false}) {
        for (u64 seed = 1; seed <= 4; ++seed) {
          SimulatedChainOptions options;
          options.fill = seed % 2 == 0 ? FillKind::kNanPlant : FillKind::kInfPlant;
          options.data_seed = seed;
          const SimulatedChain chain = make(text(w_first, dtype), options);
          CHECK(skinny(chain, 0).tile.columns == 16);
          const SimulatedOutcome outcome = chain.run(seed);
          CHECK_MESSAGE(outcome.name == "", outcome.message);
        }
      }
    }
  }
}
