// SPDX-License-Identifier: Apache-2.0
// Shapes of `gemm_dequant`: candidates hold N and K and fit their target, every one is found again
// by its name, names that do not hold are no candidates, weights side by side share a tile, and
// each problem without a kernel is refused by a sentence.
#include "compiler/families/gemm_dequant/candidates.h"

#include <doctest/doctest.h>

#include "compiler/families/binding.h"
#include "compiler/families/gemm_dequant/cost.h"
#include "compiler/fusion/fuse.h"
#include "tests/support/gemm_sm90_plan.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Layer {
  DType q = DType::kI4;
  i64 m = 64, n = 4096, k = 4096, columns = 128;
  bool zero = false;
  bool dual = false;
  i64 batch = 1;
};

GemmDequantProblem problem(const Layer& l) {
  GemmDequantProblem made;
  made.base.space.m = l.m;
  made.base.space.n = l.n;
  made.base.space.k = l.k;
  made.base.space.math = MathMode::kBF16;
  made.base.w.dtype = l.q;
  made.base.w.block_columns = l.columns;
  made.base.w.scale.dtype = DType::kBF16;
  made.base.w.has_zero = l.zero;
  made.base.dual = l.dual;
  if (l.dual) made.base.w2 = made.base.w;
  if (l.batch > 1) {
    made.base.space.batch_rank = 1;
    made.base.space.batch.at[kMaxDims - 1] = Extent(l.batch);
  }
  made.batch = l.batch;
  made.m = l.m;
  made.weight_bytes =
      l.batch * (l.dual ? 2 : 1) * packed_elements(l.n, l.k) * dtype_info(l.q).bits / 8;
  made.other_bytes = l.batch * l.m * (l.n + l.k) * 2;
  return made;
}

std::vector<Candidate> candidates(const Layer& l, const char* at = "h200", std::string name = "") {
  return gemm_dequant_candidates(problem(l), llvm::cantFail(find_target(at)), {std::move(name), 1});
}

const GemmDequantConfig& config_of(const Candidate& candidate) {
  return candidate.config.get<GemmDequantConfig>();
}

// Sizes that are no multiples of anything as well.
std::vector<Layer> layers() {
  std::vector<Layer> all;
  for (const DType q : {DType::kI4, DType::kU4, DType::kI8}) {
    for (const i64 m : {1, 17, 40, 64, 128, 300, 2048}) {
      for (const auto& [n, k] : std::vector<std::pair<i64, i64>>{{4096, 4096},
                                                                 {2880, 5120},
                                                                 {18944, 3584},
                                                                 {1000, 1056},
                                                                 {17, 160},
                                                                 {37888, 14336}}) {
        all.push_back({q, m, n, k, 128});
        all.push_back({q, m, n, k, 32, true});
        all.push_back({q, m, n, k, k});
        all.push_back({q, m, n, k, 64, false, true});
      }
    }
  }
  for (const i64 m : {5, 64, 200}) {
    for (const bool dual : {false, true}) {
      for (const auto& [n, k] :
           std::vector<std::pair<i64, i64>>{{768, 2048}, {17, 224}, {4096, 4096}}) {
        all.push_back({DType::kI4, m, n, k, 128, true, dual, 8});
      }
    }
  }
  return all;
}

std::string text_of(const Layer& l) {
  return fmt::format("{} {}x{}x{} columns {} zero {} dual {} batch {}", dtype_text(l.q), l.m, l.n,
                     l.k, l.columns, l.zero, l.dual, l.batch);
}

// Rows of D that the CTAs of a slice hold, K blocks that the CTAs of a cluster hold.
void check_space(const GemmDequantConfig& c) {
  CHECK(i64{c.tile.row_tiles} * c.schedule.n_slices >= c.n_tiles());
  CHECK(c.schedule.n_slices <= c.n_tiles());
  CHECK(i64{4} * c.fragments() * c.weight_warpgroups() >= c.tile.row_tiles);
  CHECK(c.k_tiles() >= c.k_slices());
  CHECK(c.k_tiles() * c.loads.stage_blocks >= c.k_blocks());
  CHECK((c.loads.stages >= 2 || c.k_tiles() <= c.k_slices()));
  CHECK(c.tile.columns % 8 == 0);
  CHECK(c.tile.columns <= 256);
  CHECK(c.fragments() * c.loads.stage_blocks % 2 == 0);
  CHECK(c.schedule.warpgroups % c.num_accumulators() == 0);
  CHECK(c.runs() <= 32);
  CHECK(c.rows() % c.vec == 0);
  CHECK(c.scaled_parts() * c.scaled_columns() == c.stage_columns());
  CHECK((c.has_row_scales() || c.w.block_columns % c.scaled_columns() == 0));
}

// Stages, then the partials, then the mbarriers; sums where the stages are.
void check_memory(const GemmDequantConfig& c, const Target& target) {
  CHECK(c.stage_bytes() % 1024 == 0);
  CHECK(c.x_bytes() % 1024 == 0);
  CHECK(c.x_bytes() + c.runs() * c.run_bytes() <= c.stage_bytes());
  CHECK(c.loads.stages * c.stage_bytes() <= c.partials_offset());
  CHECK(c.tile.columns * c.sum_pitch() <= c.partials_offset());
  CHECK(c.sum_pitch() % 16 == 0);
  CHECK(c.partials_offset() % 16 == 0);
  CHECK(c.own_columns() * c.schedule.cluster_k >= c.tile.columns);
  CHECK(c.barrier_offset() % 8 == 0);
  CHECK(c.smem_bytes() <= target.smem_per_cta);
  CHECK(c.schedule.ctas_per_sm * i64{c.smem_bytes()} <= target.smem_per_sm);
}

// setmaxnreg takes multiples of 8 up to 240, and moves no more registers than there are.
void check_registers(const GemmDequantConfig& c) {
  CHECK(c.launch_registers() * c.threads() * c.schedule.ctas_per_sm <= 65536);
  CHECK(c.threads() * c.schedule.ctas_per_sm <= 2048);
  CHECK(estimated_registers(c) <= c.mma_registers());
  if (!c.moves_registers()) return;
  CHECK(c.mma_registers() % 8 == 0);
  CHECK(c.mma_registers() <= 240);
  CHECK(c.mma_registers() >= c.launch_registers());
  CHECK(c.launch_registers() >= GemmDequantConfig::kLoadRegisters);
  CHECK(c.mma_registers() * c.mma_threads() + GemmDequantConfig::kLoadRegisters * 128 <=
        c.launch_registers() * c.threads());
}

}  // namespace

TEST_CASE("every layer has candidates, which hold N and K and fit the target") {
  for (const char* at : {"h100", "h200"}) {
    const Target target = llvm::cantFail(find_target(at));
    for (const Layer& l : layers()) {
      CAPTURE(text_of(l));
      const std::vector<Candidate> all = candidates(l, at);
      CHECK(!all.empty());
      for (const Candidate& candidate : all) {
        CAPTURE(candidate.id.tile);
        const GemmDequantConfig& c = config_of(candidate);
        check_space(c);
        check_memory(c, target);
        check_registers(c);
        CHECK(candidate.min_ctas == c.schedule.ctas_per_sm);
        CHECK(candidate.predicted.us > 0);
        CHECK(candidate.sums == SumOrder());
      }
    }
  }
}

TEST_CASE("a candidate is found again by its name, and only once") {
  for (const Layer& l : layers()) {
    CAPTURE(text_of(l));
    std::vector<std::string> names;
    for (const Candidate& candidate : candidates(l)) {
      CAPTURE(candidate.id.tile);
      const std::vector<Candidate> found = candidates(l, "h200", candidate.id.tile);
      REQUIRE(found.size() == 1);
      CHECK(config_of(found[0]) == config_of(candidate));
      names.push_back(candidate.id.tile);
    }
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  }
}

TEST_CASE("names that do not hold the layer are no candidates") {
  const Layer l{DType::kI4, 64, 4096, 4096};
  CHECK(candidates(l, "h200", "packed2t8x64s4b2").size() == 1);
  CHECK(candidates(l, "h200", "packed2t8x64s4b2c2").size() == 1);
  for (const char* name : {
           "packed2t8x64s4",       // no K blocks
           "packed2t8x64s4b2n0",   // no slices
           "packed2t8x64s4b2n32",  // what t8 means is not written
           "packed2t8x64s4b2n60",  // 60 slices have at most 5 row tiles
           "packed2t33x64s4b2",    // more row tiles than lanes
           "packed2t0x64s4b2",     // no rows
           "packed0t8x64s4b2",     // no warpgroups
           "packed5t8x64s4b2",     // more than four
           "packed2t8x60s4b2",     // MMAs have multiples of 8 rows of X
           "packed2t8x264s2b2",    // and at most 256
           "packed2t8x64s1b2",     // a stage is released after the next one has arrived
           "packed2t8x64s3b3",     // an odd number of steps
           "packed2t16x64s4b1",    // a k-tile has two K blocks or more
           "packed2t8x64s4b2c3",   // clusters are powers of two
           "packed2t8x64s4b2c16",  // and at most eight CTAs
           "packed2t8x64s16b8",    // more than shared memory
           "packed1t32x256s2b2",   // more than the registers
           "packed2t8x64s4b2trailing",
       }) {
    CHECK_MESSAGE(candidates(l, "h200", name).empty(), std::string(name));
  }
  // A CTA of a cluster without a k-tile; warpgroups of one weight only.
  CHECK(candidates({DType::kI4, 64, 4096, 256}, "h200", "packed2t8x64s4b2c4").empty());
  CHECK(candidates({DType::kI4, 64, 4096, 4096, 128, false, true}, "h200", "packed3t4x64s2b2")
            .empty());
  CHECK(candidates({DType::kI4, 64, 4096, 4096, 128, false, true}, "h200", "packed2t17x8s2b2")
            .empty());
}

TEST_CASE("a CTA has two k-tiles, and a stage for each of two") {
  const Layer l{DType::kI4, 64, 4096, 256};
  CHECK(candidates(l, "h200", "packed2t8x64s2b2").size() == 1);
  CHECK(candidates(l, "h200", "packed2t8x64s1b2").empty());
  CHECK(candidates(l, "h200", "packed2t8x64s2b4").empty());
  CHECK(candidates(l, "h200", "packed2t8x64s2b2c2").empty());
}

TEST_CASE("slices of N differ by one row tile at most") {
  for (const Layer& l : layers()) {
    for (const Candidate& candidate : candidates(l)) {
      const GemmDequantConfig& c = config_of(candidate);
      CAPTURE(candidate.id.tile);
      for (const i64 slice : {i64{0}, c.schedule.n_slices / 2, c.schedule.n_slices - 1}) {
        const i64 tiles = c.n_tiles() * (slice + 1) / c.schedule.n_slices -
                          c.n_tiles() * slice / c.schedule.n_slices;
        CHECK(tiles >= c.tile.row_tiles - 1);
        CHECK(tiles <= c.tile.row_tiles);
        CHECK(tiles >= 1);
      }
    }
  }
}

TEST_CASE(
    "side by side, parts take the joint weight's threads and clusters, and hold their own N") {
  const Target target = llvm::cantFail(find_target("h200"));
  for (const bool dual : {false, true}) {
    const std::vector<i64> parts = {4096, 1024, 1000, 17};
    Layer joint{DType::kI4, 64, 4096 + 1024 + 1000 + 17, 4096};
    joint.dual = dual;
    for (const Candidate& candidate : candidates(joint)) {
      const GemmDequantConfig& shared = config_of(candidate);
      i64 slices = 0;
      for (const i64 n : parts) {
        Layer part = joint;
        part.n = n;
        CAPTURE(candidate.id.tile);
        const auto own = gemm_dequant_candidate_like(problem(part), target, shared);
        REQUIRE(own);
        const GemmDequantConfig& c = config_of(*own);
        CHECK(c.threads() == shared.threads());
        CHECK(c.schedule.cluster_k == shared.schedule.cluster_k);
        CHECK(c.tile.columns == shared.tile.columns);
        CHECK(c.loads == shared.loads);
        CHECK(c.tile.row_tiles <= shared.tile.row_tiles);
        CHECK(c.tile.row_tiles == ceil_div(c.n_tiles(), c.schedule.n_slices));
        check_space(c);
        check_registers(c);
        slices += c.schedule.n_slices;
      }
      // A part's last slice may be a part of one.
      CHECK(slices <= shared.schedule.n_slices + static_cast<i64>(parts.size()));
    }
  }
}

TEST_CASE("a weight beside a dual GEMM has as many runs") {
  const Target target = llvm::cantFail(find_target("h200"));
  Layer pair{DType::kI4, 64, 4096, 4096};
  pair.dual = true;
  for (const Candidate& candidate : candidates(pair)) {
    CAPTURE(candidate.id.tile);
    const GemmDequantConfig& shared = config_of(candidate);
    const auto own =
        gemm_dequant_candidate_like(problem({DType::kI4, 64, 4096, 4096}), target, shared);
    REQUIRE(own);
    CHECK(config_of(*own).runs() <= shared.runs());
    CHECK(config_of(*own).threads() == shared.threads());
  }
}

namespace {

const ContractionFamily& family() {
  for (const ContractionFamily* each : contraction_families())
    if (each->name() == "gemm_dequant") return *each;
  FAIL("no family gemm_dequant");
  return *contraction_families()[0];
}

// The problem of a linear layer with a dequantised weight; `from` in its text becomes `to`.
ContractionProblem problem_of(const std::string& from = "", const std::string& to = "") {
  std::string text =
      "chain a(input x: bf16[64, 512], weight q: i4[64, 512] packed, weight s: bf16[64, 4],\n"
      "        weight z: i8[64, 4]) {\n"
      "  w = dequant(q, s, z) block (1, 128)\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }";
  if (!from.empty()) {
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
  }
  const VerifiedChain chain = verified(text);
  const FusionPlan fusion = fuse_chain(chain, true);
  const MemoryMap memory = map_memory(chain, fusion);
  const GroupTensors tensors = build_group(chain, fusion, memory, 0);
  const Target target = llvm::cantFail(find_target("h200"));
  const PlanOptions options;
  return llvm::cantFail(
      make_contraction_problem({chain, target, options, fusion.groups[0], tensors, 0, "ctn_a_k0"}));
}

std::string refusal(const ContractionProblem& problem, const char* target = "h200") {
  return family().supports(problem, llvm::cantFail(find_target(target))).refusal;
}

using Change = void (*)(ContractionProblem&);

}  // namespace

TEST_CASE("a dequantised weight of any M is supported on sm_90a") {
  CHECK(refusal(problem_of()) == "");
  CHECK(refusal(problem_of(), "h100") == "");
  CHECK(refusal(problem_of("x: bf16[64,", "x: bf16[1,")) == "");
  CHECK(refusal(problem_of("x: bf16[64,", "x: bf16[100000,")) == "");
  CHECK(refusal(problem_of(), "a100").find("it needs sm_90a, and a100 is") == 0);
}

TEST_CASE("every property that the kernel does not have is refused by its sentence") {
  struct Refused {
    Change change;
    const char* sentence;
  };
  for (const auto& [change, sentence] : std::vector<Refused>{
           {[](auto& p) { p.b[0].dequant.reset(); }, "it computes one product with a dequantised"},
           {[](auto& p) { p.a[0].dequant = DequantisedOperand{}; },
            "it computes one product with a dequantised"},
           {[](auto& p) { p.space.math = MathMode::kTF32; },
            "it multiplies quantised weights by bf16 and f16"},
           {[](auto& p) { p.row_squares = true; }, "it has no sums of squares of X"},
           {[](auto& p) { p.formed = FormedPrograms{}; }, "it forms no X from what is in memory"},
           {[](auto& p) { p.gain = ContractionOperand{}; }, "it multiplies X by no gain"},
           {[](auto& p) {
              p.ragged = {Ragged::kKGrouped, 0, 4};
            },
            "it takes groups of rows of the activations, one or more"},
           {[](auto& p) {
              p.ragged = {Ragged::kMGrouped, 0, 0};
            },
            "it takes groups of rows of the activations, one or more"},
           {[](auto& p) { p.space.k = p.products[0].k = 500; },
            "it takes exact sizes, and K in whole multiples"},
           {[](auto& p) { p.space.n = p.accumulator_n[0] = 0; },
            "it takes exact sizes, and K in whole multiples"},
           {[](auto& p) { p.space.k = p.products[0].k = (i64{1} << 30) + 64; },
            "K is 1073741888: it takes at most 1073741824 columns"},
           {[](auto& p) { p.space.m = 0; }, "M is 0: it takes 1 to 2147482624 rows"},
           {[](auto& p) { p.space.m = i64{1} << 31; },
            "M is 2147483648: it takes 1 to 2147482624 rows"},
           {[](auto& p) { p.a[0].memory.k_major = false; },
            "the summed label of the activations is not their innermost one"},
           {[](auto& p) { p.a[0].memory.stride_k = 2; },
            "the summed label of the activations is not their innermost one"},
           {[](auto& p) { p.b[0].dequant->packed = false; }, "'q' is not in the packed layout"},
           {[](auto& p) { p.b[0].dequant->rows_by_k = false; }, "the last two labels of 'q'"},
           {[](auto& p) { p.b[0].dtype = DType::kE4M3; }, "'q' is e4m3: it reads i8, i4 and u4"},
           {[](auto& p) { p.b[0].dequant->block.rows = 2; }, "2 rows of 'q' share a scale"},
           {[](auto& p) { p.b[0].dequant->block.columns = 48; },
            "48 columns of 'q' share a scale: make that a multiple of 32"},
           {[](auto& p) { p.b[0].dequant->zero->dtype = DType::kU4; },
            "the zeros of 'q' are u4: pass them as i8"}}) {
    ContractionProblem problem = problem_of();
    change(problem);
    const std::string said = refusal(problem);
    const std::string wanted = sentence;
    CHECK_MESSAGE(said.find(wanted) == 0, fmt::format("'{}' instead of '{}'", said, wanted));
  }
}

TEST_CASE("activations that TMA does not load, and unaligned weights, are refused") {
  CHECK(refusal(problem_of("x: bf16[64, 512]", "x: bf16[64, 512] align 2"))
            .find("TMA does not load activations with ") == 0);
  CHECK(refusal(problem_of("x: bf16[64, 512]", "x: bf16[64, 512] strides[515, 1]"))
            .find("TMA does not load activations with ") == 0);
  CHECK(refusal(problem_of("] packed", "] packed align 8"))
            .find("'q' is aligned to 8 bytes: align it to 16") == 0);
}

TEST_CASE("sums of rows have a launch of their own") {
  const Plan plan = planned(
      "chain a(input x: bf16[64, 512], weight q: i4[64, 512] packed, weight s: bf16[64, 4]) {\n"
      "  y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128))\n"
      "  r = sum \"mn->n\"(y)\n  return y: f32, r: f32 }");
  CHECK(plan.buckets[0].kernels.size() > 1);
  CHECK(family_name(first_kernel(plan)) == "gemm_dequant");
}

TEST_CASE("weights over one X run side by side") {
  PlanOptions options;
  options.force_tile = "packed1t3x24s2b2";
  const Plan plan = planned(
      "chain a(input x: bf16[20, 416], weight q: i4[39, 416] packed, weight s: bf16[39, 4],\n"
      "        weight p: i4[70, 416] packed, weight t: bf16[70, 4]) {\n"
      "  y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128))\n"
      "  z = relu(contract \"mk,nk->mn\"(x, dequant(p, t) block (1, 128)))\n"
      "  return y: f32 align 4, z: f32 }",
      options);
  REQUIRE(plan.buckets[0].kernels.size() == 1);
  CHECK(family_name(first_kernel(plan)) == "gemm_dequant");
}
