// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/sweep.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "bench/sweep/case_arenas.h"
#include "ir/parallel.h"
#include "ir/text/text.h"
#include "llvm/ADT/ScopeExit.h"

namespace catenary::bench {
namespace {

// A peer of more steps than kLoopSteps is a loop over groups. Each of its GEMMs has a short
// contest, and beyond kManySteps few algorithms.
constexpr size_t kLoopSteps = 3;
constexpr int kLoopLaunches = 8;
constexpr size_t kManySteps = 16;
constexpr int kFewAlgorithms = 4;

struct Prepared {
  const Case* spec = nullptr;
  std::optional<VerifiedChain> chain;
  int copies = 0;
  std::vector<Entrant> entrants;
  std::string note;  // why there is none
};

i64 scratch_bytes(const Peer& peer) {
  i64 bytes = 0;
  for (const PeerScratch& scratch : peer.scratch) bytes += copy_bytes(scratch.type);
  return bytes;
}

class Sweep {
 public:
  Sweep(const Session& session, const CublasLt* lt, llvm::ArrayRef<Case> cases,
        const SweepOptions& options)
      : session_(session), lt_(lt), options_(options), prepared_(cases.size()) {
    for (size_t i = 0; i < cases.size(); ++i) prepared_[i].spec = &cases[i];
  }

  // Verifies every chain, lists its candidates and fills the arenas.
  Error fill(RandomPool& pool);
  // Compiles all candidates, and our kernels in peers.
  void compile(const SweepProgress& progress);
  // An error is a broken context.
  Expected<LayerRow> run(size_t i);

 private:
  Error list(Prepared& prepared) const;
  void compile_tails(const Peer& peer) const;
  TimingOptions timing(const Prepared& prepared, double predicted_us) const;
  Expected<ReadyPeer> ready_peer(const Prepared& prepared, const Peer& spec,
                                 const ContestData& data, const TimingOptions& timing) const;
  Error add_peers(const Prepared& prepared, const ContestData& data, const TimingOptions& timing,
                  std::vector<ReadyPeer>& peers, LayerRow& row) const;
  Error fill_row(Prepared& prepared, LayerRow& row) const;

  const Session& session_;
  const CublasLt* lt_;
  const SweepOptions& options_;
  CaseArenas arenas_;
  std::vector<Prepared> prepared_;
};

Error Sweep::list(Prepared& prepared) const {
  Expected<VerifiedChain> chain = verified_chain(prepared.spec->chain);
  if (!chain) return chain.takeError();
  // The choice is not forced: the engine replaces it if the compiler spills.
  prepared.entrants.emplace_back();
  prepared.entrants[0].candidate.chosen = true;
  prepared.chain = std::move(*chain);
  if (!options_.select) return Error::success();
  // A sweep over candidates judges the cost model, not the table that is made of such sweeps.
  PlanOptions by_model;
  by_model.measured = {};
  prepared.entrants[0].plan = by_model;
  Expected<Plan> plan = make_plan(*prepared.chain, session_.info().target, by_model);
  if (!plan) return plan.takeError();
  const KernelPlan* kernel = contraction_kernel(*plan);
  if (kernel == nullptr) return Error::success();
  for (Candidate& candidate : options_.select(*prepared.spec, list_candidates(*kernel))) {
    if (candidate.chosen) continue;
    Entrant entrant;
    entrant.plan = forced({}, candidate);
    entrant.candidate = std::move(candidate);
    prepared.entrants.push_back(std::move(entrant));
  }
  return Error::success();
}

Error Sweep::fill(RandomPool& pool) {
  parallel_for(static_cast<i64>(prepared_.size()), 0, [&](i64 i) {
    if (Error error = list(prepared_[i])) {
      prepared_[i].note = take_report(std::move(error)).message;
      prepared_[i].entrants.clear();
    }
  });
  for (Prepared& one : prepared_) {
    if (one.entrants.empty()) continue;
    const i64 scratch = scratch_bytes(one.spec->peer) + scratch_bytes(one.spec->second_peer);
    one.copies =
        rotation_of(*one.chain, scratch, session_.info().target.l2_bytes, options_.max_copies);
    arenas_.reserve(*one.chain, one.copies);
  }
  return arenas_.fill(session_, pool);
}

// Our kernels in a peer enter the compile cache, where make_peer finds them.
void Sweep::compile_tails(const Peer& peer) const {
  for (const PeerStep& step : peer.steps) {
    const auto* tail = std::get_if<PeerPointwise>(&step);
    if (tail == nullptr) continue;
    Expected<Chain> chain = parse(tail->chain);
    if (!chain) {
      llvm::consumeError(chain.takeError());
      continue;
    }
    Engine engine(engine_options(session_));
    auto compiled = engine.compile(std::move(*chain), session_.info().target);
    if (!compiled) llvm::consumeError(compiled.takeError());
  }
}

void Sweep::compile(const SweepProgress& progress) {
  std::vector<std::pair<Prepared*, Entrant*>> jobs;
  for (Prepared& one : prepared_) {
    for (Entrant& entrant : one.entrants) jobs.push_back({&one, &entrant});
    if (lt_ != nullptr && !one.entrants.empty()) jobs.push_back({&one, nullptr});
  }
  const auto all = static_cast<i64>(jobs.size());
  std::atomic<i64> done{0};
  parallel_for(all, 0, [&](i64 i) {
    const auto& [prepared, entrant] = jobs[i];
    const auto count = llvm::make_scope_exit([&] { progress(++done, all); });
    if (entrant == nullptr) {
      compile_tails(prepared->spec->peer);
      compile_tails(prepared->spec->second_peer);
      return;
    }
    compile_entrant(session_, prepared->chain->chain(), *entrant);
    if (entrant != &prepared->entrants[0] || !entrant->compiled) return;
    const KernelPlan* kernel = contraction_kernel(entrant->compiled->plan);
    if (kernel == nullptr) return;
    for (const Candidate& candidate : list_candidates(*kernel)) {
      if (candidate.chosen) entrant->candidate = candidate;
    }
  });
}

TimingOptions Sweep::timing(const Prepared& prepared, double predicted_us) const {
  TimingOptions timing = options_.timing;
  timing.copies = prepared.copies;
  const bool loop =
      prepared.spec->peer.steps.size() > kLoopSteps || !prepared.spec->second_peer.steps.empty();
  if (loop || predicted_us < options_.graph_below_us) {
    timing.graph_below_us = std::numeric_limits<double>::infinity();
  }
  // A graph holds whole rotations.
  const double wanted = std::ceil(timing.batch_us / std::max(predicted_us, 1.0));
  const i64 launches =
      static_cast<i64>(std::clamp(wanted, 2.0, static_cast<double>(timing.graph_launches)));
  timing.graph_launches = static_cast<int>(ceil_div(launches, timing.copies) * timing.copies);
  return timing;
}

Expected<ReadyPeer> Sweep::ready_peer(const Prepared& prepared, const Peer& spec,
                                      const ContestData& data, const TimingOptions& timing) const {
  PeerOptions options;
  options.algorithms = options_.algorithms;
  options.timing = timing;
  options.timing.rounds = std::min(timing.rounds, 3);
  options.timing.batch_us = timing.batch_us / 2;
  if (spec.steps.size() > kLoopSteps) {
    options.timing.rounds = std::min(timing.rounds, 2);
    options.timing.graph_launches = kLoopLaunches;
    options.timing.batch_us = timing.batch_us / 16;
  }
  if (spec.steps.size() > kManySteps && prepared.spec->second_peer.steps.empty()) {
    options.algorithms = std::min(options.algorithms, kFewAlgorithms);
  }
  Expected<ReadyPeer> ready = make_peer(session_, *lt_, spec, data.tensors, data.copies, options);
  if (!ready) return ready.takeError();
  if (Error error = run_poisoned(session_, data, ready->contender)) return error;
  if (spec.own_weights) return ready;
  Expected<double> distance = coarse_distance(data.samples, data.tensors);
  if (!distance) return distance.takeError();
  if (*distance <= kCoarseLimit) return ready;
  return make_error(ErrorCode::kMismatch,
                    "the peer's result is {:.3g} root mean squares from the reference", *distance);
}

// A peer that cannot run is noted and left out.
Error Sweep::add_peers(const Prepared& prepared, const ContestData& data,
                       const TimingOptions& timing, std::vector<ReadyPeer>& peers,
                       LayerRow& row) const {
  if (lt_ == nullptr) return Error::success();
  for (const Peer* spec : {&prepared.spec->peer, &prepared.spec->second_peer}) {
    if (spec->steps.empty()) continue;
    Expected<ReadyPeer> ready = ready_peer(prepared, *spec, data, timing);
    if (ready) {
      peers.push_back(std::move(*ready));
      continue;
    }
    const ErrorReport report = take_report(ready.takeError());
    if (report.code == ErrorCode::kContextPoisoned) {
      return make_error_text(report.code, report.message);
    }
    row.note += fmt::format("{}{}: {}", row.note.empty() ? "" : "; ", spec->name, report.message);
  }
  return Error::success();
}

Error Sweep::fill_row(Prepared& prepared, LayerRow& row) const {
  Entrant& first = prepared.entrants[0];
  if (!first.compiled) return make_error_text(ErrorCode::kUnsupported, first.note);
  Expected<Tensors> tensors =
      arenas_.tensors(*prepared.chain, prepared.spec->ends, prepared.copies);
  if (!tensors) return tensors.takeError();
  auto samples = sample_reference(*prepared.chain, *tensors, options_.samples, options_.seed);
  if (!samples) return samples.takeError();
  const ContestData data{*tensors, *samples, prepared.copies};
  const double predicted_us = first.candidate.predicted_us;
  const TimingOptions timing = this->timing(prepared, predicted_us);
  std::vector<ReadyPeer> peers;
  if (Error error = add_peers(prepared, data, timing, peers, row)) return error;
  std::vector<Contender> others;
  for (const ReadyPeer& peer : peers) others.push_back(peer.contender);
  auto timings = run_contest(session_, prepared.entrants, others, data, timing,
                             predicted_us < options_.pdl_below_us);
  if (!timings) return timings.takeError();
  for (size_t i = 0; i < timings->size(); ++i) {
    const double us = (*timings)[i].us.median;
    if (row.peer_us && *row.peer_us <= us) continue;
    row.peer_us = us;
    row.peer = peers[i].contender.name;
    // A loop has an entry for each of its groups.
    row.peer_config = peers[i].config.substr(0, 80);
  }
  return Error::success();
}

Expected<LayerRow> Sweep::run(size_t i) {
  Prepared& prepared = prepared_[i];
  LayerRow row;
  row.kind = prepared.spec->group;
  row.shape = prepared.spec->shape;
  row.dtype = prepared.spec->dtype;
  row.epilogue = prepared.spec->epilogue;
  row.batch = prepared.spec->batch;
  row.m = prepared.spec->m;
  row.n = prepared.spec->n;
  row.k = prepared.spec->k;
  row.note = prepared.note;
  if (!prepared.entrants.empty()) {
    if (Error error = fill_row(prepared, row)) {
      ErrorReport report = take_report(std::move(error));
      if (report.code == ErrorCode::kContextPoisoned) {
        return make_error_text(report.code, report.message);
      }
      row.note += (row.note.empty() ? "" : "; ") + report.message;
    }
    row.verified = prepared.entrants[0].verified;
  }
  for (const Entrant& entrant : prepared.entrants) row.candidates.push_back(candidate_row(entrant));
  prepared.entrants.clear();
  prepared.chain.reset();
  return row;
}

}  // namespace

Error run_sweep(const Session& session, const CublasLt* lt, RandomPool& pool,
                llvm::ArrayRef<Case> cases, const SweepOptions& options,
                const SweepProgress& compiled, const std::function<Error(LayerRow row)>& done) {
  Sweep sweep(session, lt, cases, options);
  if (Error error = sweep.fill(pool)) return error;
  sweep.compile(compiled);
  for (size_t i = 0; i < cases.size(); ++i) {
    Expected<LayerRow> row = sweep.run(i);
    if (!row) return row.takeError();
    if (Error error = done(std::move(*row))) return error;
  }
  return Error::success();
}

}  // namespace catenary::bench
