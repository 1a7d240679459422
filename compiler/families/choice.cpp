// SPDX-License-Identifier: Apache-2.0
// Groups anchored by a contraction: every family's candidates, one choice among them, then split-K;
// and the same for several groups in one launch.
#include <algorithm>

#include "compiler/families/beside.h"
#include "compiler/families/family.h"
#include "compiler/families/split_k.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

// A candidate with the family that offers it, for the contraction as it is or transposed.
struct Offer {
  const ContractionFamily* family;
  const ContractionProblem* problem;
  Candidate candidate;
};

struct Offers {
  std::vector<Offer> all;  // best first; rejected candidates last
  std::vector<FamilyRefusal> refusals;
  // For an error: of families that have no tile, and where there is no other reason.
  std::vector<FamilyRefusal> without_tile, silent;
};

// The second kernel of split-K runs the epilogue. It does not know the group of a row, and has no
// tiles whose rows it could sum.
void reject_split_k(const ContractionProblem& problem, Candidate& candidate) {
  if (candidate.id.split_k == 1 || !candidate.rejected.empty()) return;
  const bool by_group =
      llvm::any_of(problem.program, [](const ProgramLine& line) { return line.operand.by_group; });
  if (by_group)
    candidate.rejected = "has a second kernel, and the epilogue takes an operand by group";
  if (problem.num_column_sums() > 0)
    candidate.rejected = "has a second kernel, and the epilogue sums the rows of its tiles";
  if (problem.reduced_columns > 1)
    candidate.rejected = "has a second kernel, and the epilogue reduces the rows of its tiles";
}

ContractionFamily::Support support_of(const ContractionFamily& family,
                                      const ContractionProblem& problem, const Target& target) {
  ContractionFamily::Support support = family.supports(problem, target);
  if (support && problem.reduced_columns > 1 && !family.reduces_rows())
    support = {"its tiles do not reduce rows"};
  return support;
}

void add_offers(const ContractionFamily& family, const ContractionProblem& problem,
                const Target& target, const TileRequest& request, Offers& offers) {
  const auto support = support_of(family, problem, target);
  if (!support) {
    if (!problem.transposed)
      (support.silent ? offers.silent : offers.refusals)
          .push_back({std::string(family.name()), support.refusal});
    return;
  }
  std::vector<Candidate> candidates = family.candidates(problem, target, request);
  if (candidates.empty() && !problem.transposed)
    offers.without_tile.push_back({std::string(family.name()), "it has no tile for this shape"});
  for (Candidate& candidate : candidates) {
    reject_split_k(problem, candidate);
    offers.all.push_back({&family, &problem, std::move(candidate)});
  }
}

// `transposed`: the same contraction, or null.
Offers collect_offers(const ContractionProblem& problem, const ContractionProblem* transposed,
                      const Target& target, const TileRequest& request) {
  Offers offers;
  for (const ContractionFamily* family : contraction_families()) {
    add_offers(*family, problem, target, request, offers);
    if (transposed != nullptr && family->takes_transposed())
      add_offers(*family, *transposed, target, request, offers);
  }
  std::stable_sort(offers.all.begin(), offers.all.end(), [](const Offer& a, const Offer& b) {
    const bool a_runs = a.candidate.rejected.empty();
    const bool b_runs = b.candidate.rejected.empty();
    if (a_runs != b_runs) return a_runs;
    return a.candidate.predicted.us < b.candidate.predicted.us;
  });
  return offers;
}

bool can_run(const Offer& offer, const std::string& signature,
             llvm::ArrayRef<RejectedCandidate> rejected) {
  return offer.candidate.rejected.empty() &&
         !llvm::is_contained(rejected, RejectedCandidate{signature, offer.candidate.id});
}

// The best offer that the target can run and the compiler did not reject; null: there is none.
const Offer* choose(const Offers& offers, const std::string& signature,
                    llvm::ArrayRef<RejectedCandidate> rejected) {
  const auto found = llvm::find_if(
      offers.all, [&](const Offer& offer) { return can_run(offer, signature, rejected); });
  return found == offers.all.end() ? nullptr : &*found;
}

// The same of the offers that are `id`.
const Offer* find_offer(const Offers& offers, const std::string& signature,
                        llvm::ArrayRef<RejectedCandidate> rejected, const CandidateId& id) {
  const auto found = llvm::find_if(offers.all, [&](const Offer& offer) {
    return offer.candidate.id == id && can_run(offer, signature, rejected);
  });
  return found == offers.all.end() ? nullptr : &*found;
}

TileRequest forced_request(const PlanOptions& options) {
  return {options.force_tile, options.split_k, 1};
}

bool has_order(const Offers& offers, SumOrder order) {
  return llvm::any_of(offers.all, [&](const Offer& offer) {
    return offer.candidate.rejected.empty() && offer.candidate.sums == order;
  });
}

// The order of undivided sums in a batch-invariant plan. It depends only on what the families
// support, which is the same for every M, and not on predictions.
SumOrder invariant_order(const Offers& offers) {
  const SumOrder wgmma = {SumOrder::Kind::kAscendingWgmma};
  return has_order(offers, wgmma) ? wgmma : SumOrder{SumOrder::Kind::kAscending};
}

// K-slices of a batch-invariant sum: no more than give each SM enough columns where M is small, and
// each some k-tiles. Knows no M. Contractions that may share a launch are not divided: whether they
// do depends on M.
int invariant_slices(const GroupContext& context, const ContractionProblem& problem) {
  constexpr i64 kColumnsOfSm = 40;
  constexpr i64 kTermsOfSlice = 768;
  constexpr int kMostSlices = 8;
  const bool symbolic =
      problem.space.n.scale != 0 || problem.space.k.scale != 0 ||
      llvm::any_of(problem.space.batch.at, [](const Extent& extent) { return extent.scale != 0; });
  const bool promotes = math_info(problem.space.math).promote_k != 0;
  if (context.may_share_launch || symbolic || promotes || problem.ragged.kind != Ragged::kNone)
    return 1;
  const i64 columns = problem.size.batch * problem.size.n * problem.num_accumulators();
  int slices = 1;
  while (slices < kMostSlices && columns * slices < kColumnsOfSm * context.target.sm_count &&
         problem.size.k >= 2 * slices * kTermsOfSlice) {
    slices *= 2;
  }
  return slices;
}

Error no_invariant_candidate(const GroupContext& context) {
  const Value& anchor = context.chain.value(context.group.anchors[0].value);
  return make_error_at(anchor.at, ErrorCode::kUnsupported,
                       "no kernel of '{}' on {} sums K in one order for every number of rows: plan "
                       "it without batch_invariant",
                       anchor.name, context.target.name);
}

double best_us(const Offers& offers) {
  return offers.all.empty() ? 0 : offers.all.front().candidate.predicted.us;
}

void keep_order(Offers& offers, SumOrder order) {
  llvm::erase_if(offers.all, [&](const Offer& offer) { return offer.candidate.sums != order; });
}

// Leaves the candidates of a batch-invariant plan: those of the divided sum if a family has it.
void keep_invariant(const GroupContext& context, const ContractionProblem& problem,
                    Offers& offers) {
  TileRequest request = forced_request(context.options);
  request.sum_slices = invariant_slices(context, problem);
  const SumOrder order = {SumOrder::Kind::kAscendingWgmma, request.sum_slices};
  if (request.sum_slices > 1) {
    Offers divided = collect_offers(problem, nullptr, context.target, request);
    if (has_order(divided, order)) {
      offers = std::move(divided);
      return keep_order(offers, order);
    }
  }
  keep_order(offers, invariant_order(offers));
}

std::string invariant_text(double us, double free_us) {
  return fmt::format(", one order of K for every M ({:+.1f}% against the free choice)",
                     free_us > 0 ? 100 * (us / free_us - 1) : 0.0);
}

// Why no family has a candidate.
std::string refusal_text(const Offers& offers) {
  std::vector<FamilyRefusal> reasons = offers.refusals;
  llvm::append_range(reasons, offers.without_tile);
  if (reasons.empty()) reasons = offers.silent;
  std::string text;
  for (const FamilyRefusal& refusal : reasons)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", refusal.family, refusal.reason);
  return text;
}

Error no_candidate(const GroupContext& context, const Offers& offers) {
  const Value& anchor = context.chain.value(context.group.anchors[0].value);
  const std::string& name = anchor.name;
  const PlanOptions& options = context.options;
  if (!options.force_tile.empty() || options.split_k > 0) {
    if (options.force_tile.empty() && offers.all.empty()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "no tile for '{}' that fits {} has split-K {}: leave it to the planner, or "
                        "choose another one",
                        name, context.target.name, options.split_k);
    }
    const std::string why = offers.all.empty()
                                ? "`catenary bench --tiles all` lists the names that fit"
                                : "it " + offers.all.front().candidate.rejected;
    return make_error(
        ErrorCode::kInvalidArgument, "no tile for '{}' that fits {} is named '{}'{}: {}", name,
        context.target.name, options.force_tile,
        options.split_k > 0 ? fmt::format(" with split-K {}", options.split_k) : "", why);
  }
  if (offers.all.empty()) {
    return make_error_at(anchor.at, ErrorCode::kUnsupported,
                         "no kernel family computes '{}' on {}: {}", name, context.target.name,
                         refusal_text(offers));
  }
  const Candidate& last = offers.all.back().candidate;
  return make_error_at(anchor.at, ErrorCode::kResourceLimit, "no {} tile for '{}' fits {}: {} {}",
                       last.id.family, name, context.target.name, last.id.tile,
                       last.rejected.empty() ? "was rejected by ptxas" : last.rejected);
}

// Fills in what the choice says of the chosen kernel.
void finish_kernel(const GroupContext& context, const Offers& offers, const Offer& chosen,
                   std::string signature, KernelPlan& kernel) {
  const Candidate& candidate = chosen.candidate;
  kernel.family = chosen.family;
  kernel.symbol = fmt::format("{}_{}", context.name, kernel.symbol);
  kernel.config_text = candidate.text;
  kernel.predicted = candidate.predicted;
  kernel.candidate = candidate.id;
  kernel.signature = std::move(signature);
  kernel.refusals = offers.refusals;
  for (const Offer& offer : offers.all) {
    const Candidate& c = offer.candidate;
    kernel.candidates.push_back({c.id, c.text, c.predicted.us, c.rejected, &offer == &chosen});
  }
}

// A tuning record of this user, else a row of measured.def. Rows are for whole GPUs: a part of a
// GPU has other waves.
std::optional<TunedChoice> find_measured(const PlanOptions& options,
                                         const ContractionProblem& problem, const Target& target,
                                         const std::string& signature) {
  if (options.tuned) {
    if (auto tuned = options.tuned(signature)) return tuned;
  }
  const std::string shape = problem_shape(problem);
  const bool whole = llvm::any_of(all_targets(), [&](const Target& known) {
    return known.name == target.name && known.sm_count == target.sm_count;
  });
  if (shape.empty() || !whole) return std::nullopt;
  const auto row = llvm::find_if(options.measured, [&](const MeasuredRow& one) {
    return one.target == target.name && one.shape == shape;
  });
  if (row == options.measured.end()) return std::nullopt;
  return TunedChoice{row->id, fmt::format("{:.2f} us measured for {} on {}, {:.2f} us by the cost "
                                          "model's choice",
                                          row->us, shape, row->target, row->model_us)};
}

// The measured choice, else the cost model's; null: there is none. `note`: of the measurement.
const Offer* pick(const GroupContext& context, const ContractionProblem& problem,
                  const std::string& signature, const Offers& offers, std::string& note) {
  const PlanOptions& options = context.options;
  if (!forced_request(options).is_forced()) {
    if (const auto measured = find_measured(options, problem, context.target, signature)) {
      note = measured->note;
      if (const Offer* offer = find_offer(offers, signature, options.rejected, measured->id))
        return offer;
    }
  }
  note.clear();
  return choose(offers, signature, options.rejected);
}

// One candidate for each part, with the tile of `offer`; empty: a part has none.
std::vector<Candidate> part_candidates(llvm::ArrayRef<ContractionProblem> parts,
                                       const Target& target, const Offer& offer) {
  std::vector<Candidate> candidates;
  for (const ContractionProblem& part : parts) {
    if (!support_of(*offer.family, part, target)) return {};
    auto candidate = offer.family->beside(part, target, offer.candidate);
    if (!candidate || !candidate->rejected.empty()) return {};
    candidates.push_back(std::move(*candidate));
  }
  return candidates;
}

std::optional<KernelPlan> joint_kernel(llvm::ArrayRef<ContractionProblem> parts,
                                       const ContractionProblem& joint, const Target& target,
                                       const Offer& offer) {
  std::vector<KernelPlan> kernels;
  for (const Candidate& candidate : part_candidates(parts, target, offer)) {
    kernels.push_back(offer.family->kernel(parts[kernels.size()], target, candidate));
    kernels.back().family = offer.family;
    kernels.back().min_ctas = candidate.min_ctas;
  }
  if (kernels.empty()) return std::nullopt;
  auto kernel = join_kernels(std::move(kernels), joint);
  if (kernel) kernel->symbol += fmt::format("_x{}", parts.size());
  return kernel;
}

}  // namespace

Expected<PlannedGroup> plan_contraction(const GroupContext& context, i64 workspace_bytes) {
  Expected<ContractionProblem> problem = make_contraction_problem(context);
  if (!problem) return problem.takeError();
  const std::string signature = problem_signature(*problem);
  const auto transposed = make_transposed_problem(context, *problem);
  Offers offers = collect_offers(*problem, transposed ? &*transposed : nullptr, context.target,
                                 forced_request(context.options));
  const bool invariant = context.options.batch_invariant;
  const bool computed = !offers.all.empty();
  const double free_us = best_us(offers);
  if (invariant) keep_invariant(context, *problem, offers);
  if (computed && offers.all.empty()) return no_invariant_candidate(context);
  std::string note;
  const Offer* offer = pick(context, *problem, signature, offers, note);
  if (offer == nullptr) return no_candidate(context, offers);
  KernelPlan kernel = offer->family->kernel(*offer->problem, context.target, offer->candidate);
  kernel.min_ctas = offer->candidate.min_ctas;
  finish_kernel(context, offers, *offer, signature, kernel);
  if (invariant) kernel.config_text += invariant_text(kernel.predicted.us, free_us);
  PlannedGroup planned =
      apply_split_k(*problem, offer->problem->transposed, offer->candidate.id.split_k, context.name,
                    workspace_bytes, std::move(kernel));
  planned.kernels.front().tuned = std::move(note);
  return planned;
}

std::optional<KernelPlan> plan_beside(llvm::ArrayRef<GroupContext> contexts, double apart_us) {
  const GroupContext& first = contexts.front();
  std::vector<ContractionProblem> parts;
  for (const GroupContext& context : contexts) {
    Expected<ContractionProblem> part = make_contraction_problem(context);
    if (!part) {
      llvm::consumeError(part.takeError());
      return std::nullopt;
    }
    parts.push_back(std::move(*part));
  }
  const auto joint = joint_problem(parts);
  if (!joint) return std::nullopt;
  const TileRequest forced = forced_request(first.options);
  Offers offers = collect_offers(*joint, nullptr, first.target, forced);
  const bool invariant = first.options.batch_invariant;
  double free_us = 0;
  if (invariant) {
    // The order of each part where it is by itself, as it may be for another M.
    const SumOrder order = invariant_order(offers);
    for (const ContractionProblem& part : parts) {
      if (invariant_order(collect_offers(part, nullptr, first.target, forced)) != order)
        return std::nullopt;
    }
    free_us = best_us(offers);
    keep_order(offers, order);
  }
  // What is predicted to lose by more than the model errs needs no kernel to find that it has none.
  constexpr double kLosesBy = 1.25;
  llvm::erase_if(offers.all, [&](const Offer& offer) {
    const double us = offer.candidate.predicted.us;
    return (!forced.is_forced() && us > kLosesBy * apart_us) ||
           !joint_kernel(parts, *joint, first.target, offer).has_value();
  });
  const std::string signature = joint_signature(parts);
  std::string note;
  const Offer* offer = pick(first, *joint, signature, offers, note);
  if (offer == nullptr) return std::nullopt;
  // The model tells no smaller gain from none.
  constexpr double kLeastGain = 0.02;
  if (!forced.is_forced() && offer->candidate.predicted.us > (1 - kLeastGain) * apart_us)
    return std::nullopt;
  KernelPlan kernel = *joint_kernel(parts, *joint, first.target, *offer);
  finish_kernel(first, offers, *offer, signature, kernel);
  kernel.config_text += fmt::format(", {} contractions side by side", parts.size());
  if (invariant) kernel.config_text += invariant_text(kernel.predicted.us, free_us);
  kernel.tuned = std::move(note);
  return kernel;
}

}  // namespace catenary
