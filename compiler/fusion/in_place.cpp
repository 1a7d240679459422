// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/in_place.h"

#include "compiler/fusion/group.h"

namespace catenary {
namespace {

// Does the group read the parameter, and how?
enum class Read : u8 { kNone, kInPlace, kElsewhere };

bool is_parameter(const MemoryLocation& location, int position) {
  return location.binding.kind == SlotBinding::Kind::kParameter &&
         location.binding.index == position;
}

// Does `load` address the element that an output with the parameter's layout stores? Steps along a
// dimension of one element do not matter.
bool loads_own_element(const TensorUse& load, llvm::ArrayRef<Dim> shape, llvm::ArrayRef<i64> own) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != Dim{1, false} && load.steps[d] != own[d]) return false;
  }
  return !load.rows;
}

Read read_of(const GroupTensors& tensors, const FusionGroup& group, int position) {
  Read read = Read::kNone;
  for (size_t place = 0; place < tensors.locations.size(); ++place) {
    const MemoryLocation& location = tensors.locations[place];
    if (!is_parameter(location, position)) continue;
    const auto is_here = [&](const TensorUse& use) {
      return use.location == static_cast<int>(place);
    };
    if (tensors.is_matrix(static_cast<int>(place)) ||
        llvm::any_of(tensors.prologue.tensors, is_here)) {
      return Read::kElsewhere;
    }
    for (const TensorUse& use : tensors.program.tensors) {
      if (!is_here(use)) continue;
      const bool same_shape = location.strides.size() == group.shape.size();
      if (!same_shape || !loads_own_element(use, group.shape, location.strides)) {
        return Read::kElsewhere;
      }
      read = Read::kInPlace;
    }
  }
  return read;
}

// Why the group of output `i` cannot store it in place; empty: it can.
std::string obstacle(const VerifiedChain& chain, const FusionPlan& plan,
                     llvm::ArrayRef<GroupTensors> tensors, int i) {
  const Output& output = chain.chain().outputs[i];
  const int position = parameter_location(chain, output.in_place).binding.index;
  const int own = plan.group_of[output.value];
  const std::string& input = chain.value(output.in_place).name;
  if (read_of(tensors[own], plan.groups[own], position) == Read::kElsewhere) {
    return fmt::format("the kernel of '{}' reads '{}' at other elements than it stores",
                       chain.value(output.value).name, input);
  }
  for (size_t g = own + 1; g < tensors.size(); ++g) {
    if (read_of(tensors[g], plan.groups[g], position) == Read::kNone) continue;
    return fmt::format("the kernel of '{}' reads '{}' later",
                       chain.value(plan.groups[g].values.front()).name, input);
  }
  return "";
}

}  // namespace

void add_copies(const VerifiedChain& chain, FusionPlan& plan) {
  const auto& outputs = chain.chain().outputs;
  if (llvm::none_of(outputs, [](const Output& output) { return output.in_place >= 0; })) return;
  const MemoryMap memory = map_memory(chain, plan);
  std::vector<GroupTensors> tensors;
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    tensors.push_back(build_group(chain, plan, memory, static_cast<int>(g)));
  }
  for (int i = 0; i < static_cast<int>(outputs.size()); ++i) {
    if (outputs[i].in_place < 0) continue;
    const std::string why = obstacle(chain, plan, tensors, i);
    if (why.empty()) continue;
    FusionGroup copy;
    const auto& shape = chain.info(outputs[i].value).type.shape;
    copy.shape.assign(shape.begin(), shape.end());
    copy.copies.push_back(i);
    copy.why =
        fmt::format("copies '{}' to the memory of '{}': {}", chain.value(outputs[i].value).name,
                    chain.value(outputs[i].in_place).name, why);
    plan.groups.push_back(std::move(copy));
  }
}

}  // namespace catenary
