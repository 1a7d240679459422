// SPDX-License-Identifier: Apache-2.0
// Shares of W in `skinny`: CTAs cover N and K once, and where the cost model takes the family for a
// matrix of 1024 x 1024 or more, no SM reads over 6% more than the mean.
#include <doctest/doctest.h>

#include <map>
#include <random>

#include "compiler/families/skinny/candidates.h"
#include "compiler/kernel_family.h"
#include "compiler/plan.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

struct Layer {
  i64 m, n, k;
};

// By the cost model, without measured choices.
Plan planned(const Layer& layer, const Target& target) {
  const std::string text = fmt::format(
      "chain a(input x: bf16[{0}, {2}], weight w: bf16[{1}, {2}]) {{\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 align 2 }}",
      layer.m, layer.n, layer.k);
  PlanOptions options;
  options.measured = {};
  return llvm::cantFail(
      make_plan(llvm::cantFail(verify(llvm::cantFail(parse(text)))), target, options));
}

// Indices of n that CTA `tile` along N has, as the kernel counts them.
i64 rows_of(const SkinnyConfig& c, i64 tile) {
  const i64 n = c.space.n.size;
  if (c.schedule.n_slices == 0) return std::min<i64>(c.rows(), n - tile * c.rows());
  const auto begin = [&](i64 slice) {
    return std::min(c.n_vectors() * slice / c.schedule.n_slices * c.vec, n);
  };
  return begin(tile + 1) - begin(tile);
}

// The most chunks of W that an SM reads over the mean, with CTA i on SM i modulo their number.
double counted_share(const SkinnyConfig& c, int sm_count) {
  std::vector<i64> chunks(static_cast<size_t>(sm_count));
  i64 total = 0;
  for (i64 cta = 0; cta < c.n_tiles() * c.k_slices(); ++cta) {
    const i64 slice = cta % c.k_slices();
    const i64 rows = rows_of(c, cta / c.k_slices());
    CHECK(rows > 0);
    CHECK(rows <= c.rows());
    const i64 own = rows * (c.k_slice_begin(slice + 1) - c.k_slice_begin(slice));
    chunks[static_cast<size_t>(cta % sm_count)] += own;
    total += own;
  }
  CHECK(total == c.space.n.size * c.k_chunks());
  const double mean = static_cast<double>(total) / sm_count;
  return static_cast<double>(*std::max_element(chunks.begin(), chunks.end())) / mean;
}

std::vector<Layer> layers_of_models() {
  std::vector<Layer> layers;
  for (const i64 m : {1, 3, 8, 13, 16}) {
#define CATENARY_LAYER(model, k, n, bias) layers.push_back({m, n, k});
#include "bench/sweep/layers.def"
#undef CATENARY_LAYER
  }
  llvm::erase_if(layers, [](const Layer& layer) { return layer.n < 1024; });
  return layers;
}

std::vector<Layer> random_layers(u32 seed, int count) {
  std::mt19937 random(seed);
  const auto draw = [&](i64 lo, i64 hi) {
    return lo + static_cast<i64>(random() % static_cast<u32>(hi - lo + 1));
  };
  std::vector<Layer> layers;
  for (int i = 0; i < count; ++i) {
    const i64 n = i % 2 == 0 ? draw(1024, 3000) : draw(1024, 40000);
    const i64 k = 8 * (i % 3 == 0   ? draw(128, 400)
                       : i % 3 == 1 ? draw(128, 2000)
                                    : 8 * draw(16, 400));
    layers.push_back({draw(1, 16), n, k});
  }
  return layers;
}

}  // namespace

// Unlike shares take no longer while all CTAs run at once (RESULTS model-10), and clusters that
// would even them out leave SMs empty (RESULTS model-17): one layer in twenty has them, one in
// fifty with more CTAs than run at once.
TEST_CASE("shares of W are even for nearly all layers whose family the cost model takes") {
  const Target target = llvm::cantFail(find_target("h200"));
  std::vector<Layer> layers = layers_of_models();
  for (const Layer& layer : random_layers(20261125, 1500)) layers.push_back(layer);
  std::map<std::string, int> seen;
  double worst = 0;
  int uneven = 0, uneven_rounds = 0;
  for (const Layer& layer : layers) {
    const Plan plan = planned(layer, target);
    const auto* c = plan.buckets[0].kernels[0].config.get_if<SkinnyConfig>();
    if (c == nullptr) continue;
    const std::string text = fmt::format("{}x{}x{}: {}", layer.m, layer.n, layer.k, tile_name(*c));
    CAPTURE(text);
    const double share = busiest_share(*c, 1, target.sm_count);
    const KernelPlan& kernel = plan.buckets[0].kernels[0];
    const i64 at_once = target.ctas_at_once(c->schedule.cluster_k, kernel.min_ctas);
    if (share > kEvenShare) ++uneven;
    if (share > kEvenShare && c->n_tiles() * c->k_slices() > at_once) ++uneven_rounds;
    CHECK(counted_share(*c, target.sm_count) <= share * (1 + 1e-9));
    worst = std::max(worst, share);
    ++seen["all"];
    seen["slices of N"] += c->schedule.n_slices > 0;
    seen["tiles"] += c->schedule.n_slices == 0;
    seen["clusters of 2"] += c->schedule.cluster_k == 2;
    seen["larger clusters"] += c->schedule.cluster_k > 2;
    seen["K in chunks"] += c->k_step() == 1;
    seen["a last block that is not whole"] += c->k_chunks() % 8 != 0;
  }
  for (const auto& [what, count] : seen) CHECK_MESSAGE(count >= 20, what);
  CHECK(uneven * 20 < seen["all"]);
  CHECK(uneven_rounds * 50 < seen["all"]);
  MESSAGE(fmt::format("{} of {} layers, {} uneven, worst share {:.3f}", seen["all"], layers.size(),
                      uneven, worst));
}

TEST_CASE("the share of the busiest SM by hand") {
  SkinnyConfig c;
  c.space.n = 1056;
  c.space.k = 1024;
  // 66 tiles of 16 rows on 132 SMs: the half of them has all.
  CHECK(busiest_share(c, 1, 132) == doctest::Approx(2.0));
  c.schedule.cluster_k = 2;
  CHECK(busiest_share(c, 1, 132) == doctest::Approx(1.0));
  CHECK(counted_share(c, 132) == doctest::Approx(1.0));
  // 100 slices of 10 or 12 rows, four of each 66 rounded down.
  c.schedule = {.n_slices = 100};
  CHECK(c.rows() == 12);
  CHECK(busiest_share(c, 1, 132) == doctest::Approx(12 * 132 / 1056.0));
  CHECK(counted_share(c, 132) == doctest::Approx(12 * 132 / 1056.0));
  // 8.125 blocks in pairs: 64 and 66 chunks by lines of 128 bytes, 65 each by chunks.
  c.space.k = 8 * 65 * 2;
  c.schedule = {.cluster_k = 2};
  CHECK(c.k_step() == 1);
  CHECK(c.k_slice_begin(1) == 65);
  CHECK(busiest_share(c, 1, 132) == doctest::Approx(1.0));
  c.schedule = {.split_k = 2};
  CHECK(c.k_step() == 8);
  CHECK(c.most_slice_chunks() == 66);
}

TEST_CASE("parts side by side have no more slices together than the joint weight") {
  const Target target = llvm::cantFail(find_target("h200"));
  for (const auto& sizes :
       {std::vector<i64>{4096, 1024, 1024}, {3584, 512, 512}, {1025, 1031, 8}}) {
    SkinnyProblem joint;
    joint.base.space.m = joint.m = 4;
    joint.base.space.k = 4096;
    i64 columns = 0;
    for (const i64 n : sizes) columns += n;
    joint.base.space.n = columns;
    joint.weight_bytes = columns * 8192;
    joint.parts = static_cast<int>(sizes.size());
    int sliced = 0;
    for (const Candidate& candidate : skinny_candidates(joint, target, {})) {
      const auto& c = candidate.config.get<SkinnyConfig>();
      if (c.schedule.n_slices == 0) continue;
      ++sliced;
      i64 slices = 0;
      for (const i64 n : sizes) {
        SkinnyProblem part = joint;
        part.base.space.n = n;
        const auto own = skinny_candidate_like(part, target, c);
        REQUIRE(own.has_value());
        const auto& config = own->config.get<SkinnyConfig>();
        CHECK(config.rows() <= c.rows());
        CHECK(config.schedule.cluster_k == c.schedule.cluster_k);
        slices += config.n_tiles();
      }
      CAPTURE(candidate.id.tile);
      CHECK(slices <= c.schedule.n_slices + joint.parts - 1);
    }
    CHECK(sliced > 0);
  }
}

TEST_CASE("clusters that run at once fit the GPCs: 6 of 18 SMs, one of 16 and one of 8") {
  const Target target = llvm::cantFail(find_target("h100"));
  CHECK(target.ctas_at_once(1, 2) == 264);
  CHECK(target.ctas_at_once(2, 1) == 132);
  CHECK(target.ctas_at_once(3, 2) == 3 * (6 * 12 + 10 + 5));
  CHECK(target.ctas_at_once(4, 1) == 4 * (6 * 4 + 4 + 2));
  CHECK(target.ctas_at_once(5, 2) == 5 * (6 * 7 + 6 + 3));
  CHECK(target.ctas_at_once(8, 1) == 8 * (6 * 2 + 2 + 1));
  Target slice = target;  // at least one cluster, also where the SMs are fewer
  for (const int sms : {1, 2, 16}) {
    slice.sm_count = sms;
    CHECK(slice.ctas_at_once(8, 1) == (sms == 16 ? 16 : 8));
  }
}
