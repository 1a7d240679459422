// SPDX-License-Identifier: Apache-2.0
// Sizes of plans: no kernel is planned beyond its target, however long K is, and check_limits
// refuses each kind of excess.
#include "compiler/limits.h"

#include <doctest/doctest.h>

#include <limits>

#include "compiler/emit/emit.h"
#include "ir/text/text.h"
#include "shared/skinny_config.h"

using namespace catenary;

namespace {

KernelPlan small_kernel() {
  KernelPlan kernel;
  kernel.symbol = "k";
  kernel.threads = 256;
  kernel.smem_bytes = 1024;
  return kernel;
}

Target h200() { return llvm::cantFail(find_target("h200")); }

ErrorCode code_of(const KernelPlan& kernel) {
  Error error = check_limits(kernel, h200(), 0);
  const bool failed = static_cast<bool>(error);
  REQUIRE(failed);
  return take_report(std::move(error)).code;
}

std::string dot(const char* dtype, i64 k) {
  return fmt::format(
      "chain dot(input x: {0}[1, {1}], weight w: {0}[1, {1}]) {{\n"
      "  h = contract \"mk,nk->mn\"(x, w)\n  return h: f32 }}",
      dtype, k);
}

}  // namespace

TEST_CASE("a long K plans kernels within the target's limits") {
  // In 32 bits the shared memory of a slice of these sizes wraps around to a few KiB, or to zero.
  for (const i64 k : {i64{67'108'928}, i64{1} << 28, (i64{1} << 28) + 64, i64{1} << 31,
                      i64{4'294'967'360}, i64{1} << 34, i64{1} << 40}) {
    for (const char* dtype : {"bf16", "f32"}) {
      const auto chain = llvm::cantFail(verify(llvm::cantFail(parse(dot(dtype, k)))));
      for (const Target& target : all_targets()) {
        CAPTURE(k);
        CAPTURE(dtype);
        CAPTURE(target.name);
        auto plan = make_plan(chain, target);
        if (!plan) FAIL(take_report(plan.takeError()).message);
        for (const KernelPlan& kernel : plan->buckets[0].kernels) {
          CHECK(kernel.smem_bytes >= 0);
          CHECK(kernel.smem_bytes <= target.smem_per_cta);
          const auto* skinny = kernel.config.get_if<SkinnyConfig>();
          if (skinny == nullptr) continue;
          // The same sum in 64 bits.
          const i64 row =
              skinny->loads.shared_blocks > 0 ? i64{skinny->loads.shared_blocks} * 128 + 16 : 0;
          const i64 slices =
              i64{skinny->tile.warps_k} * skinny->tile.warps_n * skinny->warp_rows() * row;
          CHECK(slices <= kernel.smem_bytes);
        }
      }
    }
  }
}

TEST_CASE("K = 33,554,464 in f32 takes a kernel that fits") {
  const auto chain = llvm::cantFail(verify(llvm::cantFail(parse(dot("f32", 33'554'464)))));
  auto plan = make_plan(chain, h200());
  if (!plan) FAIL(take_report(plan.takeError()).message);
  CHECK_FALSE(plan->buckets[0].kernels[0].config.is<SkinnyConfig>());
}

TEST_CASE("check_limits refuses what the target does not have") {
  KernelPlan kernel = small_kernel();
  Error none = check_limits(kernel, h200(), 0);
  const bool refused = static_cast<bool>(none);
  CHECK_FALSE(refused);
  kernel.smem_bytes = h200().smem_per_cta + 1;
  CHECK(code_of(kernel) == ErrorCode::kInternal);
  kernel = small_kernel();
  kernel.smem_bytes = -1;
  CHECK(code_of(kernel) == ErrorCode::kInternal);
  kernel = small_kernel();
  kernel.threads = 1056;
  CHECK(code_of(kernel) == ErrorCode::kInternal);
  kernel = small_kernel();
  kernel.min_ctas = 40;
  CHECK(code_of(kernel) == ErrorCode::kInternal);
  kernel = small_kernel();
  kernel.grid.size = i64{1} << 31;
  CHECK(code_of(kernel) == ErrorCode::kResourceLimit);
}

TEST_CASE("a grid's CTAs saturate instead of wrapping around") {
  GridRule grid;
  grid.fixed = i64{1} << 40;
  grid.size = i64{1} << 40;
  CHECK(grid.ctas(0) == std::numeric_limits<i64>::max());
  grid.fixed = 3;
  grid.size = 10;
  grid.block = 4;
  CHECK(grid.ctas(0) == 9);
  grid.extra = 2;
  CHECK(grid.ctas(0) == 15);
  grid.limit = 7;
  CHECK(grid.ctas(0) == 7);
  grid = {};
  grid.scale = 3;
  grid.block = 2;
  CHECK(grid.ctas(5) == 8);
}

TEST_CASE("the largest strides of dimensions of size 1 change no kernel") {
  // In bytes they fit 46 bits; the largest 64-bit ones are refused by verify().
  const std::string bf16 = "35184372088832";
  const std::string f32 = "17592186044416";
  const auto sources = [](const std::string& text, const Target& target) {
    const auto chain = llvm::cantFail(verify(llvm::cantFail(parse(text))));
    const Plan plan = llvm::cantFail(make_plan(chain, target));
    std::string all;
    for (const KernelPlan& kernel : plan.buckets[0].kernels) all += emit(chain, plan, kernel).body;
    return all;
  };
  const std::string chains[] = {
      "chain c(input x: bf16[1, 128] strides[{0}, 1], weight w: bf16[256, 128]) {{\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 strides[{0}, 1] }}",
      "chain c(input x: bf16[64, 1, 128] strides[128, {0}, 1], weight w: bf16[1, 256, 128]\n"
      "        strides[{0}, 128, 1]) {{\n"
      "  y = contract \"mgk,gnk->mgn\"(x, w)\n  return y: bf16 strides[256, {0}, 1] }}",
      "chain c(input x: f32[1, 4, 1] strides[{1}, 1, {1}], input z: f32[4, 1] strides[1, {1}]) {{\n"
      "  y = add(x, z)\n  return y: f32 strides[{1}, 1, {1}] }}",
      "chain c(input x: f32[1, 512] strides[{1}, 1]) {{\n"
      "  y = sum \"mn->m\"(x)\n  return y: f32 strides[{1}] }}",
      "chain c(input x: bf16[64, 128], weight w: bf16[1, 256, 128] strides[{0}, 128, 1],\n"
      "        input ends: i32[1]) {{\n"
      "  y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n  return y: bf16 }}",
  };
  for (const std::string& chain : chains) {
    for (const Target& target : all_targets()) {
      CAPTURE(chain);
      CAPTURE(target.name);
      const std::string plain = sources(fmt::format(fmt::runtime(chain), 1024, 1024), target);
      const bool same = sources(fmt::format(fmt::runtime(chain), bf16, f32), target) == plain;
      // A group's stride is in the source of a ragged contraction, whatever the number of groups.
      CHECK((same || chain.find("ragged") != std::string::npos));
    }
  }
}
