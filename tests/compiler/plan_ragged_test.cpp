// SPDX-License-Identifier: Apache-2.0
// Ragged contractions on Hopper: when the planner takes `gemm_sm90`, with which maps and grid, what
// partial row tiles cost, what NVRTC makes of the tiles. The last part needs NVRTC.
#include <doctest/doctest.h>

#include "compiler/compile/nvrtc.h"
#include "compiler/emit/emit.h"
#include "compiler/families/gemm_sm90/candidates.h"
#include "compiler/kernel_family.h"
#include "tests/support/gemm_sm90_plan.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

std::string ragged(const std::string& x, const std::string& w, int groups,
                   const std::string& equation) {
  return fmt::format(
      "chain a(input x: {}, weight w: {}, input e: i32[{}]) {{\n"
      "  y = contract \"{}\"(x, w) ragged m by e over e\n  return y: bf16 }}",
      x, w, groups, equation);
}

const std::string kRows = ragged("bf16[8192, 2048]", "bf16[8, 4096, 2048]", 8, "mk,enk->mn");
const std::string kBackward = ragged("bf16[8192, 4096]", "bf16[8, 4096, 2048]", 8, "mn,enk->mk");
const std::string kTerms = ragged("bf16[8192, 4096]", "bf16[8192, 2048]", 8, "mn,mk->enk");
const std::string kPair =
    "chain a(input x: bf16[8192, 2048], weight w: bf16[8, 4096, 2048],\n"
    "        weight v: bf16[8, 4096, 2048], input e: i32[8]) {\n"
    "  g = contract \"mk,enk->mn\"(x, w) ragged m by e over e\n"
    "  u = contract \"mk,enk->mn\"(x, v) ragged m by e over e\n"
    "  y = mul(silu(g), u)\n  return y: bf16 }";

using Dimension = MapBinding::Dimension;

}  // namespace

TEST_CASE("ragged rows: B's map has the groups, A's has none") {
  PlanOptions options;
  options.force_tile = "128x128x64p2s6c2";
  const Plan plan = planned(kRows, options);
  const KernelPlan& kernel = first_kernel(plan);
  REQUIRE(family_name(kernel) == "gemm_sm90");
  const GemmSm90Config& c = config(plan);
  CHECK(c.ragged.kind == Ragged::kMGrouped);
  CHECK(c.ragged.num_groups == 8);
  CHECK(kernel.slots[c.ragged.group_ends_slot].name == "e");
  CHECK(c.a.rank() == 2);
  CHECK(c.b.coord2 == kCoordGroup);
  REQUIRE(kernel.maps[1].dims.size() == 3);
  CHECK(kernel.maps[1].dims[2] == Dimension{Extent(8), 2 * 4096 * 2048, 1});
  CHECK(kernel.grid.extra == 9);
  CHECK(kernel.grid.limit == 132);
}

TEST_CASE("ragged terms: no map has the groups, both operands lie along their free dimension") {
  const Plan plan = planned(kTerms);
  REQUIRE(family_name(first_kernel(plan)) == "gemm_sm90");
  const GemmSm90Config& c = config(plan);
  CHECK(c.ragged.kind == Ragged::kKGrouped);
  CHECK_FALSE(c.a.k_major);
  CHECK_FALSE(c.b.k_major);
  CHECK(c.a.rank() == 2);
  CHECK(c.b.rank() == 2);
  CHECK(c.space.batch_rank == 1);
}

TEST_CASE("gemm_sm90 is taken where copies may start at a group's first row or term") {
  for (const std::string& chain : {kRows, kBackward, kTerms, kPair}) {
    CHECK(family_name(first_kernel(planned(chain))) == "gemm_sm90");
    CHECK(family_name(first_kernel(planned(chain, {}, "a100"))) == "gemm_sm80");
  }
  const std::string kOthers[] = {
      // Terms along it, of one operand.
      ragged("bf16[4096, 8192]", "bf16[8192, 2048]", 8, "nm,mk->enk"),
      ragged("bf16[8192, 4096]", "bf16[2048, 8192]", 8, "mn,km->enk"),
  };
  for (const std::string& chain : kOthers) {
    CHECK(family_name(first_kernel(planned(chain))) == "gemm_sm80");
  }
  // Rows along the innermost dimension, groups on 8 bytes: copies by threads.
  const Plan along_m = planned(ragged("bf16[2048, 8192]", "bf16[8, 4096, 2048]", 8, "km,enk->mn"));
  CHECK(config(along_m).a.by_cp_async);
  CHECK_FALSE(config(along_m).b.by_cp_async);
  const Plan groups = planned(
      ragged("bf16[8192, 2048]", "bf16[8, 4096, 2048] strides[8388612, 2048, 1]", 8, "mk,enk->mn"));
  CHECK_FALSE(config(groups).a.by_cp_async);
  CHECK(config(groups).b.by_cp_async);
}

TEST_CASE("K tails limit the stages of cp.async fallback loads, not those of TMA loads") {
  const auto planned_with = [](const char* x, const char* tile) {
    PlanOptions options;
    options.force_tile = tile;
    return make_plan(verified(ragged(x, "bf16[8192, 2048]", 8, "mn,mk->enk")),
                     llvm::cantFail(find_target("h200")), options);
  };
  // Rows of 4095 elements: A has no tensor map.
  CHECK(bool(planned_with("bf16[8192, 4095]", "64x64x64g1s8")));
  CHECK(bool(planned_with("bf16[8192, 4096]", "64x64x64g1s9")));
  auto refused = planned_with("bf16[8192, 4095]", "64x64x64g1s9");
  REQUIRE_FALSE(refused);
  const ErrorReport report = take_report(refused.takeError());
  CHECK(report.code == ErrorCode::kInvalidArgument);
  CHECK_MESSAGE(report.message.find("it has 9 stages") != std::string::npos, report.message);
  CHECK_MESSAGE(report.message.find("the limit is 8") != std::string::npos, report.message);
}

TEST_CASE("partial row tiles cost waves") {
  PlanOptions options;
  options.force_tile = "128x128x64p2s6c2";  // 256 rows a cluster
  const auto waves = [&](i64 rows, int groups) {
    const std::string x = fmt::format("bf16[{}, 2048]", rows);
    const std::string w = fmt::format("bf16[{}, 1024, 2048]", groups);
    return first_kernel(planned(ragged(x, w, groups, "mk,enk->mn"), options)).predicted.waves *
           132 / 8 / 2;
  };
  // Between equal sizes and those of an exponential draw, where a partial tile, half of it empty,
  // is likely for each group.
  CHECK(waves(65536, 1) == doctest::Approx(256.25).epsilon(1e-3));
  CHECK(waves(65536, 64) == doctest::Approx(272.7).epsilon(1e-3));
  // No group with rows takes less than one, and no more groups than rows have any.
  CHECK(waves(4096, 64) == doctest::Approx(64.6).epsilon(1e-3));
  CHECK(waves(3, 64) == doctest::Approx(3).epsilon(1e-3));
}

TEST_CASE("the tiles compile without spills") {
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) {
    MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
    return;
  }
  std::vector<CompileJob> jobs;
  for (const std::string& text : {kRows, kBackward, kTerms, kPair}) {
    const VerifiedChain chain = verified(text);
    const Plan open = planned(text);
    int row = static_cast<int>(jobs.size());
    for (const CandidateSummary& tile : first_kernel(open).candidates) {
      if (!tile.rejected.empty() || tile.id.tile.find('w') != std::string::npos) continue;
      if (row++ % 3 != 0) continue;
      PlanOptions options;
      options.force_tile = tile.id.tile;
      const Plan plan = planned(text, options);
      REQUIRE(family_name(first_kernel(plan)) == "gemm_sm90");
      jobs.push_back({emit(chain, plan, first_kernel(plan)), plan.target.arch, {}});
      jobs.back().source.banner = tile.id.tile + " of " + text;
    }
  }
  CHECK(jobs.size() > 16);
  auto results = (*nvrtc)->compile_all(jobs);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]) continue;
    FAIL_CHECK(jobs[i].source.banner << ": "
                                     << take_report(results[i].takeError()).message.substr(0, 400));
  }
}
