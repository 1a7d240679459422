// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/sweep_gemm.h"

#include <algorithm>

#include "bench/measure/run_case.h"
#include "bench/measure/shared_arena.h"
#include "ir/parallel.h"
#include "ir/text/text.h"

namespace catenary::bench {
namespace {

TensorType batched(const GemmShape& s, i64 rows, i64 columns) {
  if (s.batch > 1) return bf16_tensor({s.batch, rows, columns});
  return bf16_tensor({rows, columns});
}

i64 left_bytes(const GemmShape& s) { return copy_bytes(batched(s, s.m, s.k)); }
i64 right_bytes(const GemmShape& s) { return copy_bytes(batched(s, s.n, s.k)); }
int num_weights(const GemmShape& s) { return s.gated ? 2 : 1; }

// Inputs and weights of a rotation are more than twice the L2, where so many launches can be.
int rotation(const GemmShape& s, i64 l2_bytes, int most) {
  const i64 bytes = left_bytes(s) + num_weights(s) * right_bytes(s);
  return static_cast<int>(std::clamp<i64>(2 * l2_bytes / bytes + 1, 2, most));
}

struct Candidate {
  TileRow row;
  int shape = 0;
  std::shared_ptr<const CompiledChain> compiled;
};

class GemmSweep {
 public:
  GemmSweep(const Session& session, llvm::ArrayRef<GemmShape> shapes,
            const GemmSweepOptions& options)
      : session_(session), shapes_(shapes), options_(options), notes_(shapes.size()) {}

  Error fill(RandomPool& pool);
  // Plans every shape, lists and compiles its candidates.
  size_t compile();
  // Verifies and times shape `i`. An error is a broken context.
  Expected<GemmSweepRow> run(int i);

 private:
  std::vector<Candidate> list(int i, std::string& note) const;
  void compile(Candidate& candidate) const;
  Error fill_row(int i, llvm::MutableArrayRef<Candidate> candidates, GemmSweepRow& row) const;
  Expected<Tensors> tensors(const GemmShape& s, int copies) const;
  Expected<std::optional<Contender>> ready(Candidate& candidate, const Tensors& tensors,
                                           const Samples& samples, int copies) const;

  const Session& session_;
  llvm::ArrayRef<GemmShape> shapes_;
  const GemmSweepOptions& options_;
  SharedArena left_, right_;
  std::vector<std::string> notes_;     // why a shape has no plan
  std::vector<Candidate> candidates_;  // those of a shape side by side
};

Error GemmSweep::fill(RandomPool& pool) {
  const i64 l2 = session_.info().target.l2_bytes;
  i64 left = 0, right = 0, most_left = 0, most_right = 0;
  for (const GemmShape& s : shapes_) {
    const int copies = rotation(s, l2, options_.max_copies);
    left = std::max(left, left_bytes(s));
    right = std::max(right, right_bytes(s));
    most_left = std::max(most_left, copies * left_bytes(s));
    most_right = std::max(most_right, copies * num_weights(s) * right_bytes(s));
  }
  auto made = SharedArena::make(session_, pool, DType::kBF16, left, most_left, 1, 0);
  if (!made) return made.takeError();
  left_ = std::move(*made);
  // The second weight of a gated pair starts behind all copies of the first.
  made = SharedArena::make(session_, pool, DType::kBF16, 2 * right, most_right + right, 1.0 / 64,
                           16 * 300007);
  if (!made) return made.takeError();
  right_ = std::move(*made);
  return session_.synchronize_context();
}

std::vector<Candidate> GemmSweep::list(int i, std::string& note) const {
  std::vector<Candidate> candidates;
  Expected<Chain> chain = parse(gemm_shape_text(shapes_[i]));
  auto verified = chain ? verify(std::move(*chain)) : Expected<VerifiedChain>(chain.takeError());
  auto plan = verified ? make_plan(*verified, session_.info().target)
                       : Expected<Plan>(verified.takeError());
  if (!plan) {
    note = take_report(plan.takeError()).message;
    return candidates;
  }
  const KernelPlan& kernel = plan->buckets.front().kernels.front();
  for (const TileOption& tile : tiles_to_time(kernel.tiles, shapes_[i], options_)) {
    Candidate candidate;
    candidate.shape = i;
    candidate.row.tile = tile.name;
    candidate.row.split_k = tile.split_k;
    candidate.row.predicted_us = tile.us;
    candidate.row.chosen = tile.chosen;
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

void GemmSweep::compile(Candidate& candidate) const {
  PlanOptions options;
  options.force_tile = candidate.row.tile;
  options.split_k = candidate.row.split_k;
  Engine engine(engine_options(session_, options));
  Expected<Chain> chain = parse(gemm_shape_text(shapes_[candidate.shape]));
  auto compiled = chain ? engine.compile(std::move(*chain), session_.info().target)
                        : Expected<std::shared_ptr<const CompiledChain>>(chain.takeError());
  if (!compiled) {
    candidate.row.note = take_report(compiled.takeError()).message;
    candidate.row.note = candidate.row.note.substr(0, candidate.row.note.find('\n'));
    return;
  }
  candidate.compiled = std::move(*compiled);
  candidate.row.registers = candidate.compiled->buckets[0][0].cubin->resources.registers;
}

size_t GemmSweep::compile() {
  std::vector<std::vector<Candidate>> lists(shapes_.size());
  const i64 count = static_cast<i64>(shapes_.size());
  parallel_for(count, 0, [&](i64 i) { lists[i] = list(static_cast<int>(i), notes_[i]); });
  for (std::vector<Candidate>& one : lists) {
    for (Candidate& candidate : one) candidates_.push_back(std::move(candidate));
  }
  parallel_for(static_cast<i64>(candidates_.size()), 0, [&](i64 i) { compile(candidates_[i]); });
  return candidates_.size();
}

Expected<Tensors> GemmSweep::tensors(const GemmShape& s, int copies) const {
  Tensors tensors;
  tensors["x"] = left_.view(batched(s, s.m, s.k));
  const TensorArena weight = right_.view(batched(s, s.n, s.k));
  for (const char* name : {"w", "wg", "wu"}) {
    TensorArena& view = tensors[name];
    view.type = weight.type;
    view.copy_bytes = weight.copy_bytes;
    view.borrowed = weight.borrowed;
    view.borrowed_host = weight.borrowed_host;
  }
  if (s.gated) {
    // Pairs side by side: copy i is weights 2 i and 2 i + 1.
    TensorArena& up = tensors["wu"];
    up.borrowed += static_cast<u64>(up.copy_bytes);
    up.borrowed_host = up.borrowed_host.drop_front(static_cast<size_t>(up.copy_bytes));
    tensors["wg"].copy_bytes *= 2;
    up.copy_bytes *= 2;
  }
  Expected<TensorArena> output = make_arena(batched(s, s.m, s.n), copies);
  if (!output) return output.takeError();
  tensors["y"] = std::move(*output);
  return tensors;
}

// Loads and checks one candidate. Nothing, with a note, when it is wrong or cannot be loaded.
Expected<std::optional<Contender>> GemmSweep::ready(Candidate& candidate, const Tensors& tensors,
                                                    const Samples& samples, int copies) const {
  Engine engine(engine_options(session_));
  auto bound = BoundChain::load(session_, engine, candidate.compiled, tensors, copies);
  if (!bound) {
    candidate.row.note = take_report(bound.takeError()).message;
    return std::nullopt;
  }
  Contender made = contender(candidate.row.tile, std::move(*bound));
  if (Error error = run_poisoned(session_, tensors.at("y"), made)) return error;
  Expected<CompareResult> result = compare_samples(samples, tensors.at("y"));
  if (!result) return result.takeError();
  if (result->ok() && result->checked > 0) return made;
  candidate.row.note = "WRONG: " + to_string(*result);
  return std::nullopt;
}

Error GemmSweep::fill_row(int i, llvm::MutableArrayRef<Candidate> candidates,
                          GemmSweepRow& row) const {
  const GemmShape& s = shapes_[i];
  const int copies = rotation(s, session_.info().target.l2_bytes, options_.max_copies);
  Expected<Tensors> tensors = this->tensors(s, copies);
  if (!tensors) return tensors.takeError();
  std::optional<Samples> samples;
  std::vector<Contender> contenders;
  std::vector<Candidate*> timed;
  for (Candidate& candidate : candidates) {
    if (!candidate.compiled) continue;
    if (!samples) {
      auto drawn =
          sample_reference(candidate.compiled->chain, *tensors, options_.samples, options_.seed);
      if (!drawn) return drawn.takeError();
      samples = std::move(*drawn);
    }
    auto made = ready(candidate, *tensors, *samples, copies);
    if (!made) return made.takeError();
    if (!*made) continue;
    row.verified = row.verified || candidate.row.chosen;
    contenders.push_back(std::move(**made));
    timed.push_back(&candidate);
  }
  if (contenders.empty()) return Error::success();
  TimingOptions timing = options_.timing;
  timing.copies = copies;
  timing.graph_launches = std::max(copies, 16);
  auto timings = time_contenders(session_, contenders, timing);
  if (!timings) return timings.takeError();
  for (size_t t = 0; t < timed.size(); ++t) timed[t]->row.us = (*timings)[t].us.median;
  return Error::success();
}

Expected<GemmSweepRow> GemmSweep::run(int i) {
  GemmSweepRow row;
  row.shape = shapes_[i];
  row.note = notes_[i];
  const auto begin = llvm::find_if(candidates_, [&](const Candidate& c) { return c.shape == i; });
  const auto end =
      std::find_if(begin, candidates_.end(), [&](const Candidate& c) { return c.shape != i; });
  const llvm::MutableArrayRef<Candidate> own(candidates_.data() + (begin - candidates_.begin()),
                                             static_cast<size_t>(end - begin));
  if (Error error = fill_row(i, own, row)) {
    ErrorReport report = take_report(std::move(error));
    if (report.code == ErrorCode::kContextPoisoned) {
      return make_error_text(report.code, report.message);
    }
    row.note = std::move(report.message);
  }
  for (Candidate& candidate : own) {
    candidate.compiled = nullptr;
    row.tiles.push_back(std::move(candidate.row));
  }
  return row;
}

}  // namespace

Error run_gemm_sweep(const Session& session, RandomPool& pool, llvm::ArrayRef<GemmShape> shapes,
                     const GemmSweepOptions& options,
                     const std::function<void(size_t candidates)>& compiled,
                     const std::function<Error(GemmSweepRow row)>& done) {
  GemmSweep sweep(session, shapes, options);
  if (Error error = sweep.fill(pool)) return error;
  compiled(sweep.compile());
  for (size_t i = 0; i < shapes.size(); ++i) {
    Expected<GemmSweepRow> row = sweep.run(static_cast<int>(i));
    if (!row) return row.takeError();
    if (Error error = done(std::move(*row))) return error;
  }
  return Error::success();
}

}  // namespace catenary::bench
