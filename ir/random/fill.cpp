// SPDX-License-Identifier: Apache-2.0
#include "ir/random/fill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/random/random.h"
#include "ir/reference/reference_program.h"

namespace catenary {
namespace {

constexpr FillKind kFills[] = {FillKind::kExactInteger, FillKind::kNormal, FillKind::kPositive,
                               FillKind::kSparse,       FillKind::kOneHot, FillKind::kNanPlant,
                               FillKind::kInfPlant};

// Eight uniform 16-bit numbers have a sum of mean 8 * 65535 / 2 and variance 8 * (2^32 - 1) / 12.
double normal(Random& random) {
  i64 sum = 0;
  for (int draw = 0; draw < 2; ++draw) {
    const u64 bits = random.next();
    for (int i = 0; i < 4; ++i) sum += static_cast<i64>(bits >> (16 * i) & 0xffff);
  }
  constexpr double kInverseDeviation = 1.0 / 53509.92;
  return static_cast<double>(sum - 4 * 65535) * kInverseDeviation;
}

double element(const Fill& fill, i64 index, i64 row_size, i64 planted) {
  Random random(fill.seed + mix64(static_cast<u64>(index)));
  switch (fill.kind) {
    case FillKind::kExactInteger:
      return static_cast<double>(random.range(-fill.bound, fill.bound));
    case FillKind::kNormal:
      return fill.scale * normal(random);
    case FillKind::kPositive:
      return fill.scale * static_cast<double>(random.range(1, 1 << 20)) * 0x1p-20;
    case FillKind::kSparse:
      return random.chance(75) ? 0 : fill.scale * static_cast<double>(random.range(-4, 4)) / 4;
    case FillKind::kOneHot: {
      Random row(fill.seed + mix64(static_cast<u64>(index / row_size)));
      return row.range(0, row_size - 1) == index % row_size ? 1 : 0;
    }
    case FillKind::kNanPlant:
      return index == planted ? std::numeric_limits<double>::quiet_NaN()
                              : fill.scale * normal(random);
    case FillKind::kInfPlant:
      return index == planted ? std::copysign(std::numeric_limits<double>::infinity(),
                                              random.chance(50) ? -1.0 : 1.0)
                              : fill.scale * normal(random);
  }
  return 0;
}

// An element of a quantised tensor: any value of 4 bits; of 8 bits any that leaves sums of integers
// exact, or any.
double integer(DType dtype, const Fill& fill, i64 index) {
  Random random(fill.seed + mix64(static_cast<u64>(index)));
  if (dtype == DType::kU4) return static_cast<double>(random.range(0, 15));
  if (dtype == DType::kI4) return static_cast<double>(random.range(-8, 7));
  const i64 bound = fill.kind == FillKind::kExactInteger ? 8 * fill.bound : 127;
  return static_cast<double>(random.range(-bound, bound));
}

// Never 0, which would hide errors in what it scales.
double scalar(const Fill& fill) {
  Random random(fill.seed);
  const double magnitude = fill.kind == FillKind::kExactInteger
                               ? static_cast<double>(random.range(1, fill.bound))
                               : static_cast<double>(random.range(1, 16)) / 8;
  return random.chance(30) ? -magnitude : magnitude;
}

// Per parameter: the K size of the largest contraction that reads it (0: none).
std::vector<i64> contraction_terms(const VerifiedChain& chain, i64 symbol) {
  std::vector<i64> terms(chain.num_values(), 0);
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    const auto& contraction = chain.info(id).contraction;
    if (!contraction) continue;
    i64 count = 1;
    for (const ContractionLabel& label : contraction->k) {
      count *= label.size.symbolic ? symbol : label.size.size;
    }
    for (const Use& use : chain.value(id).operands) {
      terms[use.value] = std::max(terms[use.value], count);
    }
  }
  return terms;
}

}  // namespace

std::string_view fill_text(FillKind kind) {
  switch (kind) {
    case FillKind::kExactInteger:
      return "exact_integer";
    case FillKind::kNormal:
      return "normal";
    case FillKind::kPositive:
      return "positive";
    case FillKind::kSparse:
      return "sparse";
    case FillKind::kOneHot:
      return "one_hot";
    case FillKind::kNanPlant:
      return "nan_plant";
    case FillKind::kInfPlant:
      return "inf_plant";
  }
  return "";
}

llvm::ArrayRef<FillKind> all_fills() { return kFills; }

std::optional<i64> ragged_size(const VerifiedChain& chain, ValueId ends, i64 symbol) {
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    const auto& ragged = chain.value(id).ragged;
    if (!ragged || ragged->ends != ends) continue;
    const Dim divided = ragged_dim(chain, id);
    return divided.symbolic ? symbol : divided.size;
  }
  return std::nullopt;
}

void fill_tensor(const TensorType& type, llvm::MutableArrayRef<std::byte> buffer, const Fill& fill,
                 u8 poison) {
  std::fill(buffer.begin(), buffer.end(), static_cast<std::byte>(poison));
  const i64 count = num_elements(type);
  if (count == 0) return;
  TensorType laid_out = type;
  if (type.strides.empty()) laid_out.strides = contiguous_strides(type.shape);
  const i64 row_size = type.rank() == 0 ? 1 : type.shape.back().size;
  const i64 planted = Random(fill.seed).range(0, count - 1);
  llvm::SmallVector<i64, 4> at(type.rank(), 0);
  for (i64 i = 0; i < count; ++i) {
    const double value = dtype_info(type.dtype).kind == DTypeKind::kInteger
                             ? integer(type.dtype, fill, i)
                             : element(fill, i, row_size, planted);
    store_element(type.dtype, buffer.data(), element_index(laid_out, at), value);
    advance(type.shape, at);
  }
}

i64 exact_integer_bound(i64 terms) { return terms <= (i64{1} << 22) ? 2 : 1; }

void fill_ends(llvm::MutableArrayRef<i32> ends, i64 rows, u64 seed) {
  Random random(seed);
  for (i32& end : ends) end = static_cast<i32>(random.range(0, rows));
  // A repeated end is an empty group.
  for (size_t g = 1; g < ends.size(); ++g) {
    if (random.chance(25)) ends[g] = ends[g - 1];
  }
  std::sort(ends.begin(), ends.end());
  if (!ends.empty() && random.chance(75)) ends.back() = static_cast<i32>(rows);
}

ChainData fill_chain(const VerifiedChain& chain, i64 symbol, FillKind kind, u64 seed, u8 poison) {
  ChainData data;
  data.inputs.symbol = symbol;
  const std::vector<i64> terms = contraction_terms(chain, symbol);
  const i64 most_terms = terms.empty() ? 0 : *std::max_element(terms.begin(), terms.end());
  bool planted = false;
  for (ValueId id : chain.parameters()) {
    HostTensor tensor;
    tensor.type = with_symbol(chain.info(id).type, symbol);
    const size_t bytes = static_cast<size_t>(span_bytes(tensor.type));
    std::vector<std::byte>& buffer = data.buffers.emplace_back(bytes);
    Fill fill{kind, seed + mix64(static_cast<u64>(id) + 1), 1, exact_integer_bound(most_terms)};
    const bool plant = kind == FillKind::kNanPlant || kind == FillKind::kInfPlant;
    const Role role = chain.value(id).role;
    if (plant && (planted || role == Role::kScalar)) fill.kind = FillKind::kNormal;
    if (role == Role::kWeight && terms[id] > 0) fill.scale = 1 / std::sqrt(terms[id]);
    if (const auto rows = ragged_size(chain, id, symbol)) {
      std::vector<i32> ends(static_cast<size_t>(num_elements(tensor.type)));
      fill_ends(ends, *rows, fill.seed);
      if (!ends.empty()) std::memcpy(buffer.data(), ends.data(), bytes);
    } else if (role == Role::kScalar) {
      store_element(DType::kF32, buffer.data(), 0, scalar(fill));
    } else {
      planted |= fill.kind == kind && plant;
      fill_tensor(tensor.type, buffer, fill, poison);
    }
    tensor.data = buffer.data();
    data.inputs.parameters.push_back(std::move(tensor));
  }
  return data;
}

}  // namespace catenary
