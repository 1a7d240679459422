// SPDX-License-Identifier: Apache-2.0
#include "tests/support/affine_chain.h"

namespace catenary::testing {
namespace {

TensorType rows(DType dtype, i64 align = 16) {
  TensorType type;
  type.dtype = dtype;
  type.shape = {Dim{kAffineMaxRows, true}, Dim{kAffineColumns, false}};
  type.align = align;
  return type;
}

SlotBinding output_slot(int index) {
  SlotBinding slot;
  slot.kind = SlotBinding::Kind::kOutput;
  slot.index = index;
  return slot;
}

SlotBinding workspace_slot(i64 offset) {
  SlotBinding slot;
  slot.kind = SlotBinding::Kind::kWorkspace;
  slot.workspace_offset = offset;
  return slot;
}

KernelPlan kernel_plan(const char* symbol, std::vector<SlotBinding> slots, GridRule grid) {
  KernelPlan kernel;
  kernel.symbol = symbol;
  kernel.slots = std::move(slots);
  kernel.grid = grid;
  kernel.threads = 128;
  return kernel;
}

}  // namespace

SlotBinding parameter_slot(int position, i64 align) {
  SlotBinding slot;
  slot.index = position;
  slot.align = align;
  return slot;
}

VerifiedChain affine_chain() {
  Chain chain;
  chain.name = "affine";
  chain.symbol = Symbol{"M", 0, kAffineMaxRows};
  const ValueId x = chain.parameter(Role::kInput, "x", rows(DType::kF32));
  TensorType scalar;
  scalar.align = 4;
  const ValueId alpha = chain.parameter(Role::kScalar, "alpha", scalar);
  TensorType bias;
  bias.shape = {Dim{kAffineColumns, false}};
  const ValueId b = chain.parameter(Role::kWeight, "b", bias);
  const ValueId scaled = chain.elementwise(Op::kScale, {Use{x, ""}, Use{alpha, ""}}, {}, "scaled");
  const ValueId y = chain.elementwise(Op::kAdd, {Use{scaled, ""}, Use{b, ""}}, {}, "y");
  chain.returns(y, DType::kBF16);
  return llvm::cantFail(verify(std::move(chain)));
}

std::shared_ptr<CompiledChain> affine_compiled(const char* arch) {
  Plan plan;
  plan.target = llvm::cantFail(find_target("h200"));
  plan.workspace_bytes = 4096;
  PlanBucket small{0, 16, {}, {true, true}, {}};
  small.kernels.push_back(kernel_plan("k_scale", {parameter_slot(0, 16), workspace_slot(512)},
                                      GridRule{.fixed = 2, .scale = 1, .block = 4}));
  small.kernels[0].scalars = {1};
  small.kernels.push_back(kernel_plan("k_add",
                                      {workspace_slot(512), parameter_slot(2, 16), output_slot(0)},
                                      GridRule{.scale = 1, .block = 8}));
  PlanBucket large{17, kAffineMaxRows, {}, {false}, {}};
  large.kernels.push_back(
      kernel_plan("k_all", {parameter_slot(0, 16), parameter_slot(2, 16), output_slot(0)},
                  GridRule{.scale = 1}));
  large.kernels[0].smem_bytes = 65536;
  plan.buckets = {small, large};

  auto compiled = std::make_shared<CompiledChain>(CompiledChain{affine_chain(), plan, {}});
  u8 number = 0;
  for (const PlanBucket& bucket : plan.buckets) {
    compiled->buckets.emplace_back();
    for (const KernelPlan& kernel : bucket.kernels) {
      CompiledKernel made;
      made.key.bytes[0] = ++number;
      auto cubin = std::make_shared<Cubin>();
      cubin->symbol = kernel.symbol;
      cubin->arch = arch;
      cubin->image = {0x7f, 'E', 'L', 'F'};
      made.cubin = cubin;
      compiled->buckets.back().push_back(std::move(made));
    }
  }
  return compiled;
}

EngineOptions no_cache() {
  EngineOptions options;
  options.cache.mode = CacheMode::kOff;
  return options;
}

}  // namespace catenary::testing
