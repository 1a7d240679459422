// SPDX-License-Identifier: Apache-2.0
// Shapes of `skinny`: candidates fit their target and hold all of K, forced names are taken as
// written or not at all, and plans take the family where it fits and nowhere else.
#include "compiler/families/skinny/candidates.h"
#include "compiler/kernel_family.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "ir/random/random_chain.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

SkinnyProblem problem(i64 m, i64 n, i64 blocks, bool gated = false) {
  SkinnyProblem made;
  made.base.space.m = m;
  made.base.space.n = n;
  made.base.space.k = blocks * 128 / made.base.space.element_bytes();
  made.base.dual = gated;
  made.m = m;
  made.weight_bytes = n * blocks * 128 * made.base.num_accumulators();
  made.epilogue_bytes = m * (n * 2 + blocks * 128);
  return made;
}

Target target(const char* name) { return llvm::cantFail(find_target(name)); }

// Best first.
std::vector<Candidate> ranked_candidates(const SkinnyProblem& from, const Target& at,
                                         const TileRequest& request = {}) {
  auto candidates = skinny_candidates(from, at, request);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.predicted.us < b.predicted.us; });
  return candidates;
}

const SkinnyConfig& config_of(const Candidate& candidate) {
  return candidate.config.get<SkinnyConfig>();
}

std::vector<Candidate> forced(const std::string& name, i64 blocks = 64, int split_k = 1,
                              const char* at = "h200") {
  return ranked_candidates(problem(4, 2048, blocks), target(at), {name, split_k});
}

// CUDA programming guide, technical specifications.
int threads_per_sm(const Target& at) {
  const std::map<int, int> known = {{80, 2048}, {86, 1536}, {89, 1536}, {90, 2048}, {100, 2048}};
  return known.at(at.compute_capability());
}

Plan planned(const std::string& text, const char* name, PlanOptions options = {}) {
  auto chain = verify(llvm::cantFail(parse(text)));
  if (!chain) FAIL(take_report(chain.takeError()).message);
  auto plan = make_plan(*chain, target(name), options);
  if (!plan) FAIL(take_report(plan.takeError()).message);
  return std::move(*plan);
}

std::string linear(const char* m, const char* dtype, i64 n, i64 k, const char* more = "") {
  return fmt::format(
      "chain a{}(input x: {}[{}, {}], weight w: {}[{}, {}]) {{\n"
      "  y = contract \"mk,nk->mn\" {} (x, w)\n  return y: {} }}",
      m[0] == 'M' ? "[M in 0..64]" : "", dtype, m, k, dtype, n, k, more, dtype);
}

std::string_view first_family(const Plan& plan, size_t bucket = 0) {
  return family_name(plan.buckets[bucket].kernels[0]);
}

}  // namespace

TEST_CASE("candidates hold all of K, fit two to an SM, and come best first") {
  for (const Target& at : all_targets()) {
    for (const i64 m : {1, 4, 5, 8, 9, 16, 24}) {
      for (const i64 blocks : {4, 5, 8, 17, 31, 64, 65, 128, 224}) {
        for (const bool gated : {false, true}) {
          CAPTURE(at.name);
          CAPTURE(m);
          CAPTURE(blocks);
          const auto ranked = ranked_candidates(problem(m, 2048, blocks, gated), at);
          const bool spills = m > 16 && blocks % 4 != 0;  // uneven slices
          CHECK((spills || !ranked.empty()));
          std::set<std::string> names;
          double last = 0;
          for (const Candidate& candidate : ranked) {
            const SkinnyConfig& c = config_of(candidate);
            // In chunks of 16 bytes: a CTA's part of K, and that of the CTA with the least.
            const i64 most = ceil_div(8 * blocks, c.k_slices() * c.k_step()) * c.k_step();
            const i64 least = 8 * blocks / (c.k_slices() * c.k_step()) * c.k_step();
            CHECK(c.warp_blocks() == ceil_div(ceil_div(most, 8), c.tile.warps_k));
            CHECK(ceil_div(least, 8) >= c.tile.warps_k);
            CHECK((c.schedule.cluster_k == 1 || (c.loads.bulk && c.schedule.split_k == 1)));
            CHECK(c.tile.columns >= c.schedule.cluster_k);
            CHECK(c.tile.columns >= m);
            CHECK(c.tile.columns - m < 8);
            CHECK(c.threads() <= 1024);
            CHECK(c.vectors() <= c.threads());
            CHECK(c.schedule.n_slices <= c.n_vectors());
            CHECK(c.smem_bytes() <= at.smem_per_cta);
            CHECK(candidate.min_ctas >= 2);
            CHECK(candidate.min_ctas * (c.smem_bytes() + 1024) <= at.smem_per_sm);
            CHECK(candidate.min_ctas * c.threads() <= threads_per_sm(at));
            CHECK(c.loads.bulk == (at.compute_capability() == 90));
            CHECK((c.loads.bulk ? 16 % c.loads.copy_groups == 0
                                : c.loads.copy_groups <= std::max(c.loads.shared_blocks, 1)));
            CHECK((tile_name(c).back() == 'a') == !c.loads.bulk);
            CHECK(candidate.predicted.us >= last);
            CHECK(candidate.predicted.us >= candidate.predicted.dram_us);
            last = candidate.predicted.us;
            CHECK(names.insert(fmt::format("{} {}", tile_name(c), c.schedule.split_k)).second);
          }
        }
      }
    }
  }
}

TEST_CASE("candidates depend only on the problem") {
  for (const char* name : {"h200", "l4"}) {
    const auto first = ranked_candidates(problem(8, 4096, 112), target(name));
    const auto second = ranked_candidates(problem(8, 4096, 112), target(name));
    REQUIRE(first.size() == second.size());
    for (size_t i = 0; i < first.size(); ++i) CHECK(first[i].config == second[i].config);
  }
}

TEST_CASE("a slice of K that no SM holds leaves no candidate but parts of K") {
  for (const Target& at : all_targets()) {
    CAPTURE(at.name);
    for (const Candidate& candidate : ranked_candidates(problem(16, 4096, 448), at)) {
      CHECK(config_of(candidate).k_slices() > 1);
    }
    CHECK(ranked_candidates(problem(16, 4096, 1 << 20), at).empty());
    // Fewer blocks than warps.
    CHECK(ranked_candidates(problem(1, 4096, 1), at).empty());
  }
}

TEST_CASE("where shared memory is small, fewer blocks are in it, and the rest in registers") {
  for (const char* name : {"a100", "a10", "l4"}) {
    CAPTURE(name);
    const auto ranked = ranked_candidates(problem(8, 4096, 64), target(name));
    const auto tiled = llvm::find_if(ranked, [](const Candidate& candidate) {
      return config_of(candidate).schedule.n_slices == 0;
    });
    REQUIRE(tiled != ranked.end());
    CHECK(config_of(*tiled).schedule.split_k == 1);
    CHECK(config_of(*tiled).loads.register_blocks > 2);
  }
}

TEST_CASE("a forced name is taken as it stands") {
  const auto ranked = forced("skinny8x1s6r2g4p3");
  REQUIRE(ranked.size() == 1);
  const SkinnyConfig& c = config_of(ranked[0]);
  CHECK(c.tile.warps_k == 8);
  CHECK(c.tile.warps_n == 1);
  CHECK(c.loads.shared_blocks == 6);
  CHECK(c.loads.register_blocks == 2);
  CHECK(c.loads.copy_groups == 4);
  CHECK(c.loads.x_chunks == 3);
  CHECK(tile_name(c) == "skinny8x1s6r2g4p3");
  CHECK(forced("skinny8x1s6r2g4p3", 32).size() == 1);  // with room to spare
  CHECK(forced("skinny8x1s6r2g4p3", 64, 2).size() == 1);
  // Every split of the planner's that leaves each warp a block.
  const TileRequest any_split{"skinny8x1s6r2g4p3", 0};
  CHECK(ranked_candidates(problem(4, 2048, 64), target("h200"), any_split).size() == 4);
}

TEST_CASE("a forced name may share K among CTAs, and give warps more rows of W than 16") {
  const auto ranked = forced("skinny8x1s3r1g4p2t2c2");
  REQUIRE(ranked.size() == 1);
  const SkinnyConfig& c = config_of(ranked[0]);
  CHECK(c.tile.row_tiles == 2);
  CHECK(c.schedule.cluster_k == 2);
  CHECK(c.rows() == 32);
  CHECK(c.loads.x_columns == c.tile.columns);
  CHECK(c.partials_bytes() == 32 * 4 * 4);  // half of eight columns
  CHECK(forced("skinny2x2s4r4g4p4c4").size() == 1);
  CHECK(forced("skinny8x1s3r1g3p4t2a", 32).size() == 1);
  for (const char* name :
       {"skinny8x1s3r1g4p2c2t2", "skinny8x1s3r1g4p2t2c2x8", "skinny8x1s3r1g4p2t3c2",
        "skinny8x1s3r1g4p2t8c2", "skinny8x1s3r1g4p2t2c3", "skinny8x1s3r1g4p2t2c16",
        "skinny8x1s3r1g4p2t1c2", "skinny8x1s3r1g4p2t2c1", "skinny8x1s3r1g4p2t2c2a",
        "skinny8x1s3r1g4p2x8t2c2", "skinny8x1s3r1g4p2x4t2c2", "skinny8x1s3r1g4p2t",
        "skinny8x1s3r1g4p2c"}) {
    CAPTURE(name);
    CHECK(forced(name).empty());
  }
  CHECK(forced("skinny8x1s3r1g4p2t2c2", 64, 1, "a100").empty());
}

TEST_CASE("16 rows share K in pairs, so that a warp's X meets 32 rows of W") {
  const Plan plan = planned(linear("16", "bf16", 2048, 4096), "h200");
  REQUIRE(first_family(plan) == "skinny");
  const KernelPlan& kernel = plan.buckets[0].kernels[0];
  const auto& c = kernel.config.get<SkinnyConfig>();
  CHECK(c.tile.row_tiles == 2);
  CHECK(c.schedule.cluster_k == 2);
  CHECK(kernel.cluster == 2);
  CHECK(kernel.grid.ctas(16) == 128);
  // Too few CTAs to draw what DRAM gives: more of them share K.
  const Plan narrow = planned(linear("1", "bf16", 512, 4096), "h200");
  REQUIRE(first_family(narrow) == "skinny");
  CHECK(narrow.buckets[0].kernels[0].config.get<SkinnyConfig>().schedule.cluster_k > 1);
}

TEST_CASE("a forced name with an a is by cp.async, on every target") {
  for (const Target& at : all_targets()) {
    CAPTURE(at.name);
    const auto ranked = forced("skinny8x1s2r1g2p2a", 24, 1, at.name.c_str());
    REQUIRE(ranked.size() == 1);
    const SkinnyConfig& c = config_of(ranked[0]);
    CHECK(!c.loads.bulk);
    CHECK(c.loads.shared_blocks == 2);
    CHECK(c.loads.register_blocks == 1);
    CHECK(c.loads.copy_groups == 2);
    CHECK(tile_name(c) == "skinny8x1s2r1g2p2a");
    CHECK(c.barrier_bytes() == 0);
    // Loads by cp.async.bulk need sm_90.
    const bool bulk = at.compute_capability() == 90;
    CHECK(forced("skinny8x1s2r1g2p2", 24, 1, at.name.c_str()).size() == (bulk ? 1 : 0));
  }
  CHECK(forced("skinny8x1s3r5g3p4a").size() == 1);      // three groups of a block each
  CHECK(forced("skinny8x1s0r8g1p8a", 64).size() == 0);  // no registers for two CTAs
  CHECK(forced("skinny4x1s0r8g1p8a", 32).size() == 1);
  CHECK(forced("skinny8x1s3r5g4p4a").empty());  // a group without a block
  CHECK(forced("skinny8x1s0r3g2p1a", 24).empty());
  CHECK(forced("skinny8x1s3r1g2p2aa", 24).empty());
  CHECK(forced("skinny8x1s3r1g2p2b", 24).empty());
  // 100 KiB per SM hold less.
  CHECK(forced("skinny16x1s3r1g2p2a", 64, 1, "h200").size() == 1);
  CHECK(forced("skinny16x1s3r1g2p2a", 64, 1, "a100").empty());
  CHECK(forced("skinny16x1s2r1g2p2a", 48, 1, "a100").size() == 1);
  CHECK(forced("skinny16x1s2r1g2p2a", 48, 1, "l4").empty());
}

TEST_CASE("a name that is no shape, or one that does not fit, leaves no candidate") {
  for (const char* name : {
           "128x128x32w2x2s3",  // another family's
           "skinny",
           "skinny8x2",
           "Skinny8x1s6r2g4p3",
           "skinny8x1s6r2g4p3 ",
           "skinny 8x1s6r2g4p3",
           "skinny08x1s6r2g4p3",
           "skinny8x1s6r2g4p3x",
           "skinny8x1s6r2g4",
           "skinny0x1s6r2g4p3",
           "skinny8x0s6r2g4p3",
           "skinny-8x-1s6r2g4p3",
           "skinny8x2s-1r9g4p3",
           "skinny8x2s9r-1g4p3",
           "skinny8x2s0r0g4p1",
           "skinny8x1s6r2g0p3",
           "skinny8x1s6r2g3p3",
           "skinny8x1s6r2g32p3",
           "skinny8x1s6r2g4p0",
           "skinny8x1s6r2g4p-1",
           "skinny8x1s6r2g4p9",
           "skinny33x1s6r2g4p3",
           "skinny16x4s6r2g4p3",  // too many threads
           "skinny65536x65536s6r2g4p3",
           "skinny8x2s99999999r2g4p3",  // products overflow
           "skinny8x1s6r1g4p3",         // 56 of 64 blocks
           "skinny8x2s8r64g4p3",        // no registers for two CTAs
           "skinny8x4s6r2g4p3",         // no shared memory for two CTAs
       }) {
    CAPTURE(name);
    CHECK(forced(name).empty());
  }
  CHECK(forced("skinny16x1s3r1g2p2", 64, 3).empty());  // no such split
  CHECK(forced("skinny16x1s3r1g2p2", 15).empty());     // a warp without a block
}

TEST_CASE("small M of whole K blocks has skinny candidates on every target") {
  for (const Target& at : all_targets()) {
    CAPTURE(at.name);
    // Of 16 rows X weighs as much as W; where L2 is slow for it, gemm_sm80 reads it less often.
    const i64 sure = at.compute_capability() == 90 ? 16 : 8;
    for (const char* m : {"1", "4", "8", "16"}) {
      for (const char* dtype : {"bf16", "f16", "f32"}) {
        CAPTURE(std::string(m));
        CAPTURE(std::string(dtype));
        // 8 KiB a row; 16 rows of 16 KiB would leave an SM no room for a second CTA.
        const i64 k = dtype[0] == 'b' || dtype[1] == '1' ? 4096 : 2048;
        const Plan plan = planned(linear(m, dtype, 2048, k), at.name.c_str());
        if (std::stoi(m) <= sure) {
          CHECK(llvm::any_of(plan.buckets[0].kernels[0].candidates,
                             [](const CandidateSummary& c) { return c.id.family == "skinny"; }));
        }
        for (const KernelPlan& kernel : plan.buckets[0].kernels) {
          CHECK(kernel.smem_bytes <= at.smem_per_cta);
          CHECK(kernel.threads <= 1024);
        }
      }
    }
    const Plan plan = planned(linear("M", "bf16", 2048, 4096), at.name.c_str());
    for (size_t b = 0; b < plan.buckets.size(); ++b) {
      const i64 rows = plan.buckets[b].hi;
      if (rows <= sure) CHECK(first_family(plan, b) == "skinny");
      if (rows > kSkinnyRows) CHECK(first_family(plan, b) != "skinny");
    }
  }
}

TEST_CASE("what the family does not take stays with gemm_sm80") {
  const char* kGemm[] = {
      "chain a(input x: bf16[8, 4100], weight w: bf16[2048, 4100]) {\n"  // no whole chunks
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
      "chain a(input x: bf16[25, 4096], weight w: bf16[2048, 4096]) {\n"  // too many rows
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
      "chain a(input x: bf16[8, 4096], weight w: bf16[4096, 2048]) {\n"  // W across K
      "  y = contract \"mk,kn->mn\"(x, w)\n  return y: bf16 }",
      "chain a(input x: bf16[8, 4096] strides[4097, 1], weight w: bf16[2048, 4096]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
      "chain a(input x: bf16[8, 4096], weight w: bf16[2048, 4096] align 8) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
      "chain a(input x: f32[8, 4096], weight w: f32[2048, 4096]) {\n"  // products of whole f32
      "  y = contract \"mk,nk->mn\" f32 (x, w)\n  return y: f32 }",
      "chain a(input x: bf16[33, 4096], weight w: bf16[2, 2048, 4096], input e: i32[2]) {\n"
      "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  return y: bf16 }",
      "chain a(input x: bf16[32, 2, 4096], weight w: bf16[2, 2048, 4096], input e: i32[2]) {\n"
      "  y = contract \"mhk,gnk->mhn\"(x, w) ragged m by e over g\n  return y: bf16 }",
      "chain a(input x: bf16[8, 4096], weight w: bf16[2, 4096, 2048], input e: i32[2]) {\n"
      "  y = contract \"mk,gkn->mn\"(x, w) ragged m by e over g\n  return y: bf16 }",
      "chain a(input x: bf16[8, 4096], weight w: bf16[2, 2048, 4096] strides[8388612, 4096, 1],\n"
      "        input e: i32[2]) {\n"
      "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  return y: bf16 }",
      "chain a(input x: bf16[8, 2048], input d: bf16[8, 4096], input e: i32[2]) {\n"
      "  y = contract \"mn,mk->enk\"(x, d) ragged m by e over e\n  return y: bf16 }",
      "chain a[M in 0..64](input x: bf16[8, M] strides[64, 1], weight w: bf16[2048, M]\n"
      "        strides[64, 1]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
      "chain a[M in 0..64](input x: bf16[8, 4096], weight w: bf16[M, 4096]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 strides[64, 1] }",
  };
  for (const char* text : kGemm) {
    CAPTURE(text);
    const Plan plan = planned(text, "h200");
    for (size_t b = 0; b < plan.buckets.size(); ++b) {
      CHECK(first_family(plan, b) != "skinny");
    }
  }
}

TEST_CASE("a refused shape is not chosen again, and at last the other family is") {
  PlanOptions options;
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const Plan plan = planned(linear("4", "bf16", 2048, 4096), "h200", options);
    const KernelPlan& kernel = plan.buckets[0].kernels[0];
    if (family_name(kernel) != "skinny") break;
    CHECK(seen.insert(kernel.config_text).second);
    options.rejected.push_back({kernel.signature, kernel.candidate});
  }
  CHECK(seen.size() >= 2);
  CHECK(seen.size() < 100);
}

TEST_CASE("a forced shape is the plan's, and the other family is a runner-up of a free choice") {
  PlanOptions options;
  options.force_tile = "skinny8x1s6r2g4p3";
  const Plan plan = planned(linear("4", "bf16", 2048, 4096), "h200", options);
  REQUIRE(first_family(plan) == "skinny");
  const auto& config = plan.buckets[0].kernels[0].config.get<SkinnyConfig>();
  CHECK(tile_name(config) == options.force_tile);
  CHECK(config.loads.w_is_weight);

  const Plan free = planned(linear("4", "bf16", 2048, 4096), "h200");
  CHECK(llvm::any_of(free.buckets[0].kernels[0].candidates, [](const CandidateSummary& other) {
    return other.id.family == "gemm_sm80" && !other.chosen;
  }));
}

TEST_CASE("every row count has a grid: none for no rows, one for up to 16") {
  const Plan plan = planned(linear("M", "bf16", 2047, 512), "h200");
  for (const PlanBucket& bucket : plan.buckets) {
    if (bucket.hi > kSkinnyRows) continue;
    const KernelPlan& kernel = bucket.kernels[0];
    const auto& config = kernel.config.get<SkinnyConfig>();
    for (i64 m = bucket.lo; m <= bucket.hi; ++m) {
      CHECK(kernel.grid.ctas(m) ==
            (m == 0 ? 0 : config.k_slices() * ceil_div(2047, config.rows())));
    }
  }
}

TEST_CASE("random chains with small M reach every variant of the family") {
  const Target at = target("h200");
  std::map<std::string, int> seen;
  for (u64 seed = 0; seed < 300; ++seed) {
    RandomChainOptions random;
    random.small_m = true;
    random.no_ragged = false;
    random.max_elements = 1 << 15;
    const Chain chain = random_chain(seed, random);
    PlanOptions options;
    options.split_k = seed % 4 == 0 ? 2 : 0;
    auto plan = make_plan(llvm::cantFail(verify(chain)), at, options);
    if (!plan) {
      // A chain may not be divisible as it is forced to be.
      const ErrorCode code = take_report(plan.takeError()).code;
      CHECK((code == ErrorCode::kUnsupported ||
             (options.split_k > 0 && code == ErrorCode::kInvalidArgument)));
      continue;
    }
    for (const KernelPlan& kernel : plan->buckets.back().kernels) {
      const auto* c = kernel.config.get_if<SkinnyConfig>();
      if (c == nullptr) continue;
      ++seen["kernels"];
      seen["f16"] += c->space.math == MathMode::kF16;
      seen["bf16"] += c->space.math == MathMode::kBF16;
      seen["tf32"] += c->space.math == MathMode::kTF32;
      seen["gated"] += c->dual;
      seen["split"] += c->schedule.split_k > 1;
      seen["cluster"] += c->schedule.cluster_k > 1;
      seen["uneven"] += c->k_blocks() % (c->k_slices() * c->tile.warps_k) != 0;
      seen["batch"] += c->space.batch_rank > 0;
      seen["symbol"] += c->space.m.scale != 0;
      seen["odd n"] += c->space.n.size % 2 != 0;
      seen["ragged"] += c->ragged.kind == Ragged::kMGrouped;
      seen["ragged, gated"] += c->ragged.kind == Ragged::kMGrouped && c->dual;
      seen["ragged, symbol"] += c->ragged.kind == Ragged::kMGrouped && c->space.m.scale != 0;
    }
  }
  std::string text;
  for (const auto& [what, count] : seen) text += fmt::format("{} {}; ", what, count);
  MESSAGE(text);
  CHECK(seen["kernels"] >= 100);
  for (const auto& [what, count] : seen) CHECK_MESSAGE(count >= 5, what);
}

TEST_CASE("a forced name that no family has, or that does not fit, is refused by name") {
  const VerifiedChain chain = llvm::cantFail(
      verify(llvm::cantFail(parse("chain a(input x: bf16[33, 4096], weight w: bf16[2048, 4096]) {\n"
                                  "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }"))));
  for (const int split : {0, 2}) {
    for (const char* name : {"64x72x64g1s6k4", "64x64x64g1s19k4", "skinny9x9s9r9g9p9"}) {
      CAPTURE(name);
      PlanOptions options;
      options.force_tile = name;
      options.split_k = split;
      auto plan = make_plan(chain, target("h200"), options);
      REQUIRE_FALSE(static_cast<bool>(plan));
      const ErrorReport report = take_report(plan.takeError());
      CHECK(report.code == ErrorCode::kInvalidArgument);
      CHECK(report.message.find(fmt::format("that fits h200 is named '{}'", name)) !=
            std::string::npos);
      CHECK((report.message.find("split-K 2") != std::string::npos) == (split == 2));
    }
  }
}
