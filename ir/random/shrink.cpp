// SPDX-License-Identifier: Apache-2.0
// shrink(): greedy passes over single simplifications. Each is kept if the chain still verifies and
// still fails; a pass that keeps none is the last.
#include <algorithm>
#include <set>
#include <utility>

#include "ir/random/random_chain.h"
#include "ir/random/scale_shapes.h"
#include "ir/verify/verify.h"

namespace catenary {
namespace {

bool is_valid(const Chain& chain) {
  auto verified = verify(chain);
  if (verified) return true;
  llvm::consumeError(verified.takeError());
  return false;
}

// Removes values and the symbol that no output needs.
Chain prune(const Chain& chain) {
  std::vector<bool> reached(chain.values.size());
  for (const Output& output : chain.outputs) reached[output.value] = true;
  bool symbolic = false;
  for (size_t i = chain.values.size(); i-- > 0;) {
    if (!reached[i]) continue;
    const Value& value = chain.values[i];
    for (const Use& use : value.operands) reached[use.value] = true;
    if (value.ragged) reached[value.ragged->ends] = true;
    for (const Dim& dim : value.type.shape) symbolic |= dim.symbolic;
  }
  Chain kept;
  kept.name = chain.name;
  if (symbolic) kept.symbol = chain.symbol;
  kept.words = chain.words;
  std::vector<ValueId> renumbered(chain.values.size(), -1);
  for (size_t i = 0; i < chain.values.size(); ++i) {
    if (!reached[i]) continue;
    renumbered[i] = static_cast<ValueId>(kept.values.size());
    kept.values.push_back(chain.values[i]);
    for (Use& use : kept.values.back().operands) use.value = renumbered[use.value];
    auto& ragged = kept.values.back().ragged;
    if (ragged) ragged->ends = renumbered[ragged->ends];
  }
  kept.outputs = chain.outputs;
  for (Output& output : kept.outputs) {
    output.value = renumbered[output.value];
    if (output.in_place >= 0) output.in_place = renumbered[output.in_place];
  }
  return kept;
}

class Shrinker {
 public:
  Shrinker(Chain chain, llvm::function_ref<bool(const Chain&)> fails)
      : chain_(std::move(chain)), fails_(fails) {}

  Chain run() {
    do {
      changed_ = false;
      drop_outputs();
      drop_ops();
      drop_symbol();
      shrink_sizes();
      plain_layouts();
    } while (changed_);
    return std::move(chain_);
  }

 private:
  bool keep_if_fails(const Chain& candidate) {
    Chain pruned = prune(candidate);
    if (pruned == chain_ || !is_valid(pruned) || !fails_(pruned)) return false;
    chain_ = std::move(pruned);
    return changed_ = true;
  }

  void drop_outputs() {
    for (size_t i = chain_.outputs.size(); i-- > 0 && chain_.outputs.size() > 1;) {
      Chain candidate = chain_;
      candidate.outputs.erase(candidate.outputs.begin() + static_cast<std::ptrdiff_t>(i));
      keep_if_fails(candidate);
    }
  }

  // From the last op on: replaces each by one of its operands, in uses and outputs.
  void drop_ops() {
    for (size_t i = chain_.values.size(); i-- > 0;) {
      if (i >= chain_.values.size()) continue;  // a success may have removed several
      const auto operands = chain_.values[i].operands;
      for (const Use& operand : operands) {
        Chain candidate = chain_;
        const auto id = static_cast<ValueId>(i);
        for (Value& value : candidate.values) {
          for (Use& use : value.operands) {
            if (use.value == id) use.value = operand.value;
          }
        }
        for (Output& output : candidate.outputs) {
          if (output.value == id) output.value = operand.value;
        }
        if (keep_if_fails(candidate)) break;
      }
    }
  }

  // A number in place of the symbol: contiguous strides must not depend on a symbol.
  void drop_symbol() {
    if (!chain_.symbol) return;
    Chain candidate = chain_;
    for (Value& value : candidate.values) {
      for (Dim& dim : value.type.shape) dim.symbolic = false;
    }
    keep_if_fails(candidate);
  }

  // Equal sizes shrink together, so that shapes still match.
  void shrink_sizes() {
    std::set<std::pair<i64, bool>> sizes;
    for (const Value& value : chain_.values) {
      for (const Dim& dim : value.type.shape) sizes.insert({dim.size, dim.symbolic});
    }
    for (auto [size, symbolic] : sizes) {
      while (size > 1 && (resize(size, symbolic, 1) || resize(size, symbolic, size / 2))) {
        size = last_size_;
      }
      if (size > 1) resize(size, symbolic, size - 1);
    }
  }

  bool resize(i64 from, bool symbolic, i64 to) {
    Chain candidate = chain_;
    for (Value& value : candidate.values) {
      for (Dim& dim : value.type.shape) {
        if (dim.size == from && dim.symbolic == symbolic) dim.size = to;
      }
    }
    if (symbolic && candidate.symbol) {
      candidate.symbol->hi = to;
      candidate.symbol->lo = std::min(candidate.symbol->lo, to);
    }
    match_scale_shapes(candidate);
    last_size_ = to;
    return keep_if_fails(candidate);
  }

  void plain_layouts() {
    for (size_t i = 0; i < chain_.values.size(); ++i) {
      Chain candidate = chain_;
      candidate.values[i].type.strides.clear();
      candidate.values[i].type.align = 16;
      keep_if_fails(candidate);
    }
    for (size_t i = 0; i < chain_.outputs.size(); ++i) {
      Chain candidate = chain_;
      candidate.outputs[i].strides.clear();
      candidate.outputs[i].align = 16;
      keep_if_fails(candidate);
      candidate.outputs[i].in_place = -1;
      keep_if_fails(candidate);
    }
  }

  Chain chain_;
  llvm::function_ref<bool(const Chain&)> fails_;
  bool changed_ = false;
  i64 last_size_ = 0;
};

}  // namespace

Chain shrink(Chain chain, llvm::function_ref<bool(const Chain&)> fails) {
  return Shrinker(std::move(chain), fails).run();
}

}  // namespace catenary
