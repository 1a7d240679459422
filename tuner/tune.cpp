// SPDX-License-Identifier: Apache-2.0
#include "tuner/tune.h"

#include <algorithm>

#include "compiler/compile/templates.h"
#include "ir/parallel.h"
#include "ir/random/fill.h"

namespace catenary::tuner {
namespace {

Error check_tunable(const VerifiedChain& chain) {
  const std::string& name = chain.chain().name;
  if (chain.chain().symbol) {
    return make_error(ErrorCode::kUnsupported,
                      "chain '{}' has the symbol {}: tune it with a fixed size in its place", name,
                      chain.chain().symbol->name);
  }
  for (const Output& output : chain.chain().outputs) {
    if (output.in_place < 0) continue;
    return make_error(
        ErrorCode::kUnsupported,
        "chain '{}' overwrites its input '{}', so that each launch computes something "
        "else: tune it without 'inplace', its records are the same",
        name, chain.value(output.in_place).name);
  }
  for (const ValueId id : chain.parameters()) {
    if (chain.value(id).role != Role::kScalar) continue;
    return make_error(ErrorCode::kUnsupported,
                      "chain '{}' has the scalar {}: tune it with a constant in its place", name,
                      chain.value(id).name);
  }
  return Error::success();
}

// Groups of equal size.
std::vector<i32> even_ends(const VerifiedChain& chain) {
  std::vector<i32> ends;
  for (const ValueId id : chain.parameters()) {
    const std::optional<i64> size = ragged_size(chain, id, 0);
    if (!size) continue;
    const i64 groups = num_elements(chain.info(id).type);
    for (i64 g = 1; g <= groups; ++g) ends.push_back(static_cast<i32>(*size * g / groups));
  }
  return ends;
}

// The choice and its rivals, each compiled with the choices made for earlier contractions.
std::vector<Entrant> entrants_of(const KernelPlan& kernel, int top, const PlanOptions& earlier) {
  std::vector<Entrant> entrants;
  for (Candidate& candidate : fastest_candidates(list_candidates(kernel), top)) {
    Entrant entrant;
    entrant.plan = tuned(earlier, kernel.signature, candidate);
    entrant.candidate = std::move(candidate);
    entrants.push_back(std::move(entrant));
  }
  return entrants;
}

// After a spill the engine plans another candidate than the one under test.
void refuse_spilled(const std::string& signature, Entrant& entrant) {
  if (!entrant.compiled || takes_tuned(entrant.compiled->plan, signature)) return;
  entrant.compiled = nullptr;
  entrant.note = "the compiler spills its registers";
}

TuningRecord record_of(const Session& session, const KernelPlan& kernel, const std::string& chain,
                       llvm::ArrayRef<Entrant> entrants) {
  TuningRecord record;
  const Target& target = session.info().target;
  record.signature = kernel.signature;
  record.target = target.name;
  record.arch = target.arch;
  record.sm_count = target.sm_count;
  record.templates = templates_digest();
  record.chain = chain;
  for (const Entrant& entrant : entrants) {
    TunedCandidate& row = record.candidates.emplace_back();
    row.id = id_of(entrant.candidate);
    row.predicted_us = entrant.candidate.predicted_us;
    row.note = entrant.note;
    if (!entrant.us) continue;
    row.median_us = entrant.us->median;
    row.p10_us = entrant.us->p10;
    row.p90_us = entrant.us->p90;
  }
  const TunedCandidate& winner = record.candidates[choose_winner(record.candidates)];
  record.winner = winner.id;
  record.model = record.candidates.front().id;
  return record;
}

// Equal contractions share a record.
std::vector<const KernelPlan*> distinct_contractions(const Plan& plan) {
  std::vector<const KernelPlan*> distinct;
  for (const KernelPlan& kernel : plan.buckets.front().kernels) {
    const bool known = llvm::any_of(
        distinct, [&](const KernelPlan* other) { return other->signature == kernel.signature; });
    if (!kernel.signature.empty() && !known) distinct.push_back(&kernel);
  }
  return distinct;
}

// One contraction's contest. `timing` is called when it is compiled.
Expected<TuningRecord> tune_kernel(const Session& session, const ChainSetup& setup,
                                   const KernelPlan& kernel, const TuneOptions& options,
                                   const PlanOptions& earlier,
                                   const std::function<void()>& timing) {
  std::vector<Entrant> entrants = entrants_of(kernel, options.top, earlier);
  parallel_for(static_cast<i64>(entrants.size()), 0, [&](i64 i) {
    compile_entrant(session, setup.chain.chain(), entrants[i]);
    refuse_spilled(kernel.signature, entrants[i]);
  });
  timing();
  auto timed = run_contest(session, entrants, {}, setup.data(), options.timing, false);
  if (!timed) return timed.takeError();
  if (!entrants.front().us) {
    return make_error(ErrorCode::kMismatch, "the cost model's {} cannot be timed: {}",
                      entrants.front().candidate.tile, entrants.front().note);
  }
  return record_of(session, kernel, setup.chain.chain().name, entrants);
}

}  // namespace

TuneOptions default_tuning() {
  TuneOptions options;
  options.timing.rounds = 9;
  options.timing.batch_us = 1000;
  return options;
}

size_t choose_winner(llvm::ArrayRef<TunedCandidate> candidates) {
  size_t best = 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    const auto& us = candidates[i].median_us;
    const auto& best_us = candidates[best].median_us;
    if (us && (!best_us || *us < *best_us)) best = i;
  }
  if (best == 0) return 0;
  const auto& model_us = candidates[0].median_us;
  const bool faster = !model_us || *candidates[best].median_us < *model_us * (1 - kTuneMargin);
  return faster ? best : 0;
}

Expected<std::vector<TuningRecord>> tune_chain(const Session& session, RandomPool& pool,
                                               const VerifiedChain& chain,
                                               const TuneOptions& options,
                                               const TuneProgress& progress) {
  if (Error error = check_tunable(chain)) return error;
  Expected<Plan> plan = make_plan(chain, session.info().target);
  if (!plan) return plan.takeError();
  SetupOptions setup_options;
  setup_options.ends = even_ends(chain);
  setup_options.samples = options.samples;
  setup_options.seed = options.seed;
  Expected<ChainSetup> setup = set_up_chain(session, pool, chain, setup_options);
  if (!setup) return setup.takeError();
  std::vector<TuningRecord> records;
  PlanOptions chosen;
  const std::vector<const KernelPlan*> contests = distinct_contractions(*plan);
  const auto steps = static_cast<i64>(2 * contests.size());
  i64 step = 0;
  for (const KernelPlan* kernel : contests) {
    const auto next = [&] {
      progress(fmt::format("{}: {}", kernel->symbol, kernel->config_text), step++, steps);
    };
    next();
    auto record = tune_kernel(session, *setup, *kernel, options, chosen, next);
    if (!record) return record.takeError();
    Candidate winner;
    winner.family = record->winner.family;
    winner.tile = record->winner.tile;
    winner.split_k = record->winner.split_k;
    chosen = tuned(std::move(chosen), kernel->signature, winner);
    records.push_back(std::move(*record));
  }
  if (records.empty()) {
    return make_error(ErrorCode::kUnsupported,
                      "chain '{}' has no contraction: there is nothing to tune",
                      chain.chain().name);
  }
  return records;
}

}  // namespace catenary::tuner
