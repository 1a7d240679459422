// SPDX-License-Identifier: Apache-2.0
#include "bench/tune.h"

#include <algorithm>

#include "bench/sweep/sweep_gemm.h"
#include "compiler/compile/templates.h"
#include "ir/parallel.h"
#include "ir/random/fill.h"
#include "ir/text/text.h"

namespace catenary::bench {
namespace {

// A candidate and the choices that plan it, those of the other contractions included.
struct Attempt {
  TunedCandidate row;
  PlanOptions plan;
  std::shared_ptr<const CompiledChain> compiled;
};

Error check_tunable(const VerifiedChain& chain) {
  const std::string& name = chain.chain().name;
  if (chain.chain().symbol) {
    return make_error(ErrorCode::kUnsupported,
                      "chain '{}' has the symbol {}: tune it with a fixed size in its place", name,
                      chain.chain().symbol->name);
  }
  if (chain.chain().outputs.size() != 1) {
    return make_error(ErrorCode::kUnsupported,
                      "chain '{}' has {} outputs: tune chains of one output each", name,
                      chain.chain().outputs.size());
  }
  for (const ValueId id : chain.parameters()) {
    if (chain.value(id).role != Role::kScalar) continue;
    return make_error(ErrorCode::kUnsupported,
                      "chain '{}' has the scalar {}: tune it with a constant in its place", name,
                      chain.value(id).name);
  }
  return Error::success();
}

// Equal groups for whatever is ragged.
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

const KernelPlan* kernel_of(const Plan& plan, const std::string& problem) {
  for (const KernelPlan& kernel : plan.buckets.front().kernels) {
    if (kernel.problem == problem) return &kernel;
  }
  return nullptr;
}

TunedChoice choice_of(const std::string& problem, const std::string& tile, int split_k) {
  return {problem, tile, split_k, "under test"};
}

// One contraction's contest.
class Contest {
 public:
  Contest(const Session& session, const CaseSetup& setup, const TuneOptions& options,
          const std::string& problem)
      : session_(session), setup_(setup), options_(options), problem_(problem) {}

  // Lists the candidates of `kernel`, the cost model's first; `others`: choices made before.
  void list(const KernelPlan& kernel, llvm::ArrayRef<TunedChoice> others);
  void compile();
  Error time();
  TuningRecord record() const;

 private:
  void compile(Attempt& attempt) const;
  Expected<std::optional<Contender>> ready(Attempt& attempt) const;

  const Session& session_;
  const CaseSetup& setup_;
  const TuneOptions& options_;
  std::string problem_;
  std::vector<Attempt> attempts_;
};

void Contest::list(const KernelPlan& kernel, llvm::ArrayRef<TunedChoice> others) {
  GemmSweepOptions which;
  which.top = options_.top;
  which.fixed = false;
  for (const TileOption& tile : tiles_to_time(kernel.tiles, {}, which)) {
    Attempt attempt;
    attempt.row.tile = tile.name;
    attempt.row.split_k = tile.split_k;
    attempt.row.predicted_us = tile.us;
    attempt.plan.tuned = others.vec();
    attempt.plan.tuned.push_back(choice_of(problem_, tile.name, tile.split_k));
    attempts_.push_back(std::move(attempt));
  }
}

void Contest::compile(Attempt& attempt) const {
  Engine engine(engine_options(session_, attempt.plan));
  auto compiled = engine.compile(setup_.chain.chain(), session_.info().target);
  if (!compiled) {
    attempt.row.note = take_report(compiled.takeError()).message;
    attempt.row.note = attempt.row.note.substr(0, attempt.row.note.find('\n'));
    return;
  }
  const KernelPlan* kernel = kernel_of((*compiled)->plan, problem_);
  if (kernel == nullptr || kernel->tuned.empty()) {
    attempt.row.note = "the compiler spills its registers";  // and another one was taken
    return;
  }
  attempt.compiled = std::move(*compiled);
}

void Contest::compile() {
  parallel_for(static_cast<i64>(attempts_.size()), 0, [&](i64 i) { compile(attempts_[i]); });
}

// Loads and checks one candidate. Nothing, with a note, when it is wrong or cannot be loaded.
Expected<std::optional<Contender>> Contest::ready(Attempt& attempt) const {
  Engine engine(engine_options(session_));
  auto bound = BoundChain::load(session_, engine, attempt.compiled, setup_.tensors, setup_.copies);
  if (!bound) {
    attempt.row.note = take_report(bound.takeError()).message;
    return std::nullopt;
  }
  Contender made = contender(attempt.row.tile, std::move(*bound));
  if (Error error = run_poisoned(session_, setup_.output(), made)) return error;
  Expected<CompareResult> result = compare_samples(setup_.samples, setup_.output());
  if (!result) return result.takeError();
  if (result->ok()) return made;
  attempt.row.note = "WRONG: " + to_string(*result);
  return std::nullopt;
}

Error Contest::time() {
  std::vector<Contender> contenders;
  std::vector<Attempt*> timed;
  for (Attempt& attempt : attempts_) {
    if (!attempt.compiled) continue;
    auto made = ready(attempt);
    if (!made) return made.takeError();
    if (!*made) continue;
    contenders.push_back(std::move(**made));
    timed.push_back(&attempt);
  }
  if (timed.empty() || timed.front() != &attempts_.front()) {
    return make_error(ErrorCode::kMismatch, "the cost model's {} cannot be timed: {}",
                      attempts_.front().row.tile, attempts_.front().row.note);
  }
  TimingOptions timing = options_.timing;
  timing.copies = setup_.copies;
  auto timings = time_contenders(session_, contenders, timing);
  if (!timings) return timings.takeError();
  for (size_t t = 0; t < timed.size(); ++t) {
    const Spread& us = (*timings)[t].us;
    timed[t]->row.median_us = us.median;
    timed[t]->row.p10_us = us.p10;
    timed[t]->row.p90_us = us.p90;
  }
  return Error::success();
}

TuningRecord Contest::record() const {
  TuningRecord record;
  const Target& target = session_.info().target;
  record.problem = problem_;
  record.target = target.name;
  record.arch = target.arch;
  record.sm_count = target.sm_count;
  record.templates = templates_digest();
  record.chain = setup_.chain.chain().name;
  for (const Attempt& attempt : attempts_) record.candidates.push_back(attempt.row);
  const TunedCandidate& winner = record.candidates[choose_winner(record.candidates)];
  record.tile = winner.tile;
  record.split_k = winner.split_k;
  record.model_tile = record.candidates.front().tile;
  record.model_split_k = record.candidates.front().split_k;
  return record;
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

Expected<std::vector<TuningRecord>> tune_chain(
    const Session& session, RandomPool& pool, const VerifiedChain& chain,
    const TuneOptions& options, const std::function<void(const std::string& line)>& progress) {
  if (Error error = check_tunable(chain)) return error;
  Expected<Plan> plan = make_plan(chain, session.info().target);
  if (!plan) return plan.takeError();
  Case spec;
  spec.name = chain.chain().name;
  spec.chain = print(chain.chain());
  spec.ends = even_ends(chain);
  CaseOptions case_options;
  case_options.samples = options.samples;
  case_options.seed = options.seed;
  Expected<CaseSetup> setup = set_up_case(session, pool, spec, case_options);
  if (!setup) return setup.takeError();
  std::vector<TuningRecord> records;
  std::vector<TunedChoice> chosen;
  for (const KernelPlan& kernel : plan->buckets.front().kernels) {
    // Equal contractions share a record.
    const bool known = llvm::any_of(
        chosen, [&](const TunedChoice& other) { return other.problem == kernel.problem; });
    if (kernel.problem.empty() || known) continue;
    progress(fmt::format("{}: {}", kernel.symbol, kernel.config_text));
    Contest contest(session, *setup, options, kernel.problem);
    contest.list(kernel, chosen);
    contest.compile();
    if (Error error = contest.time()) return error;
    records.push_back(contest.record());
    chosen.push_back(choice_of(kernel.problem, records.back().tile, records.back().split_k));
  }
  if (records.empty()) {
    return make_error(ErrorCode::kUnsupported,
                      "chain '{}' has no contraction: there is nothing to tune",
                      chain.chain().name);
  }
  return records;
}

}  // namespace catenary::bench
