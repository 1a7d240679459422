// SPDX-License-Identifier: Apache-2.0
// CompiledChain -> ChainRecord: the tensor of each pointer, the alignment that kernels need.
#include "runtime/record/chain_record.h"

#include <algorithm>

#include "compiler/explain.h"
#include "compiler/kernel_family.h"
#include "ir/json.h"
#include "ir/text/text.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

class CompiledTexts final : public ChainTexts {
 public:
  explicit CompiledTexts(std::shared_ptr<const CompiledChain> compiled)
      : compiled_(std::move(compiled)) {}

  Expected<std::string> explain(bool json) const override {
    const CompiledChain& c = *compiled_;
    return json ? json_text(explain_json(c.chain, c.plan)) : explain_text(c.chain, c.plan);
  }

  Expected<std::string> source(size_t index) const override {
    for (const auto& bucket : compiled_->buckets) {
      if (index < bucket.size()) return bucket[index].source.text();
      index -= bucket.size();
    }
    return make_error(ErrorCode::kInternal, "chain '{}' has no such kernel",
                      compiled_->chain.chain().name);
  }

 private:
  std::shared_ptr<const CompiledChain> compiled_;
};

// The index of parameter `position` among the scalars, or among the tensors.
int rank_among(const VerifiedChain& chain, int position, bool scalars) {
  int count = 0;
  for (int i = 0; i < position; ++i) {
    count += (chain.value(chain.parameters()[i]).role == Role::kScalar) == scalars;
  }
  return count;
}

void add_tensors(const VerifiedChain& chain, ChainRecord& record) {
  for (ValueId id : chain.parameters()) {
    const Value& value = chain.value(id);
    if (value.role == Role::kScalar) {
      ++record.num_scalars;
    } else {
      record.tensors.push_back({value.name, value.role, false, chain.info(id).type});
    }
  }
  record.num_inputs = record.tensors.size();
  const auto& outputs = chain.chain().outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    record.tensors.push_back({chain.value(outputs[i].value).name, Role::kInput, true,
                              chain.output_type(static_cast<int>(i))});
    if (outputs[i].in_place < 0) continue;
    const auto input = llvm::find(chain.parameters(), outputs[i].in_place);
    const int position = static_cast<int>(input - chain.parameters().begin());
    record.tensors.back().in_place = rank_among(chain, position, false);
  }
}

SlotRecord slot_record(const VerifiedChain& chain, const SlotBinding& slot, ChainRecord& record) {
  SlotRecord made;
  if (slot.kind == SlotBinding::Kind::kWorkspace) {
    made.offset = slot.workspace_offset;
    return made;
  }
  made.tensor = slot.kind == SlotBinding::Kind::kParameter
                    ? rank_among(chain, slot.index, false)
                    : static_cast<int>(record.num_inputs) + slot.index;
  TensorRecord& tensor = record.tensors[made.tensor];
  tensor.align = std::max(tensor.align, slot.align);
  return made;
}

KernelRecord kernel_record(const VerifiedChain& chain, const KernelPlan& plan,
                           const CompiledKernel& compiled, ChainRecord& record) {
  KernelRecord kernel;
  kernel.symbol = plan.symbol;
  if (plan.family != nullptr) kernel.family = family_name(plan);
  kernel.config_text = plan.config_text;
  kernel.grid = plan.grid;
  kernel.threads = plan.threads;
  kernel.cluster = plan.cluster;
  kernel.smem_bytes = plan.smem_bytes;
  kernel.maps = plan.maps;
  for (const SlotBinding& slot : plan.slots) {
    kernel.slots.push_back(slot_record(chain, slot, record));
  }
  for (int position : plan.scalars) kernel.scalars.push_back(rank_among(chain, position, true));
  kernel.identity = compiled.key;
  kernel.cubin = compiled.cubin;
  return kernel;
}

}  // namespace

std::shared_ptr<const ChainRecord> make_record(std::shared_ptr<const CompiledChain> compiled) {
  const VerifiedChain& chain = compiled->chain;
  auto record = std::make_shared<ChainRecord>();
  record->text = print(chain.chain());
  record->name = chain.chain().name;
  record->symbol = chain.chain().symbol;
  record->workspace_bytes = compiled->plan.workspace_bytes;
  record->target = compiled->plan.target;
  record->options = compiled->options;
  record->arch = compiled->plan.target.arch;
  add_tensors(chain, *record);
  for (size_t b = 0; b < compiled->plan.buckets.size(); ++b) {
    const PlanBucket& plan = compiled->plan.buckets[b];
    BucketRecord& bucket = record->buckets.emplace_back();
    bucket.lo = plan.lo;
    bucket.hi = plan.hi;
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      bucket.kernels.push_back(
          kernel_record(chain, plan.kernels[k], compiled->buckets[b][k], *record));
      record->arch = compiled->buckets[b][k].cubin->arch;
      bucket.kernels.back().pdl = k < plan.pdl.size() && plan.pdl[k];
    }
  }
  record->texts = std::make_shared<CompiledTexts>(std::move(compiled));
  return record;
}

}  // namespace catenary
