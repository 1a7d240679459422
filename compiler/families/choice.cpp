// SPDX-License-Identifier: Apache-2.0
// Groups anchored by a contraction: every family's candidates, one choice among them, then split-K.
#include <algorithm>

#include "compiler/families/family.h"
#include "compiler/families/split_k.h"

namespace catenary {
namespace {

// A candidate with the family that offers it.
struct Offer {
  const ContractionFamily* family;
  Candidate candidate;
};

struct Offers {
  std::vector<Offer> all;  // best first; rejected candidates last
  std::vector<FamilyRefusal> refusals;
};

Offers collect_offers(const ContractionProblem& problem, const Target& target,
                      const TileRequest& request) {
  Offers offers;
  for (const ContractionFamily* family : contraction_families()) {
    const auto support = family->supports(problem, target);
    if (!support) {
      if (!support.silent) {
        offers.refusals.push_back({std::string(family->name()), support.refusal});
      }
      continue;
    }
    for (Candidate& candidate : family->candidates(problem, target, request)) {
      offers.all.push_back({family, std::move(candidate)});
    }
  }
  std::stable_sort(offers.all.begin(), offers.all.end(), [](const Offer& a, const Offer& b) {
    const bool a_runs = a.candidate.rejected.empty();
    const bool b_runs = b.candidate.rejected.empty();
    if (a_runs != b_runs) return a_runs;
    return a.candidate.predicted.us < b.candidate.predicted.us;
  });
  return offers;
}

// The best offer that the target can run and the compiler did not reject; null: there is none.
const Offer* choose(const Offers& offers, const std::string& signature,
                    llvm::ArrayRef<RejectedCandidate> rejected) {
  for (const Offer& offer : offers.all) {
    if (!offer.candidate.rejected.empty()) break;
    if (!llvm::is_contained(rejected, RejectedCandidate{signature, offer.candidate.id})) {
      return &offer;
    }
  }
  return nullptr;
}

Error no_candidate(const GroupContext& context, const Offers& offers) {
  const std::string& name = context.chain.value(context.group.anchors[0].value).name;
  const PlanOptions& options = context.options;
  if (!options.force_tile.empty() || options.split_k > 0) {
    const std::string why = offers.all.empty()
                                ? "`catenary bench --tiles all` lists the names that fit"
                                : "it " + offers.all.front().candidate.rejected;
    return make_error(
        ErrorCode::kInvalidArgument, "no tile for '{}' that fits {} is named '{}'{}: {}", name,
        context.target.name, options.force_tile,
        options.split_k > 0 ? fmt::format(" with split-K {}", options.split_k) : "", why);
  }
  if (offers.all.empty()) {
    std::string reasons;
    for (const FamilyRefusal& refusal : offers.refusals) {
      reasons +=
          fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", refusal.family, refusal.reason);
    }
    return make_error(ErrorCode::kUnsupported, "no kernel family computes '{}' on {}: {}", name,
                      context.target.name, reasons);
  }
  const Candidate& last = offers.all.back().candidate;
  return make_error(ErrorCode::kResourceLimit, "no {} tile for '{}' fits {}: {} {}", last.id.family,
                    name, context.target.name, last.id.tile,
                    last.rejected.empty() ? "was rejected by ptxas" : last.rejected);
}

PlannedGroup make_kernels(const GroupContext& context, const ContractionProblem& problem,
                          const Offers& offers, const Offer& chosen, std::string signature,
                          i64 workspace_bytes) {
  const Candidate& candidate = chosen.candidate;
  KernelPlan kernel = chosen.family->kernel(problem, context.target, candidate);
  kernel.family = chosen.family;
  kernel.symbol = fmt::format("{}_{}", context.name, kernel.symbol);
  kernel.min_ctas = candidate.min_ctas;
  kernel.config_text = candidate.text;
  kernel.predicted = candidate.predicted;
  kernel.candidate = candidate.id;
  kernel.signature = std::move(signature);
  kernel.refusals = offers.refusals;
  for (const Offer& offer : offers.all) {
    const Candidate& c = offer.candidate;
    kernel.candidates.push_back({c.id, c.text, c.predicted.us, c.rejected, &offer == &chosen});
  }
  return apply_split_k(problem, candidate.id.split_k, context.name, workspace_bytes,
                       std::move(kernel));
}

}  // namespace

Expected<PlannedGroup> plan_contraction(const GroupContext& context, i64 workspace_bytes) {
  Expected<ContractionProblem> problem = make_contraction_problem(context);
  if (!problem) return problem.takeError();
  std::string signature = problem_signature(*problem);
  const PlanOptions& options = context.options;
  const TileRequest forced{options.force_tile, options.split_k};
  if (!forced.is_forced() && options.tuned) {
    if (const auto tuned = options.tuned(signature)) {
      const Offers offers =
          collect_offers(*problem, context.target, {tuned->id.tile, tuned->id.split_k});
      if (const Offer* offer = choose(offers, signature, options.rejected)) {
        PlannedGroup planned =
            make_kernels(context, *problem, offers, *offer, signature, workspace_bytes);
        planned.kernels.front().tuned = tuned->note;
        return planned;
      }
    }
  }
  const Offers offers = collect_offers(*problem, context.target, forced);
  const Offer* offer = choose(offers, signature, options.rejected);
  if (offer == nullptr) return no_candidate(context, offers);
  return make_kernels(context, *problem, offers, *offer, std::move(signature), workspace_bytes);
}

}  // namespace catenary
