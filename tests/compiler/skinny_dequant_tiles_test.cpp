// SPDX-License-Identifier: Apache-2.0
// Shapes of `skinny_dequant`: candidates hold N and K and fit their target, every one is found
// again by its name, names that do not hold are no candidates, and short N and K have one too.
#include "compiler/families/skinny_dequant/candidates.h"

#include <doctest/doctest.h>

using namespace catenary;

namespace {

struct Layer {
  DType q = DType::kI4;
  i64 m = 1, n = 4096, k = 4096, columns = 128;
  bool zero = false;
  bool dual = false;
  i64 batch = 1;
  i64 groups = 0;  // experts; m: the mean of a group
};

SkinnyDequantProblem problem(const Layer& l) {
  SkinnyDequantProblem made;
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
  if (l.groups > 0) {
    made.base.space.m = l.m * l.groups;
    made.base.ragged = {Ragged::kMGrouped, 0, l.groups};
    made.base.loads.w_is_weight = false;
  }
  made.batch = l.batch * std::max<i64>(l.groups, 1);
  made.m = l.m;
  made.weight_bytes =
      made.batch * (l.dual ? 2 : 1) * packed_elements(l.n, l.k) * dtype_info(l.q).bits / 8;
  made.other_bytes = l.m * (l.n + l.k) * 2;
  return made;
}

std::vector<Candidate> candidates(const Layer& l, const char* at = "h200", std::string name = "") {
  return skinny_dequant_candidates(problem(l), llvm::cantFail(find_target(at)),
                                   {std::move(name), 1});
}

const SkinnyDequantConfig& config_of(const Candidate& candidate) {
  return candidate.config.get<SkinnyDequantConfig>();
}

// Sizes that are no multiples of anything as well.
std::vector<Layer> layers() {
  std::vector<Layer> all;
  for (const DType q : {DType::kI4, DType::kU4, DType::kI8}) {
    for (const i64 m : {1, 8, 9, 16, 24, 32}) {
      for (const auto& [n, k] : std::vector<std::pair<i64, i64>>{
               {4096, 4096}, {2880, 5120}, {18944, 3584}, {1000, 1056}, {17, 32}, {37888, 14336}}) {
        all.push_back({q, m, n, k, 128});
        all.push_back({q, m, n, k, 32, true});
        all.push_back({q, m, n, k, k});
        all.push_back({q, m, n, k, 128, false, true});
      }
    }
  }
  for (const i64 m : {1, 5, 16, 32}) {
    for (const bool dual : {false, true}) {
      for (const auto& [n, k] :
           std::vector<std::pair<i64, i64>>{{768, 2048}, {17, 96}, {4096, 4096}}) {
        all.push_back({DType::kI4, m, n, k, 128, true, dual, 8});
        all.push_back({DType::kI8, m, n, k, k, false, dual, 1, 64});
      }
    }
  }
  return all;
}

std::string text_of(const Layer& l) {
  return fmt::format("{} {}x{}x{} columns {} zero {} dual {} batch {} groups {}", dtype_text(l.q),
                     l.m, l.n, l.k, l.columns, l.zero, l.dual, l.batch, l.groups);
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
        const SkinnyDequantConfig& c = config_of(candidate);
        CHECK(i64{c.tile.row_tiles} * c.schedule.n_slices >= c.n_tiles());
        CHECK(c.schedule.n_slices <= c.n_tiles());
        CHECK(c.k_chunks() / c.k_slices() >= c.tile.warps);
        CHECK(c.vectors() <= c.threads());
        CHECK(c.runs() <= 32);
        CHECK((c.k_slices() == 1 || l.groups == 0));
        CHECK(c.smem_bytes() <= target.smem_per_cta);
        CHECK(candidate.min_ctas * i64{c.smem_bytes()} <= target.smem_per_sm);
        CHECK(candidate.predicted.us > 0);
      }
    }
  }
}

TEST_CASE("a stage holds the warp's whole slice, or there are two") {
  for (const Layer& l : layers()) {
    CAPTURE(text_of(l));
    for (const Candidate& candidate : candidates(l)) {
      CAPTURE(candidate.id.tile);
      const SkinnyDequantConfig& c = config_of(candidate);
      const auto whole = [&](i32 stages, i32 chunks) {
        return stages >= 2 || i64{stages} * chunks >= c.warp_chunks();
      };
      CHECK(whole(c.loads.stages, c.loads.stage_chunks));
      CHECK(whole(c.loads.x_stages, c.loads.x_chunks));
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
  const Layer l{DType::kI4, 8, 4096, 4096};
  CHECK(candidates(l, "h200", "dequant8t2s2b2x1b4").size() == 1);
  for (const char* name : {
           "dequant8t2s2b2",          // no ring of X
           "dequant8t2s2b2x1b4n0",    // no slices
           "dequant8t2s2b2x1b4n128",  // what t2 means is not written
           "dequant8t300s2b2x1b4",    // more row tiles than lanes
           "dequant8t2s2b2x1b4c3",    // clusters are powers of two
           "dequant8t2s2b2x1b4c16",   // and at most eight CTAs
           "dequant16t2s2b2x1b4c8",   // more warps than chunks of K
           "dequant8t2s9b9x9b9",      // more than shared memory
           "dequant8t2s2b2x1b4trailing",
       }) {
    CAPTURE(name);
    CHECK(candidates(l, "h200", name).empty());
  }
}

TEST_CASE("slices of N differ by one row tile at most, and use no more CTAs than rows") {
  for (const Layer& l : layers()) {
    for (const Candidate& candidate : candidates(l)) {
      const SkinnyDequantConfig& c = config_of(candidate);
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
    Layer joint{DType::kI4, 4, 4096 + 1024 + 1000 + 17, 4096};
    joint.dual = dual;
    for (const Candidate& candidate : candidates(joint)) {
      const SkinnyDequantConfig& shared = config_of(candidate);
      i64 slices = 0;
      for (const i64 n : parts) {
        Layer part = joint;
        part.n = n;
        CAPTURE(candidate.id.tile);
        const auto own = skinny_dequant_candidate_like(problem(part), target, shared);
        REQUIRE(own);
        const SkinnyDequantConfig& c = config_of(*own);
        CHECK(c.threads() == shared.threads());
        CHECK(c.schedule.cluster_k == shared.schedule.cluster_k);
        CHECK(c.tile.row_tiles <= shared.tile.row_tiles);
        CHECK(i64{c.tile.row_tiles} * c.schedule.n_slices >= c.n_tiles());
        CHECK(c.tile.row_tiles == ceil_div(c.n_tiles(), c.schedule.n_slices));
        slices += c.schedule.n_slices;
      }
      // A part's last slice may be a part of one.
      CHECK(slices <= shared.schedule.n_slices + static_cast<i64>(parts.size()));
    }
  }
}
