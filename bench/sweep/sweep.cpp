// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/sweep.h"

#include <algorithm>

#include "bench/cases/cases.h"
#include "bench/measure/run_case.h"
#include "bench/measure/shared_arena.h"
#include "ir/parallel.h"
#include "ir/text/text.h"

namespace catenary::bench {
namespace {

constexpr i64 kRows[] = {1, 2, 3, 4, 8, 16, 17, 32, 48, 64};
constexpr i64 kSizes[] = {512, 1024, 2048, 4096, 7168, 8192, 14336, 28672};
TensorType matrix(i64 rows, i64 columns) { return bf16_tensor({rows, columns}); }

i64 weight_bytes(const SweepShape& s) { return copy_bytes(matrix(s.n, s.k)); }

// One shape, compiled or refused.
struct Shape {
  SweepShape at;
  std::shared_ptr<const CompiledChain> compiled;
  std::string error;
};

// What one shape runs on, and what its output should be.
struct Bench {
  int copies = 0;
  Tensors tensors;
  Samples samples;
  const TensorArena& output() const { return tensors.at("y"); }
};

class Sweep {
 public:
  Sweep(const Session& session, const CublasLt* lt, const SweepOptions& options)
      : session_(session), lt_(lt), options_(options) {}

  Error fill(RandomPool& pool, llvm::ArrayRef<SweepShape> shapes);
  void compile(llvm::ArrayRef<SweepShape> shapes);
  size_t size() const { return shapes_.size(); }
  // Verifies and times shape `i`. An error is a broken context.
  Expected<SweepRow> run(size_t i);

 private:
  Error fill_row(const Shape& shape, SweepRow& row) const;
  Expected<Bench> set_up(const Shape& shape) const;
  // Ours, plain and overlapped; none, with a note, when one is wrong.
  Expected<std::vector<Contender>> ours(const Shape& shape, const Bench& bench,
                                        SweepRow& row) const;
  Expected<Contender> peer(const SweepShape& at, const Bench& bench, SweepRow& row) const;
  Error add_peer(const SweepShape& at, const Bench& bench, SweepRow& row,
                 std::vector<Contender>& contenders) const;
  TimingOptions timing(int copies) const;

  const Session& session_;
  const CublasLt* lt_;
  const SweepOptions& options_;
  SharedArena weights_, inputs_;
  i64 weights_bytes_ = 0;
  std::vector<Shape> shapes_;
};

Error Sweep::fill(RandomPool& pool, llvm::ArrayRef<SweepShape> shapes) {
  const i64 l2 = session_.info().target.l2_bytes;
  weights_bytes_ = sweep_arena_bytes(shapes, l2, options_.max_copies);
  i64 largest = 0;
  i64 inputs = 0;
  i64 rows = 0;
  for (const SweepShape& s : shapes) {
    largest = std::max(largest, weight_bytes(s));
    const i64 copies = sweep_copies(weight_bytes(s), weights_bytes_, options_.max_copies);
    inputs = std::max(inputs, copies * copy_bytes(matrix(s.m, s.k)));
    rows = std::max(rows, copy_bytes(matrix(s.m, s.k)));
  }
  auto weights =
      SharedArena::make(session_, pool, DType::kBF16, largest, weights_bytes_, 1.0 / 64, 0);
  if (!weights) return weights.takeError();
  weights_ = std::move(*weights);
  auto made = SharedArena::make(session_, pool, DType::kBF16, rows, inputs, 1, 16 * 300007);
  if (!made) return made.takeError();
  inputs_ = std::move(*made);
  return session_.synchronize_context();
}

void Sweep::compile(llvm::ArrayRef<SweepShape> shapes) {
  for (const SweepShape& at : shapes) shapes_.push_back({at, nullptr, ""});
  Engine engine(engine_options(session_));
  parallel_for(static_cast<i64>(shapes_.size()), 0, [&](i64 i) {
    Shape& shape = shapes_[i];
    Expected<Chain> chain = parse(linear_text(shape.at.m, shape.at.n, shape.at.k));
    auto compiled = chain ? engine.compile(std::move(*chain), session_.info().target)
                          : Expected<std::shared_ptr<const CompiledChain>>(chain.takeError());
    if (compiled) {
      shape.compiled = std::move(*compiled);
    } else {
      shape.error = take_report(compiled.takeError()).message;
    }
  });
}

TimingOptions Sweep::timing(int copies) const {
  TimingOptions timing = options_.timing;
  timing.copies = copies;
  // A graph goes through the whole rotation.
  timing.graph_launches = std::max(timing.graph_launches, copies);
  return timing;
}

Expected<Bench> Sweep::set_up(const Shape& shape) const {
  const SweepShape& at = shape.at;
  Bench bench;
  bench.copies = sweep_copies(weight_bytes(at), weights_bytes_, options_.max_copies);
  bench.tensors["w"] = weights_.view(matrix(at.n, at.k));
  bench.tensors["x"] = inputs_.view(matrix(at.m, at.k));
  Expected<TensorArena> output = make_arena(matrix(at.m, at.n), bench.copies);
  if (!output) return output.takeError();
  bench.tensors["y"] = std::move(*output);
  Expected<Samples> samples =
      sample_reference(shape.compiled->chain, bench.tensors, options_.samples, options_.seed);
  if (!samples) return samples.takeError();
  bench.samples = std::move(*samples);
  return bench;
}

Expected<std::vector<Contender>> Sweep::ours(const Shape& shape, const Bench& bench,
                                             SweepRow& row) const {
  Engine engine(engine_options(session_));
  auto bound = BoundChain::load(session_, engine, shape.compiled, bench.tensors, bench.copies);
  if (!bound) return bound.takeError();
  row.config = fmt::format("{} {}", plan_family((*bound)->plan()), config_text((*bound)->plan()));
  std::vector<Contender> contenders = {contender("plain", *bound),
                                       contender("overlapped", *bound, true)};
  // The overlapped one behind a launch that it may overlap.
  const Contender both{"overlapped", [&](int copy) -> Error {
                         if (Error error = contenders[1].launch(copy + 1)) return error;
                         return contenders[1].launch(copy);
                       }};
  for (const Contender* one : std::initializer_list<const Contender*>{&contenders[0], &both}) {
    if (Error error = run_poisoned(session_, bench.output(), *one)) return error;
    Expected<CompareResult> result = compare_samples(bench.samples, bench.output());
    if (!result) return result.takeError();
    if (result->ok() && result->checked > 0) continue;
    row.note = fmt::format("WRONG, {}: {}", one->name, to_string(*result));
    return std::vector<Contender>();
  }
  return contenders;
}

Expected<Contender> Sweep::peer(const SweepShape& at, const Bench& bench, SweepRow& row) const {
  Peer peer;
  peer.name = "cuBLASLt";
  peer.steps = {PeerProduct{dense_problem(DType::kBF16, at.m, at.n, at.k), "x", "w", "y", ""}};
  PeerOptions options;
  options.algorithms = options_.algorithms;
  options.timing = timing(bench.copies);
  options.timing.rounds = std::min(options.timing.rounds, 3);
  options.timing.batch_us /= 2;
  Expected<ReadyPeer> ready = make_peer(session_, *lt_, peer, bench.tensors, bench.copies, options);
  if (!ready) return ready.takeError();
  row.peer_config = ready->config;
  if (Error error = run_poisoned(session_, bench.output(), ready->contender)) return error;
  Expected<double> distance = coarse_distance(bench.samples, bench.output());
  if (!distance) return distance.takeError();
  if (*distance <= kCoarseLimit) return std::move(ready->contender);
  return make_error(ErrorCode::kMismatch,
                    "the peer's result is {:.3g} root mean squares from the reference", *distance);
}

// A shape without a peer is timed alone.
Error Sweep::add_peer(const SweepShape& at, const Bench& bench, SweepRow& row,
                      std::vector<Contender>& contenders) const {
  if (lt_ == nullptr) return Error::success();
  Expected<Contender> made = peer(at, bench, row);
  if (made) {
    contenders.push_back(std::move(*made));
    return Error::success();
  }
  ErrorReport report = take_report(made.takeError());
  if (report.code == ErrorCode::kContextPoisoned) {
    return make_error_text(report.code, report.message);
  }
  row.note = std::move(report.message);
  return Error::success();
}

Error Sweep::fill_row(const Shape& shape, SweepRow& row) const {
  if (!shape.compiled) return make_error_text(ErrorCode::kUnsupported, shape.error);
  Expected<Bench> bench = set_up(shape);
  if (!bench) return bench.takeError();
  auto contenders = ours(shape, *bench, row);
  if (!contenders) return contenders.takeError();
  if (contenders->empty()) return Error::success();
  row.verified = true;
  if (Error error = add_peer(shape.at, *bench, row, *contenders)) return error;
  auto timings = time_contenders(session_, *contenders, timing(bench->copies));
  if (!timings) return timings.takeError();
  row.us = (*timings)[0].us.median;
  row.overlap_us = (*timings)[1].us.median;
  if (timings->size() > 2) row.peer_us = (*timings)[2].us.median;
  return Error::success();
}

Expected<SweepRow> Sweep::run(size_t i) {
  SweepRow row;
  row.shape = shapes_[i].at;
  if (Error error = fill_row(shapes_[i], row)) {
    const ErrorReport report = take_report(std::move(error));
    if (report.code == ErrorCode::kContextPoisoned) {
      return make_error_text(report.code, report.message);
    }
    row.note = report.message;
  }
  shapes_[i].compiled = nullptr;
  return row;
}

}  // namespace

SweepOptions quick_sweep() {
  SweepOptions options;
  options.timing.rounds = 5;
  options.timing.batch_us = 700;
  return options;
}

std::vector<SweepShape> sweep_shapes(int shard, int shards) {
  std::vector<SweepShape> shapes;
  int matrix = 0;
  for (const i64 k : kSizes) {
    for (const i64 n : kSizes) {
      if (matrix++ % shards != shard - 1) continue;
      for (const i64 m : kRows) shapes.push_back({m, n, k});
    }
  }
  return shapes;
}

int sweep_copies(i64 bytes, i64 arena_bytes, int max_copies) {
  return static_cast<int>(std::clamp<i64>(arena_bytes / bytes, 2, max_copies));
}

i64 sweep_arena_bytes(llvm::ArrayRef<SweepShape> shapes, i64 l2_bytes, int max_copies) {
  i64 bytes = 0;
  for (const SweepShape& s : shapes) {
    const i64 wanted = std::clamp<i64>(2 * l2_bytes / weight_bytes(s) + 1, 2, max_copies);
    bytes = std::max(bytes, wanted * weight_bytes(s));
  }
  return bytes;
}

Error run_sweep(const Session& session, const CublasLt* lt, RandomPool& pool,
                llvm::ArrayRef<SweepShape> shapes, const SweepOptions& options,
                const std::function<Error(SweepRow row)>& done) {
  Sweep sweep(session, lt, options);
  if (Error error = sweep.fill(pool, shapes)) return error;
  sweep.compile(shapes);
  for (size_t i = 0; i < sweep.size(); ++i) {
    Expected<SweepRow> row = sweep.run(i);
    if (!row) return row.takeError();
    if (Error error = done(std::move(*row))) return error;
  }
  return Error::success();
}

}  // namespace catenary::bench
