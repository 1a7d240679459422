// SPDX-License-Identifier: Apache-2.0
// When the planner computes a product transposed, with which tiles and maps, and when it may not.
#include <doctest/doctest.h>

#include "compiler/families/gemm_sm90/shapes.h"
#include "compiler/kernel_family.h"
#include "tests/support/gemm_sm90_plan.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

std::string dense(i64 m, i64 n, i64 k, const std::string& body = "y") {
  return fmt::format(
      "chain a(input x: bf16[{0}, {2}], weight w: bf16[{1}, {2}], input r: bf16[{0}, {1}]) {{\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  z = add({3}, r)\n  return z: bf16 }}",
      m, n, k, body);
}

bool is_transposed(const CandidateId& id) {
  return id.family == "gemm_sm90" && !id.tile.empty() && id.tile.back() == 't';
}

bool offers_transposed(const std::string& text, const PlanOptions& options = {}) {
  const Plan plan = planned(text, options);
  for (const PlanBucket& bucket : plan.buckets) {
    for (const KernelPlan& kernel : bucket.kernels) {
      if (llvm::any_of(kernel.candidates,
                       [](const CandidateSummary& one) { return is_transposed(one.id); }))
        return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("rows that no multiple of 64 fits are columns of a transposed tile") {
  const Plan plan = planned(
      "chain a(input x: bf16[144, 6, 4920], weight w: bf16[6, 1288, 4920]) {\n"
      "  y = contract \"bgk,gnk->bgn\"(x, w)\n  return y: bf16 }");
  const KernelPlan& kernel = first_kernel(plan);
  REQUIRE(is_transposed(kernel.candidate));
  const auto& config = kernel.config.get<GemmSm90Config>();
  CHECK(config.space.m == Extent(1288));
  CHECK(config.space.n == Extent(144));
  CHECK(144 % config.tile.block_n == 0);
  CHECK(config.epilogue.in_registers);
  CHECK(config.a.weight);
  CHECK(kernel.symbol.find("_gemm_tm") != std::string::npos);
  CHECK(kernel.config_text.find("of the transposed product") != std::string::npos);
}

TEST_CASE("a transposed output leaves in boxes of 64 rows, a quarter of a subtile's columns") {
  PlanOptions options;
  options.force_tile = "128x80x64p2s5t";
  const Plan plan = planned(
      "chain a(input x: bf16[229, 264], weight w: bf16[584, 264]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  z = relu(y)\n  return z: bf16 }",
      options);
  const KernelPlan& kernel = first_kernel(plan);
  const auto& config = kernel.config.get<GemmSm90Config>();
  CHECK(config.subtile_n() == 64);
  const MapBinding& map = kernel.maps.back();
  CHECK(kernel.slots[map.slot].name == "z");
  REQUIRE(map.dims.size() == 2);
  CHECK(map.dims[0].size == Extent(584));
  CHECK(map.dims[0].box == 64);
  CHECK(map.dims[1].size == Extent(229));
  CHECK(map.dims[1].stride == 2 * 584);
  CHECK(map.dims[1].box == 16);
  CHECK(map.swizzle == Swizzle::k128);
  // Beside an operand that varies along M and N it leaves by rows.
  CHECK(first_kernel(planned(dense(229, 584, 264), options)).maps.size() == 2);
}

TEST_CASE("partial sums of a transposed split-K have the layout of D") {
  PlanOptions options;
  options.force_tile = "128x80x64p2s6t";
  options.split_k = 3;
  const Plan plan = planned(dense(229, 584, 4096), options);
  const auto& kernels = plan.buckets[0].kernels;
  REQUIRE(kernels.size() == 2);
  const auto store = llvm::find_if(kernels[0].program, [](const ProgramLine& line) {
    return line.kind == ProgramLine::Kind::kStore;
  });
  REQUIRE(store != kernels[0].program.end());
  CHECK(store->operand.stride.at[kMaxDims - 2] == 1);
  CHECK(store->operand.stride.at[kMaxDims - 1] == 584);
  REQUIRE(!kernels[1].prologue.empty());
  const Operand& load = kernels[1].prologue[0].operand;
  CHECK(load.stride.at[kMaxDims - 2] == 584);
  CHECK(load.stride.at[kMaxDims - 1] == 1);
}

TEST_CASE("what cannot be transposed has no such candidate") {
  CHECK(offers_transposed(dense(229, 584, 264)));
  // Columns of D are no vectors of 16 bytes.
  CHECK(!offers_transposed(dense(229, 580, 264)));
  CHECK(!offers_transposed(
      "chain a[M in 100..300](input x: bf16[M, 264], weight w: bf16[584, 264]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }"));
  CHECK(!offers_transposed(
      "chain a(input x: bf16[229, 264], weight w: bf16[584, 264], weight v: bf16[584, 264]) {\n"
      "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
      "  h = mul(silu(g), u)\n  return h: bf16 }"));
  CHECK(!offers_transposed(
      "chain a(input x: bf16[229, 264], weight w: bf16[3, 584, 264], input e: i32[3]) {\n"
      "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  return y: bf16 }"));
  // The thread that stores an element has not loaded what it overwrites.
  CHECK(!offers_transposed(
      "chain a(input x: bf16[229, 264], weight w: bf16[584, 264], input r: bf16[229, 584]) {\n"
      "  y = add(contract \"mk,nk->mn\"(x, w), r)\n  return y: bf16 inplace r }"));
}

TEST_CASE("one order of K for every M is that of rows of D") {
  PlanOptions options;
  options.batch_invariant = true;
  CHECK(offers_transposed(dense(144, 2568, 4920)));
  CHECK(!offers_transposed(dense(144, 2568, 4920), options));
}

TEST_CASE("widths divide the rows of D evenly or fill waves, and fit wgmma") {
  const Target target = llvm::cantFail(find_target("h200"));
  for (const i64 rows : {65, 144, 229, 770, 1000, 5128}) {
    ContractionProblem problem;
    problem.transposed = true;
    problem.size.m = 1280;
    problem.size.n = rows;
    const auto shapes = gemm_sm90_shapes_of(GemmSm90Config(), problem, target, /*forced=*/false);
    CHECK(!shapes.empty());
    for (const GemmSm90Shape& shape : shapes) {
      CAPTURE(rows);
      CAPTURE(shape.block_n);
      CHECK(shape.block_n % 8 == 0);
      CHECK(shape.block_n >= 64);
      CHECK(shape.block_n <= 256);
      // Accumulators of a thread.
      const int warpgroups = shape.ping_pong ? 1 : shape.consumers;
      CHECK(shape.block_m / 64 * shape.block_n / 2 / warpgroups <= (shape.ping_pong ? 160 : 192));
    }
  }
}
