// SPDX-License-Identifier: Apache-2.0
// Tensors of the workspace that are live at one time never overlap; others share memory.
#include "compiler/workspace.h"

#include <doctest/doctest.h>

#include <set>

#include "compiler/kernel_family.h"
#include "compiler/plan.h"
#include "ir/random/random_chain.h"
#include "ir/text/text.h"
#include "shared/dequantise_config.h"
#include "shared/gemm_dequant_config.h"
#include "shared/gemm_sm80_config.h"
#include "shared/gemm_sm90_config.h"
#include "shared/skinny_config.h"
#include "shared/skinny_dequant_config.h"
#include "tests/support/verified.h"

using namespace catenary;
using testing::verified;

namespace {

// Slots that one part's code addresses, and those of them that it writes.
void add_slots_of_part(const KernelPlan& kernel, std::set<i32>& all, std::set<i32>& written) {
  for (const Program* program : {&kernel.prologue, &kernel.program}) {
    for (const ProgramLine& line : *program) {
      const bool store = line.kind == ProgramLine::Kind::kStore;
      if (!store && line.kind != ProgramLine::Kind::kLoad) continue;
      all.insert(line.operand.slot);
      if (store) written.insert(line.operand.slot);
    }
  }
  if (const auto* skinny = kernel.config.get_if<SkinnyConfig>()) {
    all.insert({skinny->x.slot, skinny->w.slot});
    if (skinny->dual) all.insert(skinny->w2.slot);
    if (skinny->ragged.kind != Ragged::kNone) all.insert(skinny->ragged.group_ends_slot);
  }
  const auto add_weights = [&](const auto& c) {
    for (const DequantOperand* w : {&c.w, c.dual ? &c.w2 : &c.w})
      all.insert({w->slot, w->scale.slot, w->has_zero ? w->zero.slot : w->slot});
    if (c.has_groups()) all.insert(c.ragged.group_ends_slot);
  };
  if (const auto* dequant = kernel.config.get_if<GemmDequantConfig>()) add_weights(*dequant);
  if (const auto* dequant = kernel.config.get_if<SkinnyDequantConfig>()) {
    all.insert(dequant->x.slot);
    add_weights(*dequant);
  }
  if (const auto* c = kernel.config.get_if<DequantiseConfig>())
    all.insert({c->q.slot, c->scale.slot, c->has_zero ? c->zero.slot : c->q.slot});
  for (const MapBinding& map : kernel.maps) all.insert(map.slot);
  if (const auto* mapped = kernel.config.get_if<GemmSm90Config>()) {
    if (mapped->ragged.kind != Ragged::kNone) all.insert(mapped->ragged.group_ends_slot);
    for (const Sm90Operand& matrix : {mapped->a, mapped->b, mapped->b2}) {
      if (matrix.by_cp_async) all.insert(matrix.memory.slot);
    }
  }
  const auto* gemm = kernel.config.get_if<GemmSm80Config>();
  if (gemm == nullptr) return;
  for (i32 i = 0; i < gemm->segments; ++i)
    all.insert({gemm->segment_a(i).slot, gemm->segment_b(i).slot});
  if (gemm->dual) all.insert(gemm->b2.slot);
  if (gemm->ragged.kind != Ragged::kNone) all.insert(gemm->ragged.group_ends_slot);
}

// A tensor in the workspace from the kernel that writes it to the last one that reads it.
struct Tenant {
  std::string name;
  i64 offset = 0;
  i64 bytes = 0;
  size_t last = 0;
};

// A bucket's tensors in the workspace: their memory is theirs from the kernel that writes them to
// the last one that reads them.
class Tenants {
 public:
  // What is wrong with the kernel's slot; empty: nothing.
  std::string add(const SlotBinding& slot, bool writes, size_t kernel) {
    const auto same =
        llvm::find_if(all_, [&](const Tenant& t) { return t.offset == slot.workspace_offset; });
    if (!writes) {
      if (same == all_.end()) return "is read before it is written";
      if (same->bytes != slot.bytes) return "has two sizes";
      if (same->name != slot.name) return "has lost its memory to " + same->name;
      same->last = kernel;
      return "";
    }
    // A new tensor ends those in its memory, and they may not be of the same kernel.
    const i64 end = slot.workspace_offset + slot.bytes;
    for (const Tenant& t : all_) {
      const bool overlaps = t.offset < std::max(end, slot.workspace_offset + 1) &&
                            slot.workspace_offset < std::max(t.offset + t.bytes, t.offset + 1);
      if (overlaps && t.last == kernel) return "overlaps a tensor of the same kernel";
    }
    llvm::erase_if(all_, [&](const Tenant& t) {
      return t.offset < end && slot.workspace_offset < t.offset + t.bytes;
    });
    llvm::erase_if(all_, [&](const Tenant& t) { return t.offset == slot.workspace_offset; });
    all_.push_back({slot.name, slot.workspace_offset, slot.bytes, kernel});
    return "";
  }

 private:
  std::vector<Tenant> all_;
};

// What is wrong with the memory of one bucket; empty: nothing.
std::string memory_problem(const Plan& plan, const PlanBucket& bucket) {
  Tenants tenants;
  for (size_t k = 0; k < bucket.kernels.size(); ++k) {
    const KernelPlan& kernel = bucket.kernels[k];
    std::set<i32> all, written;
    add_slots_of_part(kernel, all, written);
    for (const KernelPart& beside : kernel.beside) {
      KernelPlan part = kernel;
      part.config = beside.config;
      part.program = beside.program;
      add_slots_of_part(part, all, written);
    }
    // Operands first: a result may not overlap them.
    for (const bool writing : {false, true}) {
      for (i32 i = 0; i < static_cast<i32>(kernel.slots.size()); ++i) {
        const SlotBinding& slot = kernel.slots[i];
        const bool writes = written.count(i) != 0;
        if (writes != writing) continue;
        if (all.erase(i) == 0) return fmt::format("{}: slot {} is idle", kernel.symbol, i);
        if (writes && slot.kind == SlotBinding::Kind::kParameter)
          return fmt::format("{}: writes parameter {}", kernel.symbol, slot.name);
        if (slot.kind != SlotBinding::Kind::kWorkspace) continue;
        if (slot.workspace_offset % slot.align != 0 ||
            slot.workspace_offset + slot.bytes > plan.workspace_bytes)
          return fmt::format("{}: {} is outside", kernel.symbol, slot.name);
        const std::string problem = tenants.add(slot, writes, k);
        if (!problem.empty()) return fmt::format("{}: {} {}", kernel.symbol, slot.name, problem);
      }
    }
    if (!all.empty()) return fmt::format("{}: slot {} is unknown", kernel.symbol, *all.begin());
  }
  return "";
}

Plan planned(const VerifiedChain& chain, const PlanOptions& options = {}) {
  auto plan = make_plan(chain, llvm::cantFail(find_target("h200")), options);
  if (!plan) FAIL(take_report(plan.takeError()).message);
  return std::move(*plan);
}

// A kernel that addresses tensors of the workspace: their names (offsets before they are moved) and
// bytes.
KernelPlan kernel_over(std::initializer_list<std::pair<i64, i64>> tensors) {
  KernelPlan kernel;
  for (const auto& [offset, bytes] : tensors) {
    SlotBinding slot;
    slot.kind = SlotBinding::Kind::kWorkspace;
    slot.workspace_offset = offset;
    slot.bytes = bytes;
    kernel.slots.push_back(slot);
  }
  return kernel;
}

i64 offset(const std::vector<KernelPlan>& kernels, size_t kernel, size_t slot) {
  return kernels[kernel].slots[slot].workspace_offset;
}

// `layers` square layers with a bias and relu.
VerifiedChain layers(int count) {
  std::string text = "chain c(input x0: bf16[300, 64]";
  for (int i = 0; i < count; ++i) text += fmt::format(", weight w{}: bf16[64, 64]", i);
  text += ") {\n";
  for (int i = 0; i < count; ++i) {
    text +=
        fmt::format("  x{} = cast(relu(contract \"mk,nk->mn\"(x{}, w{})), bf16)\n", i + 1, i, i);
  }
  return verified(text + fmt::format("  return x{}: bf16 }}", count));
}

}  // namespace

TEST_CASE("a tensor takes the memory of one that no later kernel reads") {
  // 0 -> 1 -> 2 -> 3 by four kernels, of 1000 bytes each.
  std::vector<KernelPlan> kernels = {
      kernel_over({{0, 1000}}), kernel_over({{0, 1000}, {1024, 1000}}),
      kernel_over({{1024, 1000}, {2048, 1000}}), kernel_over({{2048, 1000}})};
  CHECK(share_workspace(kernels) == 2048);
  CHECK(offset(kernels, 0, 0) == offset(kernels, 1, 0));
  CHECK(offset(kernels, 1, 1) == offset(kernels, 2, 0));
  CHECK(offset(kernels, 1, 0) != offset(kernels, 1, 1));
  CHECK(offset(kernels, 2, 1) == offset(kernels, 0, 0));
}

TEST_CASE("a tensor that a late kernel reads keeps its memory until then") {
  std::vector<KernelPlan> kernels = {kernel_over({{0, 256}}), kernel_over({{0, 256}, {256, 256}}),
                                     kernel_over({{256, 256}, {512, 256}}),
                                     kernel_over({{512, 256}, {0, 256}})};
  CHECK(share_workspace(kernels) == 768);
}

TEST_CASE("small tensors fill what a large one leaves") {
  // The large tensor is needed by kernels 0 and 1; two small ones later, beside each other.
  std::vector<KernelPlan> kernels = {kernel_over({{0, 100000}}), kernel_over({{0, 100000}}),
                                     kernel_over({{100096, 300}, {100608, 1}})};
  CHECK(share_workspace(kernels) == 100096);
  CHECK(offset(kernels, 2, 0) == 0);
  CHECK(offset(kernels, 2, 1) == 512);
}

TEST_CASE("empty tensors of one kernel have offsets of their own") {
  std::vector<KernelPlan> kernels = {kernel_over({{0, 0}, {256, 0}})};
  CHECK(share_workspace(kernels) == 512);
  CHECK(offset(kernels, 0, 0) != offset(kernels, 0, 1));
  kernels.clear();
  CHECK(share_workspace(kernels) == 0);
}

TEST_CASE("a chain of layers needs the memory of two of its values") {
  const i64 value = 300 * 64 * 2;
  CHECK(planned(layers(2)).workspace_bytes == value);
  CHECK(planned(layers(3)).workspace_bytes == 2 * value);
  CHECK(planned(layers(9)).workspace_bytes == 2 * value);
}

TEST_CASE("empty values between kernels have places of their own") {
  const VerifiedChain chain = verified(R"(chain c(input x0: f32[0, 1], input x2: f16[1, 0]) {
    v3 = cast(x0, f16)
    v4 = contract "bg,mb->gm"(v3, x2)
    v6 = sum "ab->a"(v4)
    return v6: bf16
  })");
  const Plan plan = planned(chain);
  std::set<i64> offsets;
  int workspaces = 0;
  for (const SlotBinding& slot : plan.buckets[0].kernels[1].slots) {
    if (slot.kind != SlotBinding::Kind::kWorkspace) continue;
    offsets.insert(slot.workspace_offset);
    ++workspaces;
  }
  CHECK(workspaces == 2);
  CHECK(offsets.size() == 2);
}

TEST_CASE(
    "values that are live at one time do not overlap, and every slot is addressed: random chains") {
  int workspaces = 0;
  for (u64 seed = 0; seed < 400; ++seed) {
    RandomChainOptions options;
    options.max_contractions = 1 + static_cast<int>(seed % 3);
    options.max_elements = seed % 2 == 0 ? 1 << 20 : 4096;
    options.small_m = seed % 5 == 4;
    options.no_dequant = seed % 7 < 5;
    const Chain random = random_chain(seed, options);
    const VerifiedChain chain = llvm::cantFail(verify(random));
    PlanOptions plan_options;
    // Quantised weights have clusters only.
    plan_options.split_k = options.no_dequant && seed % 4 == 3 ? 2 : 0;
    for (bool fuse : {true, false}) {
      plan_options.fuse = fuse;
      auto plan = make_plan(chain, llvm::cantFail(find_target("h200")), plan_options);
      if (!plan) {
        const ErrorReport report = take_report(plan.takeError());
        if (report.code != ErrorCode::kUnsupported) FAIL_CHECK(seed << ": " << report.message);
        continue;
      }
      workspaces += plan->workspace_bytes > 0;
      for (const PlanBucket& bucket : plan->buckets) {
        const std::string problem = memory_problem(*plan, bucket);
        if (!problem.empty())
          FAIL_CHECK("seed " << seed << ": " << problem << "\n" << print(random));
      }
    }
  }
  CHECK(workspaces > 200);
}
