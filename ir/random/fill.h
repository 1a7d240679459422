// SPDX-License-Identifier: Apache-2.0
// Seeded test data for host tensors: the same bytes on every host. Each element depends only on the
// seed and its row-major index, by integer arithmetic and exact scaling.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/reference/reference.h"

namespace catenary {

// The kind of data. All but kNanPlant and kInfPlant are finite.
enum class FillKind : u8 {
  kExactInteger,  // integers in [-bound, bound]
  kNormal,        // mean 0, standard deviation `scale` (a sum of eight uniform numbers)
  kPositive,      // uniform in (0, scale]: shows truncation bias
  kSparse,        // three quarters 0, the rest multiples of scale / 4 in [-scale, scale]
  kOneHot,        // a single 1 in each row of the last dimension: shows index errors
  kNanPlant,      // kNormal with a NaN at one element
  kInfPlant,      // kNormal with an infinity at one element
};
std::string_view fill_text(FillKind kind);
llvm::ArrayRef<FillKind> all_fills();

struct Fill {
  FillKind kind = FillKind::kNormal;
  u64 seed = 0;
  double scale = 1;
  i64 bound = 2;
};

// Writes every element of `type` (no symbolic dimension; its strides) into `buffer`, rounded to the
// dtype, and `poison` into all other bytes. `buffer` holds span_elements(type) elements or more.
void fill_tensor(const TensorType& type, llvm::MutableArrayRef<std::byte> buffer, const Fill& fill,
                 u8 poison = 0xff);

// The largest bound, 1 to 2, that keeps sums of `terms` products of two such integers exact in f32:
// terms * bound^2 <= 2^24. (Beyond 2^24 terms, 1.)
i64 exact_integer_bound(i64 terms);

// The size that parameter `ends` partitions, or nothing if it does not hold ragged ends.
// `symbol` is the chain's size, if it has one.
std::optional<i64> ragged_size(const VerifiedChain& chain, ValueId ends, i64 symbol);

// Ragged ends: ascending, in [0, rows], some groups empty; most often the last is `rows`.
void fill_ends(llvm::MutableArrayRef<i32> ends, i64 rows, u64 seed);

// Host data for each parameter of a chain. Owns the memory that `inputs` points to.
struct ChainData {
  ChainData() = default;
  ChainData(ChainData&&) = default;
  ChainData& operator=(ChainData&&) = default;

  std::vector<std::vector<std::byte>> buffers;  // one per parameter
  ReferenceInputs inputs;
};

// Fills every parameter: tensors by `kind` (a weight that a contraction reads is scaled by
// 1/sqrt(terms) for kinds with a scale), ragged ends by fill_ends, scalars by a small nonzero
// number. kNanPlant and kInfPlant change the first tensor only. `symbol` is the
// chain's size, if it has one. Exact integers are bounded by the chain's largest contraction.
ChainData fill_chain(const VerifiedChain& chain, i64 symbol, FillKind kind, u64 seed,
                     u8 poison = 0xff);

}  // namespace catenary
