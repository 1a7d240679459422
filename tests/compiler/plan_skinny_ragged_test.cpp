// SPDX-License-Identifier: Apache-2.0
// Ragged rows by `skinny`: which plans take the family, their grids, what of W is counted, and what
// NVRTC makes of the kernels. The last part needs NVRTC.
#include <doctest/doctest.h>

#include "compiler/compile/nvrtc.h"
#include "compiler/emit/emit.h"
#include "compiler/families/skinny/candidates.h"
#include "compiler/kernel_family.h"
#include "ir/text/text.h"
#include "tests/support/prefer_family.h"

using namespace catenary;

namespace {

struct Experts {
  std::string rows;
  int groups = 8;
  i64 n = 14336;
  i64 k = 4096;
  bool gated = false;
  const char* dtype = "bf16";
  bool bias = false;
};

std::string text_of(const Experts& e) {
  const std::string symbol = e.rows[0] == 'M' ? "[M in 0..4096]" : "";
  const std::string w = fmt::format("{}[{}, {}, {}]", e.dtype, e.groups, e.n, e.k);
  const auto product = [](const char* name) {
    return fmt::format("contract \"mk,enk->mn\"(x, {}) ragged m by e over e", name);
  };
  std::string body = fmt::format("  y = {}\n", product("w"));
  if (e.gated) {
    body = fmt::format("  g = {}\n  u = {}\n  y = mul(silu(g), u)\n", product("w"), product("v"));
  }
  if (e.bias) body += "  z = relu(add(y, b))\n";
  return fmt::format(
      "chain a{}(input x: {}[{}, {}], weight w: {}{}{}, input e: i32[{}]) {{\n{}"
      "  return {}: {} }}",
      symbol, e.dtype, e.rows, e.k, w, e.gated ? ", weight v: " + w : "",
      e.bias ? fmt::format(", weight b: {}[{}]", e.dtype, e.n) : "", e.groups, body,
      e.bias ? "z" : "y", e.dtype);
}

VerifiedChain verified(const std::string& text) {
  auto chain = verify(llvm::cantFail(parse(text)));
  if (!chain) FAIL(take_report(chain.takeError()).message << "\n" << text);
  return std::move(*chain);
}

// By skinny, where it has a candidate.
Plan planned(const Experts& e, const char* target = "h200", PlanOptions options = {}) {
  const VerifiedChain chain = verified(text_of(e));
  const Target gpu = llvm::cantFail(find_target(target));
  auto plan = make_plan(chain, gpu, testing::prefer_family(chain, gpu, "skinny", options));
  if (!plan) FAIL(take_report(plan.takeError()).message);
  return std::move(*plan);
}

const KernelPlan& kernel(const Plan& plan, size_t bucket = 0) {
  return plan.buckets[bucket].kernels[0];
}

// The config of a plan that chose `skinny`.
const SkinnyConfig& config(const Plan& plan, size_t bucket = 0) {
  REQUIRE(family_name(kernel(plan, bucket)) == "skinny");
  return kernel(plan, bucket).config.get<SkinnyConfig>();
}

// What is decoded: Mixtral 8x7B, DeepSeek-V2-Lite, Qwen3-235B.
constexpr i64 kSizes[][3] = {{8, 14336, 4096}, {64, 1408, 2048}, {128, 1536, 4096}};

}  // namespace

TEST_CASE("small groups have skinny candidates, large ones and other targets have none") {
  const auto has_skinny = [](const Plan& plan) {
    return llvm::any_of(kernel(plan).candidates,
                        [](const CandidateSummary& c) { return c.id.family == "skinny"; });
  };
  for (const auto& [groups, n, k] : kSizes) {
    for (const bool gated : {false, true}) {
      CAPTURE(groups);
      for (const i64 rows : {i64{1}, i64{8}, i64{32}, i64{64}, 4 * groups}) {
        CAPTURE(rows);
        const Experts e{std::to_string(rows), static_cast<int>(groups), n, k, gated};
        CHECK(has_skinny(planned(e)));
        CHECK(family_name(kernel(planned(e, "a100"))) == "gemm_sm80");
        CHECK(family_name(kernel(planned(e, "b200"))) == "gemm_sm80");
      }
      const i64 most = kSkinnyRows * groups;
      const Experts many{std::to_string(most + 1), static_cast<int>(groups), n, k, gated};
      CHECK_FALSE(has_skinny(planned(many)));
    }
  }
}

TEST_CASE("the kernel has the groups, no split-K, and shared memory for the accumulators after W") {
  const Plan plan = planned({"40"});
  const SkinnyConfig& c = config(plan);
  CHECK(c.ragged.kind == Ragged::kMGrouped);
  CHECK(c.ragged.num_groups == 8);
  CHECK(kernel(plan).slots[c.ragged.group_ends_slot].name == "e");
  CHECK(c.w.stride_group == 14336 * 4096);
  CHECK(c.x.stride_group == 0);
  CHECK_FALSE(c.loads.w_is_weight);
  CHECK(c.schedule.split_k == 1);
  CHECK(c.slice_bytes() == 16 * c.row_bytes() + c.tile.columns * c.sum_row() * 4);
  CHECK(kernel(plan).smem_bytes == c.smem_bytes());
  PlanOptions split;
  split.split_k = 2;
  CHECK(family_name(kernel(planned({"40"}, "h200", split))) != "skinny");
}

TEST_CASE("half of the groups have more rows than the mean: chunks of 16 from 5 on") {
  for (const auto& [rows, columns] : {std::pair{"1", 8}, {"8", 8}, {"32", 8}, {"33", 16}}) {
    CAPTURE(rows);
    CHECK(config(planned({rows})).tile.columns == columns);
  }
}

TEST_CASE("a launch has CTAs for as many groups as may have rows") {
  const Plan plan = planned({"M", 64, 1408, 2048});
  size_t skinny = 0;
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const PlanBucket& bucket = plan.buckets[b];
    // Every bucket up to a mean of 16 rows.
    CHECK((family_name(kernel(plan, b)) == "skinny") == (bucket.hi <= kSkinnyRaggedRows * 64));
    if (family_name(kernel(plan, b)) != "skinny") continue;
    ++skinny;
    const i64 tiles = ceil_div(1408, config(plan, b).rows());
    for (i64 m = bucket.lo; m <= bucket.hi; ++m) {
      // Rows after the last end count as one more group.
      REQUIRE(kernel(plan, b).grid.ctas(m) == tiles * std::min<i64>(m, 65));
    }
  }
  CHECK(skinny >= 2);
}

TEST_CASE("W of groups without rows costs nothing") {
  const auto bytes = [](const char* rows) { return kernel(planned({rows})).predicted.bytes; };
  constexpr i64 kExpert = i64{14336} * 4096 * 2;
  CHECK(bytes("1") / kExpert == 1);
  CHECK(bytes("3") / kExpert == 3);
  CHECK(bytes("8") / kExpert == 8);
  CHECK(bytes("64") / kExpert == 8);
}

TEST_CASE("the kernels compile without spills") {
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) {
    MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
    return;
  }
  std::vector<CompileJob> jobs;
  for (const auto& [groups, n, k] : kSizes) {
    for (const i64 mean : {0, 4, 16}) {
      for (const bool gated : {false, true}) {
        const bool f32 = gated && mean == 4;
        const Experts e{std::to_string(std::max<i64>(mean * groups, 1)),
                        static_cast<int>(groups),
                        n,
                        f32 ? k / 2 : k,
                        gated,
                        f32 ? "f32" : "bf16",
                        mean > 0};
        const Plan open = llvm::cantFail(
            make_plan(verified(text_of(e)), llvm::cantFail(find_target("h200")), {}));
        int left = 3;
        for (const CandidateSummary& tile : kernel(open).candidates) {
          if (tile.id.tile.find("skinny") != 0 || left == 0) continue;
          --left;
          PlanOptions options;
          options.force_tile = tile.id.tile;
          const Plan plan = planned(e, "h200", options);
          jobs.push_back({emit(verified(text_of(e)), plan, kernel(plan)), plan.target.arch, {}});
          jobs.back().source.banner = fmt::format("{} of {} groups, mean {}, {}{}", tile.id.tile,
                                                  groups, mean, gated ? "gated " : "", e.dtype);
        }
      }
    }
  }
  CHECK(jobs.size() > 36);
  auto results = (*nvrtc)->compile_all(jobs);
  std::string registers;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]) {
      registers +=
          fmt::format("{}: {}\n", jobs[i].source.banner, results[i]->cubin.resources.registers);
      continue;
    }
    FAIL_CHECK(jobs[i].source.banner << ": "
                                     << take_report(results[i].takeError()).message.substr(0, 400));
  }
  MESSAGE(registers);
}
