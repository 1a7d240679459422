// SPDX-License-Identifier: Apache-2.0
#include "tools/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "ir/parallel.h"
#include "ir/random/random.h"
#include "tools/progress.h"

namespace catenary::tools {
namespace {

constexpr double kFullWork = 2e9;
constexpr double kElementwiseWeight = 16;  // of one elementwise op, in multiply-adds
constexpr i64 kDefaultSamples = 16384;
constexpr std::chrono::seconds kSampleTime{10};

double size_of(const Dim& dim, i64 symbol) {
  return static_cast<double>(dim.symbolic ? symbol : dim.size);
}

// Row-major indices of the samples, by row (all dimensions but the last): several columns of each
// row, because the elements of a row share most of the reference's work.
std::vector<std::vector<i64>> sample_rows(const TensorType& type, i64 samples, u64 seed) {
  const i64 elements = num_elements(type);
  std::vector<std::vector<i64>> rows;
  if (elements == 0) return rows;
  const i64 columns = type.rank() == 0 ? 1 : type.shape.back().size;
  const i64 all_rows = elements / columns;
  const auto side = static_cast<i64>(std::sqrt(static_cast<double>(samples)));
  const i64 few_columns = std::clamp<i64>(side, 1, columns);
  const i64 num_rows = std::clamp<i64>(samples / few_columns, 1, all_rows);
  const i64 num_columns = std::clamp<i64>(samples / num_rows, 1, columns);
  Random random(seed);
  // An index in each of `count` equal parts of [0, size); the first is 0, the last is size - 1.
  const auto spread = [&](i64 i, i64 count, i64 size) {
    if (i == 0) return i64{0};
    if (i == count - 1) return size - 1;
    const auto wide = static_cast<__int128>(size);
    const auto lo = static_cast<i64>(wide * i / count);
    return random.range(lo, std::max(lo, static_cast<i64>(wide * (i + 1) / count) - 1));
  };
  for (i64 r = 0; r < num_rows; ++r) {
    const i64 row = spread(r, num_rows, all_rows);
    std::vector<i64>& indices = rows.emplace_back();
    for (i64 c = 0; c < num_columns; ++c) {
      indices.push_back(row * columns + spread(c, num_columns, columns));
    }
  }
  // In random order, so that a run that exceeds its time has samples of all parts.
  for (size_t i = rows.size(); i > 2; --i) {
    std::swap(rows[i - 1], rows[random.range(0, static_cast<i64>(i) - 1)]);
  }
  return rows;
}

struct SampleJob {
  const VerifiedChain& chain;
  const ReferenceInputs& inputs;
  int output = 0;
  bool timed = false;
  std::chrono::steady_clock::time_point deadline;
};

// Every thread has a Reference of its own: a Reference caches values and is not thread-safe.
Expected<Expectation> sample(const SampleJob& job, std::vector<std::vector<i64>> rows,
                             Progress& progress) {
  const i64 threads = std::clamp<i64>(std::thread::hardware_concurrency(), 1,
                                      std::max<i64>(static_cast<i64>(rows.size()), 1));
  std::vector<Reference> references;
  for (i64 t = 0; t < threads; ++t) {
    Expected<Reference> reference = Reference::create(job.chain, job.inputs);
    if (!reference) return reference.takeError();
    references.push_back(std::move(*reference));
  }
  std::vector<std::vector<Interval>> values(rows.size());
  parallel_for(threads, static_cast<int>(threads), [&](i64 t) {
    for (size_t r = static_cast<size_t>(t); r < rows.size(); r += static_cast<size_t>(threads)) {
      for (i64 index : rows[r]) {
        // Each thread evaluates at least one element.
        const bool first = r == static_cast<size_t>(t) && values[r].empty();
        if (job.timed && !first && std::chrono::steady_clock::now() > job.deadline) return;
        values[r].push_back(references[t].output_element(job.output, index));
        progress.advance();
      }
    }
  });
  Expectation expectation;
  for (size_t r = 0; r < rows.size(); ++r) {
    rows[r].resize(values[r].size());
    expectation.indices.insert(expectation.indices.end(), rows[r].begin(), rows[r].end());
    expectation.values.insert(expectation.values.end(), values[r].begin(), values[r].end());
  }
  return expectation;
}

Expected<std::vector<Expectation>> evaluate_all(const VerifiedChain& chain,
                                                const ReferenceInputs& inputs) {
  Expected<Reference> reference = Reference::create(chain, inputs);
  if (!reference) return reference.takeError();
  const Progress progress("evaluating the reference");
  std::vector<Expectation> expectations;
  for (std::vector<Interval>& values : reference->evaluate()) {
    expectations.push_back({{}, std::move(values)});
  }
  return expectations;
}

}  // namespace

double reference_work(const VerifiedChain& chain, i64 symbol) {
  double work = 0;
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    const Op op = chain.value(id).op;
    if (op == Op::kParameter || op == Op::kConstant) continue;
    const auto& contraction = chain.info(id).contraction;
    double per_element = contraction ? 1 : kElementwiseWeight;
    if (contraction) {
      for (const ContractionLabel& label : contraction->k)
        per_element *= size_of(label.size, symbol);
    }
    const ValueId counted = is_reduction(op) ? chain.value(id).operands[0].value : id;
    for (const Dim& dim : chain.info(counted).type.shape) per_element *= size_of(dim, symbol);
    work += per_element;
  }
  return work;
}

Expected<std::vector<Expectation>> evaluate(const VerifiedChain& chain,
                                            const ReferenceInputs& inputs,
                                            const EvaluateOptions& options) {
  const bool whole =
      options.all || (options.samples == 0 && reference_work(chain, inputs.symbol) <= kFullWork);
  if (whole) return evaluate_all(chain, inputs);
  const i64 samples = options.samples > 0 ? options.samples : kDefaultSamples;
  std::vector<std::vector<std::vector<i64>>> places;
  i64 total = 0;
  for (size_t i = 0; i < chain.chain().outputs.size(); ++i) {
    const TensorType type = with_symbol(chain.output_type(static_cast<int>(i)), inputs.symbol);
    places.push_back(sample_rows(type, samples, options.seed + i));
    for (const auto& row : places.back()) total += static_cast<i64>(row.size());
  }
  const bool timed = options.samples == 0;
  Progress progress("evaluating samples by the reference", total, timed ? kSampleTime.count() : 0);
  std::vector<Expectation> expectations;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto share = kSampleTime / static_cast<i64>(places.size());
    const SampleJob job{chain, inputs, static_cast<int>(i), timed,
                        std::chrono::steady_clock::now() + share};
    Expected<Expectation> expectation = sample(job, std::move(places[i]), progress);
    if (!expectation) return expectation.takeError();
    expectations.push_back(std::move(*expectation));
  }
  return expectations;
}

}  // namespace catenary::tools
