// SPDX-License-Identifier: Apache-2.0
#include "ir/random/reduce_sizes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "ir/random/scale_shapes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace catenary {
namespace {

constexpr i64 kModulus = 64;

// The largest size up to `max_size` with the remainder of `size`; at least 2, for 1 would
// broadcast.
i64 smaller(i64 size, i64 max_size, i64 modulus) {
  const i64 below = ((max_size - size) % modulus + modulus) % modulus;
  return max_size - below;
}

i64 modulus_of(i64 max_size) {
  return std::min(kModulus, static_cast<i64>(llvm::PowerOf2Floor(static_cast<u64>(max_size))));
}

// `size` itself up to `max_size`; above, a smaller one.
i64 reduced(i64 size, i64 max_size) {
  if (size <= max_size) return size;
  for (i64 modulus = modulus_of(max_size); modulus > 1; modulus /= 2) {
    const i64 result = smaller(size, max_size, modulus);
    if (result > 1) return result;
  }
  return max_size;
}

class Sizes {
 public:
  Sizes(const std::set<i64, std::greater<>>& all, i64 max_size) : max_size_(max_size) {
    std::set<i64> taken(all.begin(), all.end());
    for (i64 size : all) {
      if (size <= max_size) continue;
      i64 choice = reduced(size, max_size);
      // Different sizes stay different: equal ones would hide a kernel that confuses dimensions.
      const i64 step = modulus_of(max_size);
      for (i64 other = choice; other > 1; other -= step) {
        if (taken.count(other) != 0) continue;
        choice = other;
        break;
      }
      taken.insert(choice);
      map_[size] = choice;
    }
  }

  i64 operator()(i64 size) const {
    const auto it = map_.find(size);
    return it == map_.end() ? size : it->second;
  }
  i64 max_size() const { return max_size_; }
  const std::map<i64, i64>& changed() const { return map_; }

 private:
  i64 max_size_;
  std::map<i64, i64> map_;
};

// Strides of the reduced shape, from the innermost dimension outwards: each keeps its padding
// modulo 64. Rows of 4-bit elements begin with a byte.
llvm::SmallVector<i64, 4> reduced_strides(const TensorType& type, llvm::ArrayRef<Dim> shape,
                                          i64 max_size) {
  llvm::SmallVector<i64, 4> strides = type.strides;
  llvm::SmallVector<int, 8> order;
  for (int i = 0; i < type.rank(); ++i) {
    if (type.shape[i].size > 1 && strides[i] > 0) order.push_back(i);
  }
  llvm::stable_sort(order, [&](int a, int b) { return type.strides[a] < type.strides[b]; });
  i64 span = 1;  // elements that the inner dimensions span
  i64 reduced_span = 1;
  for (int i : order) {
    const i64 padding = type.strides[i] - span;
    // A dimension that overlaps the inner ones (a sliding window) keeps its stride.
    strides[i] = padding >= 0 ? reduced_span + reduced(padding, max_size)
                              : reduced(type.strides[i], max_size);
    if (dtype_info(type.dtype).bits < 8 && type.strides[i] % 2 == 0) strides[i] += strides[i] % 2;
    span += (type.shape[i].size - 1) * type.strides[i];
    reduced_span += (shape[i].size - 1) * strides[i];
  }
  return strides;
}

// The parameters with new shapes, then with strides for them.
void reduce_parameters(const VerifiedChain& chain, const Sizes& sizes, Chain& small) {
  for (ValueId id : chain.parameters()) {
    for (Dim& dim : small.values[id].type.shape) dim.size = sizes(dim.size);
  }
  match_scale_shapes(small);
  for (ValueId id : chain.parameters()) {
    TensorType& type = small.values[id].type;
    // Contiguous rows of an even number of 4-bit elements may become those of an odd one.
    const bool fills_bytes = dtype_info(type.dtype).bits < 8 && !type.packed && type.rank() > 0 &&
                             type.shape.back().size % 2 != 0;
    if (type.strides.empty() && !fills_bytes) continue;
    TensorType before = chain.info(id).type;
    if (!type.strides.empty()) before.strides = type.strides;
    type.strides = reduced_strides(before, type.shape, sizes.max_size());
  }
}

std::set<i64, std::greater<>> sizes_of(const VerifiedChain& chain) {
  std::set<ValueId> scales;
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    if (chain.value(id).op != Op::kDequant) continue;
    for (const Use& use : llvm::drop_begin(chain.value(id).operands)) scales.insert(use.value);
  }
  std::set<i64, std::greater<>> all;
  for (ValueId id : chain.parameters()) {
    if (scales.count(id) != 0) continue;  // their sizes follow from those of the weights
    for (const Dim& dim : chain.info(id).type.shape) all.insert(dim.size);
  }
  if (chain.chain().symbol) all.insert(chain.chain().symbol->hi);
  return all;
}

}  // namespace

Expected<ReducedChain> reduce_sizes(const VerifiedChain& chain, i64 max_size) {
  if (max_size < kLeastMaxSize) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the largest size is {}: give {} or more, so that sizes can keep their "
                      "remainders",
                      max_size, kLeastMaxSize);
  }
  const Sizes sizes(sizes_of(chain), max_size);
  Chain small = chain.chain();
  reduce_parameters(chain, sizes, small);
  for (size_t i = 0; i < small.outputs.size(); ++i) {
    if (small.outputs[i].strides.empty()) continue;
    const TensorType type = chain.output_type(static_cast<int>(i));
    llvm::SmallVector<Dim, 4> shape = type.shape;
    for (Dim& dim : shape) dim.size = sizes(dim.size);
    small.outputs[i].strides = reduced_strides(type, shape, max_size);
  }
  if (small.symbol) {
    small.symbol->hi = sizes(small.symbol->hi);
    small.symbol->lo = reduced(small.symbol->lo, std::max<i64>(small.symbol->hi, 1));
  }
  Expected<VerifiedChain> verified = verify(std::move(small));
  if (!verified) return verified.takeError();
  ReducedChain result{std::move(*verified), {}};
  for (const auto& [before, after] : llvm::reverse(sizes.changed())) {
    result.sizes.emplace_back(before, after);
  }
  return result;
}

i64 reduce_symbol(const VerifiedChain& reduced_chain, i64 symbol) {
  const Symbol& range = *reduced_chain.chain().symbol;
  return std::max(reduced(symbol, std::max<i64>(range.hi, 1)), range.lo);
}

}  // namespace catenary
