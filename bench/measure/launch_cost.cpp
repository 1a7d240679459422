// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/launch_cost.h"

#include <algorithm>
#include <chrono>

#include "runtime/loaded_kernel.h"
#include "shared/params.h"

namespace catenary::bench {
namespace {

// Fewer than the 1,024 launches that a driver queues before it blocks the host.
constexpr int kBatch = 200;

constexpr const char* kChains[] = {
    "chain pointwise_3_tensors(input x: f32[32, 128], weight w: f32[128]) {\n"
    "  y = relu(mul(x, w))\n  return y: f32\n}\n",
    "chain gemm_4_tensors(input x: bf16[64, 64], weight w: bf16[64, 64], weight b: bf16[64]) {\n"
    "  h = contract \"mk,nk->mn\"(x, w)\n  y = add(h, b)\n  return y: bf16\n}\n"};

// A bare launch of the first kernel of a bound chain, with parameters packed once.
class BareLaunch {
 public:
  static Expected<BareLaunch> make(const Session& session, const CompiledChain& compiled,
                                   const Tensors& tensors);
  cuda::Result launch(const cuda::Api& api) {
    void* parameters[] = {image_.data()};
    return api.launch_kernel_ex(&config_, function_, parameters, nullptr);
  }

 private:
  std::shared_ptr<const LoadedKernel> loaded_;
  cuda::Function function_ = nullptr;
  cuda::LaunchConfig config_{};
  std::vector<u64> image_;
};

Expected<BareLaunch> BareLaunch::make(const Session& session, const CompiledChain& compiled,
                                      const Tensors& tensors) {
  const VerifiedChain& chain = compiled.chain;
  const KernelPlan& plan = compiled.plan.buckets[0].kernels[0];
  auto loaded =
      LoadedKernel::load(session.driver(), *compiled.buckets[0][0].cubin, plan.smem_bytes);
  if (!loaded) return loaded.takeError();
  BareLaunch bare;
  bare.loaded_ = std::move(*loaded);
  bare.function_ = bare.loaded_->function();
  bare.config_.grid_x = static_cast<unsigned>(plan.grid.ctas(0));
  bare.config_.grid_y = bare.config_.grid_z = 1;
  bare.config_.block_x = static_cast<unsigned>(plan.threads);
  bare.config_.block_y = bare.config_.block_z = 1;
  bare.config_.shared_mem_bytes = static_cast<unsigned>(plan.smem_bytes);
  bare.config_.stream = session.stream();
  const i64 pointers = std::max<i64>(static_cast<i64>(plan.slots.size()), 1);
  bare.image_.resize(static_cast<size_t>(params_bytes(pointers, 0) / 8));
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    const SlotBinding& slot = plan.slots[i];
    if (slot.kind == SlotBinding::Kind::kWorkspace) {
      return make_error(ErrorCode::kInternal, "kernel {} of the launch test uses a workspace",
                        plan.symbol);
    }
    const ValueId id = slot.kind == SlotBinding::Kind::kParameter
                           ? chain.parameters()[slot.index]
                           : chain.chain().outputs[slot.index].value;
    bare.image_[i] = tensors.at(chain.value(id).name).base();
  }
  return bare;
}

// Host nanoseconds per call of `launch` over one batch. The queue is empty before and after.
template <typename Launch>
Expected<double> batch_ns(const Session& session, const Launch& launch) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kBatch; ++i) {
    if (Error error = launch()) return error;
  }
  const auto end = std::chrono::steady_clock::now();
  if (Error error = session.synchronize()) return error;
  return std::chrono::duration<double, std::nano>(end - start).count() / kBatch;
}

Expected<LaunchRow> measure(const Session& session, RandomPool& pool, const char* text,
                            int rounds) {
  Expected<VerifiedChain> verified = verified_chain(text);
  if (!verified) return verified.takeError();
  Expected<Tensors> tensors = make_tensors(session, pool, *verified, {}, 1);
  if (!tensors) return tensors.takeError();
  PlanOptions options;
  options.split_k = 1;
  options.force_tile = "64x64x64w2x2s4";  // a kernel without tensor maps
  auto bound = BoundChain::make(session, *verified, options, *tensors, 1);
  if (!bound) return bound.takeError();
  Expected<BareLaunch> bare = BareLaunch::make(session, (*bound)->compiled(), *tensors);
  if (!bare) return bare.takeError();
  std::vector<double> executable_ns;
  std::vector<double> bare_ns;
  for (int round = -3; round < rounds; ++round) {
    auto a = batch_ns(session, [&] { return (*bound)->launch(0); });
    if (!a) return a.takeError();
    auto b = batch_ns(session, [&] {
      return session.check(bare->launch(session.api()), "launching a bare kernel");
    });
    if (!b) return b.takeError();
    if (round < 0) continue;  // warm-up
    executable_ns.push_back(*a);
    bare_ns.push_back(*b);
  }
  return LaunchRow{verified->chain().name, median(executable_ns), median(bare_ns)};
}

}  // namespace

Expected<std::vector<LaunchRow>> measure_launch_cost(const Session& session, bool quick) {
  RandomPool pool(1);
  std::vector<LaunchRow> rows;
  for (const char* text : kChains) {
    Expected<LaunchRow> row = measure(session, pool, text, quick ? 31 : 101);
    if (!row) return row.takeError();
    rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace catenary::bench
