// SPDX-License-Identifier: Apache-2.0
#include "tuner/check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/random/random.h"
#include "ir/reference/reference_program.h"

namespace catenary::tuner {
namespace {

// The sampled elements of copy 0, packed.
Expected<std::vector<std::byte>> gather(const Samples& samples, const TensorArena& output) {
  const i64 width = dtype_bytes(samples.type.dtype);
  std::vector<std::byte> packed(samples.indices.size() * static_cast<size_t>(width));
  llvm::SmallVector<i64, 4> at;
  for (size_t i = 0; i < samples.indices.size(); ++i) {
    unravel(samples.indices[i], samples.type.shape, at);
    i64 offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * samples.type.strides[d];
    if (Error error = output.buffer.download(packed.data() + i * static_cast<size_t>(width), width,
                                             offset * width)) {
      return error;
    }
  }
  return packed;
}

// Does a contraction read a computed value? Then an element needs whole rows of it, and evaluating
// all elements at once, on all cores, is faster than sample by sample. A dequantised parameter is
// as cheap as a stored one.
bool sums_computed_values(const VerifiedChain& chain) {
  for (const Value& value : chain.chain().values) {
    if (value.op != Op::kContract) continue;
    for (const Use& use : value.operands) {
      const Op op = chain.value(use.value).op;
      if (op != Op::kParameter && op != Op::kDequant) return true;
    }
  }
  return false;
}

Samples samples_of(const VerifiedChain& chain, size_t output, const Reference& reference,
                   llvm::ArrayRef<std::vector<Interval>> whole, int count, u64 seed) {
  Samples samples;
  samples.output = output_names(chain)[output];
  samples.type = chain.output_type(static_cast<int>(output));
  samples.indices = sample_indices(samples.type, count, seed);
  if (whole.empty()) {
    samples.expected = reference.output_elements(static_cast<int>(output), samples.indices);
    return samples;
  }
  for (const i64 index : samples.indices) samples.expected.push_back(whole[output][index]);
  return samples;
}

Expected<CompareResult> compare_output(const Samples& samples, const TensorArena& output) {
  auto packed = gather(samples, output);
  if (!packed) return packed.takeError();
  TensorType type;
  type.dtype = samples.type.dtype;
  type.shape = {Dim{static_cast<i64>(samples.indices.size()), false}};
  CompareResult result = compare(type, packed->data(), samples.expected);
  // Coordinates of the output instead of the sample's number.
  for (auto* mismatch : {&result.first, &result.worst}) {
    if (!*mismatch) continue;
    (*mismatch)->index = samples.indices[(*mismatch)->index];
    unravel((*mismatch)->index, samples.type.shape, (*mismatch)->at);
  }
  return result;
}

Expected<double> distance_of_output(const Samples& samples, const TensorArena& output) {
  auto packed = gather(samples, output);
  if (!packed) return packed.takeError();
  double squares = 0;
  double worst = 0;
  for (size_t i = 0; i < samples.expected.size(); ++i) {
    const double want = samples.expected[i].value;
    const double got = load_element(samples.type.dtype, packed->data(), static_cast<i64>(i));
    if (!std::isfinite(got)) return std::numeric_limits<double>::infinity();
    squares += want * want;
    worst = std::max(worst, std::fabs(got - want));
  }
  if (squares == 0) return worst;
  return worst / std::sqrt(squares / static_cast<double>(samples.expected.size()));
}

}  // namespace

std::vector<i64> sample_indices(const TensorType& type, int count, u64 seed) {
  const i64 total = num_elements(type);
  std::vector<i64> indices;
  if (total == 0) return indices;
  const i64 columns = type.rank() >= 1 ? type.shape[type.rank() - 1].size : 1;
  const i64 rows = type.rank() >= 2 ? type.shape[type.rank() - 2].size : 1;
  const i64 matrix = rows * columns;
  for (const i64 base : {i64{0}, total - matrix}) {
    for (const i64 corner : {i64{0}, columns - 1, matrix - columns, matrix - 1}) {
      indices.push_back(base + corner);
    }
  }
  Random random(seed);
  const i64 stretches = std::min<i64>(count, total);
  for (i64 s = 0; s < stretches; ++s) {
    indices.push_back(random.range(s * total / stretches, (s + 1) * total / stretches - 1));
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

Expected<std::vector<Samples>> sample_reference(const VerifiedChain& chain, const Tensors& tensors,
                                                int count, u64 seed) {
  ReferenceInputs inputs;
  for (ValueId id : chain.parameters()) {
    const auto found = tensors.find(chain.value(id).name);
    if (found == tensors.end() || found->second.contents().empty()) {
      return make_error(ErrorCode::kInternal, "no host data for parameter '{}'",
                        chain.value(id).name);
    }
    inputs.parameters.push_back({found->second.type, found->second.contents().data()});
  }
  Expected<Reference> reference = Reference::create(chain, inputs);
  if (!reference) return reference.takeError();
  std::vector<std::vector<Interval>> whole;
  if (sums_computed_values(chain)) whole = reference->evaluate();
  std::vector<Samples> samples;
  for (size_t i = 0; i < chain.chain().outputs.size(); ++i) {
    samples.push_back(samples_of(chain, i, *reference, whole, count, seed));
  }
  return samples;
}

Expected<CompareResult> compare_samples(llvm::ArrayRef<Samples> samples, const Tensors& tensors) {
  std::optional<CompareResult> all;
  for (const Samples& one : samples) {
    auto result = compare_output(one, tensors.at(one.output));
    if (!result || !result->ok()) return result;
    if (!all) {
      all = std::move(*result);
      continue;
    }
    all->checked += result->checked;
    all->exact += result->exact;
    if (result->worst_ratio > all->worst_ratio) {
      all->worst_ratio = result->worst_ratio;
      all->worst = result->worst;
    }
  }
  return all ? std::move(*all) : CompareResult();
}

Expected<double> coarse_distance(llvm::ArrayRef<Samples> samples, const Tensors& tensors) {
  double worst = 0;
  for (const Samples& one : samples) {
    auto distance = distance_of_output(one, tensors.at(one.output));
    if (!distance) return distance;
    worst = std::max(worst, *distance);
  }
  return worst;
}

}  // namespace catenary::tuner
