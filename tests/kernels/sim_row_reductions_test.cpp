// SPDX-License-Identifier: Apache-2.0
// Reductions of rows in the epilogue of `gemm_sm90`, in the simulator: blocks of columns within,
// across and beside subtiles, several of a tile, all columns of D; one pass and two; dual GEMMs,
// batches, ragged rows, fp8 with scales per block, a symbol.
#include <doctest/doctest.h>

#include "compiler/fusion/fuse.h"
#include "compiler/kernel_family.h"
#include "ir/random/random_chain.h"
#include "ir/text/text.h"
#include "shared/gemm_sm90_config.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Case {
  std::string name;
  std::string chain;
  std::string tile;
  int columns = 128;  // of a block
  i64 symbol = 0;
  std::vector<std::vector<i32>> ends = {};  // of ragged rows
};

std::string run(const Case& from, const HostCompiler& compiler) {
  const std::string name = fmt::format("{}, {}", from.name, from.tile);
  std::string failure;
  for (const FillKind fill : {FillKind::kExactInteger, FillKind::kNormal, FillKind::kNanPlant}) {
    SimulatedChainOptions options;
    options.plan.force_tile = from.tile;
    options.plan.prefer_inside = true;
    options.symbol = from.symbol;
    options.fill = fill;
    if (!from.ends.empty()) options.ends = from.ends[0];
    options.sm_count = 2;
    options.compiler = &compiler;
    auto chain = SimulatedChain::make(from.chain, options);
    if (!chain) return name + ": " + take_report(chain.takeError()).message;
    const auto& kernels = chain->plan().buckets[find_bucket(chain->plan(), from.symbol)].kernels;
    if (kernels.size() != 1 || family_name(kernels[0]) != "gemm_sm90" ||
        kernels[0].config.get<GemmSm90Config>().epilogue.reduced_columns != from.columns) {
      return name + ": the rows are reduced by another kernel";
    }
    failure = first_failure(*chain, name, 2);
    for (size_t i = 1; i < from.ends.size() && failure.empty(); ++i) {
      if (Error error = chain->set_ends(from.ends[i])) return take_report(std::move(error)).message;
      failure =
          first_failure(*chain, fmt::format("{}, ends {}", name, fmt::join(from.ends[i], " ")), 2);
    }
    if (!failure.empty()) return failure;
  }
  return failure;
}

void run_all(const std::vector<Case>& cases) {
  run_cases(cases, [](const Case& from, i64, const HostCompiler& compiler) {
    return run(from, compiler);
  });
}

bool reduces_rows(const Plan& plan) {
  return llvm::any_of(plan.buckets.back().kernels, [](const KernelPlan& kernel) {
    return family_name(kernel) == "gemm_sm90" &&
           kernel.config.get<GemmSm90Config>().epilogue.reduced_columns > 1;
  });
}

// h rounded with a scale for each row and block.
std::string quantised(const std::string& head, const std::string& returns = "q: e4m3, s: f32") {
  return head +
         "  s = mul(max(reduce_max \"mjc->mj\"(abs(h)), 0.0001), 0.002232142857142857)\n"
         "  q = cast(mul(h, recip(s) @ \"mj\"), e4m3)\n  return " +
         returns + " }";
}

// m rows, j blocks of c columns.
std::string blocks(const std::string& m, int j, int c, const std::string& symbol = "",
                   const std::string& returns = "q: e4m3, s: f32") {
  return quantised(fmt::format("chain a{3}(input x: bf16[{0}, 72], weight w: bf16[{1}, {2}, 72],\n"
                               "        weight b: f32[{1}, {2}]) {{\n"
                               "  h = relu(add(contract \"mk,jck->mjc\"(x, w), b))\n",
                               m, j, c, symbol),
                   returns);
}

std::string softmax(int n) {
  return fmt::format(
      "chain a(input x: bf16[200, 72], weight w: bf16[{0}, 72], weight b: f32[{0}]) {{\n"
      "  h = add(contract \"mk,nk->mn\"(x, w), b)\n  a = reduce_max \"mn->m\"(h)\n"
      "  e = exp(sub(h, a @ \"m\"))\n  z = sum \"mn->m\"(e)\n"
      "  y = mul(e, recip(z) @ \"m\")\n  return y: bf16, z: f32 }}",
      n);
}

// The norm of each head, of rows with a scale and an offset each.
const char* const kHeads =
    "chain a(input x: f16[200, 72], weight w: f16[3, 64, 72], weight g: f16[64],\n"
    "        input t: f32[200], scalar f: f32) {\n"
    "  h = mul(contract \"mk,jck->mjc\"(x, w), t @ \"m\")\n"
    "  v = scale(sum \"mjc->mj\"(square(h)), f)\n"
    "  r = mul(rsqrt(add(v, 0.00001)), t @ \"m\")\n"
    "  n = mul(mul(h, r @ \"mj\"), g)\n  return n: f16, r: bf16 }";

}  // namespace

TEST_SUITE("reductions of rows, in the simulator") {
  TEST_CASE("tiles of one block and of several, clusters") {
    std::vector<Case> cases;
    for (const char* tile :
         {"64x128x64g1s3", "64x128x64p2s3", "128x128x64p2s3", "128x128x64g2s3", "128x256x64g2s2",
          "64x256x64p2s2", "128x128x64p2s3c2", "128x128x64p2s3n2"}) {
      cases.push_back({"blocks", blocks("200", 3, 128), tile});
    }
    run_all(cases);
  }

  // What a pass forms replaces the accumulators, unless something later still needs them.
  TEST_CASE("values that are kept, and accumulators that are not") {
    const std::string dual =
        "chain a(input x: bf16[200, 72], weight w: bf16[3, 128, 72], weight v: bf16[3, 128, 72]) "
        "{\n"
        "  g = contract \"mk,jck->mjc\"(x, w)\n  u = contract \"mk,jck->mjc\"(x, v)\n"
        "  h = mul(relu(g), u)\n";
    const std::string single =
        "chain a(input x: bf16[200, 72], weight w: bf16[3, 128, 72], weight b: f32[3, 128]) {\n"
        "  g = contract \"mk,jck->mjc\"(x, w)\n";
    const std::string added = "  h = relu(add(g, b))\n";
    const std::string cast = single + "  h = cast(relu(add(g, b)), bf16)\n";
    const std::string exponential =
        "  m = reduce_max \"mjc->mj\"(h)\n  e = exp(sub(h, m @ \"mj\"))\n"
        "  z = sum \"mjc->mj\"(e)\n  y = mul(e, recip(z) @ \"mj\")\n  return y: bf16, z: f32 }";
    std::vector<Case> cases;
    for (const char* tile : {"64x128x64p2s3", "128x128x64g2s3"}) {
      cases.push_back(
          {"accumulator stored", quantised(single + added, "q: e4m3, s: f32, g: bf16"), tile});
      cases.push_back({"stored too", quantised(single + added, "q: e4m3, s: f32, h: f32"), tile});
      cases.push_back({"cast", quantised(cast), tile});
      cases.push_back({"two passes", single + added + exponential, tile});
    }
    for (const char* tile : {"64x128x64p2s3", "128x128x64g2s2"}) {
      cases.push_back({"dual", quantised(dual), tile});
      cases.push_back(
          {"dual, second accumulator stored", quantised(dual, "q: e4m3, s: f32, u: bf16"), tile});
    }
    for (const char* tile : {"64x128x64p2s3", "64x128x64g1s3"})
      cases.push_back({"dual, two passes", dual + exponential, tile});
    run_all(cases);
  }

  TEST_CASE("blocks within a subtile's width, across subtiles, past the tile") {
    run_all({{"narrow", blocks("200", 6, 32), "64x64x64g1s3", 32},
             {"narrow", blocks("200", 7, 32), "128x128x64p2s3", 32},
             {"three subtiles", blocks("200", 2, 96), "64x96x64p2s3", 96},
             {"three subtiles", blocks("200", 2, 96), "128x192x64g2s2", 96},
             {"one subtile", blocks("200", 3, 64), "64x192x64p2s2", 64},
             {"one block", blocks("200", 1, 40), "64x64x64g1s3", 40}});
  }

  TEST_CASE("two passes over all columns, and over heads") {
    run_all({{"softmax", softmax(72), "64x96x64p2s3", 72},
             {"softmax", softmax(128), "128x128x64p2s3"},
             {"softmax", softmax(8), "64x64x64g1s3", 8},
             {"heads", kHeads, "64x64x64p2s3", 64},
             {"heads", kHeads, "64x192x64p2s2", 64},
             {"heads", kHeads, "128x64x64p2s3", 64}});
  }

  TEST_CASE("other outputs: numbers along M, rounded ones, the values beside them") {
    run_all(
        {{"strides", blocks("200", 3, 128, "", "q: e4m3, s: f32 strides[1, 200]"),
          "128x128x64p2s3"},
         {"16 bits", blocks("200", 3, 128, "", "q: e5m2, s: bf16"), "128x128x64p2s3"},
         {"all", blocks("200", 3, 128, "", "q: e4m3, s: f32, h: bf16"), "64x128x64p2s3"},
         {"blocks apart", blocks("200", 3, 128, "", "q: e4m3 strides[600, 200, 1] align 8, s: f32"),
          "64x128x64p2s3"}});
  }

  TEST_CASE("two products, a batch, a symbol") {
    const std::string dual = quantised(
        "chain a(input x: bf16[200, 72], weight w: bf16[3, 128, 72],\n"
        "        weight u: bf16[3, 128, 72]) {\n"
        "  h = mul(silu(contract \"mk,jck->mjc\"(x, w)), contract \"mk,jck->mjc\"(x, u))\n");
    const char* batch =
        "chain a(input x: bf16[3, 72, 40], weight w: bf16[3, 2, 128, 40]) {\n"
        "  h = contract \"bmk,bjck->bmjc\"(x, w)\n  s = reduce_max \"bmjc->bmj\"(abs(h))\n"
        "  q = cast(mul(h, s @ \"bmj\"), bf16)\n  return q: bf16, s: f32 }";
    run_all({{"dual", dual, "64x128x64g1s2"},
             {"dual", dual, "128x128x64g2s2"},
             {"batch", batch, "64x128x64p2s3"},
             {"symbol", blocks("M", 3, 128, "[M in 0..300]"), "64x128x64p2s3", 128, 0},
             {"symbol", blocks("M", 3, 128, "[M in 0..300]"), "64x128x64p2s3", 128, 77}});
  }

  TEST_CASE("ragged rows, fp8 with scales per block") {
    const std::string experts = quantised(
        "chain a(input x: bf16[200, 72], weight w: bf16[4, 2, 128, 72], input e: i32[4]) {\n"
        "  h = silu(contract \"mk,ejck->mjc\"(x, w) ragged m by e over e)\n");
    const std::string fp8 = quantised(
        "chain a(input x: e4m3[200, 256], input t: f32[200, 2], weight w: e4m3[3, 128, 256],\n"
        "        weight u: f32[3, 1, 2]) {\n"
        "  h = contract \"mk,jck->mjc\"(dequant(x, t) block (1, 128),\n"
        "                             dequant(w, u) block (128, 128))\n");
    const std::vector<std::vector<i32>> ends = {{0, 90, 90, 200}, {64, 65, 130, 131}};
    run_all({{"experts", experts, "64x128x64p2s3", 128, 0, ends},
             {"experts", experts, "128x128x64p2s3", 128, 0, ends},
             {"fp8", fp8, "128x128x128g2s3"}});
  }

  TEST_CASE("three weights in one launch, two of them with a norm of each head") {
    const std::string text =
        "chain a(input x: bf16[200, 72], weight wq: bf16[3, 128, 72], weight wk: bf16[1, 128, "
        "72],\n"
        "        weight wv: bf16[72, 72], weight gq: bf16[128], weight gk: f32[128]) {\n"
        "  q = contract \"mk,jck->mjc\"(x, wq)\n  k = contract \"mk,jck->mjc\"(x, wk)\n"
        "  v = contract \"mk,nk->mn\"(x, wv)\n"
        "  a = rsqrt(add(sum \"mjc->mj\"(square(q)), 0.00001))\n"
        "  b = rsqrt(add(sum \"mjc->mj\"(square(k)), 0.00001))\n"
        "  nq = mul(mul(q, a @ \"mj\"), gq)\n  nk = mul(mul(k, b @ \"mj\"), gk)\n"
        "  return nq: bf16, nk: bf16, v: bf16 }";
    for (const char* tile : {"64x128x64g1s3", "128x128x64p2s3", "128x256x64g2s2"}) {
      CAPTURE(tile);
      SimulatedChainOptions options;
      options.plan.force_tile = tile;
      options.plan.prefer_inside = true;
      options.fill = FillKind::kNormal;
      options.sm_count = 7;
      auto chain = SimulatedChain::make(text, options);
      REQUIRE(chain);
      REQUIRE(chain->plan().buckets[0].kernels.size() == 1);
      CHECK(chain->plan().buckets[0].kernels[0].beside.size() == 2);
      CHECK(reduces_rows(chain->plan()));
      const std::string failure = first_failure(*chain, tile, 3);
      CHECK_MESSAGE(failure == "", failure);
    }
  }

  TEST_CASE("random chains") {
    RandomChainOptions random;
    random.max_elements = 1 << 14;
    const Target h200 = llvm::cantFail(find_target("h200"));
    int found = 0;
    for (u64 seed = 1; seed <= 3000 && found < 5; ++seed) {
      auto chain = verify(random_chain(seed, random));
      REQUIRE(chain);
      FusionOptions fusion;
      fusion.row_reductions = true;
      if (!fuse_chain(*chain, fusion).has_row_reductions) continue;
      PlanOptions inside;
      inside.prefer_inside = true;
      auto plan = make_plan(*chain, h200, inside);
      if (!plan || !reduces_rows(*plan)) {
        if (!plan) llvm::consumeError(plan.takeError());
        continue;
      }
      ++found;
      SimulatedChainOptions options;
      options.plan = inside;
      options.fill = FillKind::kNormal;
      if (chain->chain().symbol) options.symbol = chain->chain().symbol->hi;
      auto run = SimulatedChain::make(print(chain->chain()), options);
      REQUIRE(run);
      const std::string failure = first_failure(*run, fmt::format("seed {}", seed), 2);
      CHECK_MESSAGE(failure == "", failure);
    }
    CHECK(found == 5);
  }
}
