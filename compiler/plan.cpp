// SPDX-License-Identifier: Apache-2.0
// make_plan: fuse, place in memory, plan each group by its family, once per useful range of the
// symbol.
#include "compiler/plan.h"

#include <algorithm>
#include <numeric>

#include "compiler/families/binding.h"
#include "compiler/limits.h"
#include "compiler/workspace.h"
#include "ir/default_numerics.h"
#include "ir/rounded_weights.h"

namespace catenary {
namespace {

// Values of a small M at which the best tile of a contraction changes: the tile heights, and the
// point from which the shape is an ordinary GEMM.
constexpr i64 kBucketEnds[] = {4, 8, 16, 24, 32, 64, 128, 512};

std::vector<std::pair<i64, i64>> bucket_ranges(const VerifiedChain& chain) {
  const auto& symbol = chain.chain().symbol;
  if (!symbol) return {{0, 0}};
  std::vector<std::pair<i64, i64>> ranges;
  i64 lo = symbol->lo;
  for (i64 end : kBucketEnds) {
    if (end < lo || end >= symbol->hi) continue;
    ranges.push_back({lo, end});
    lo = end + 1;
  }
  ranges.push_back({lo, symbol->hi});
  return ranges;
}

Expected<PlannedGroup> plan_group(const GroupContext& context, i64 workspace_bytes) {
  const auto one = [&](Expected<KernelPlan> kernel) -> Expected<PlannedGroup> {
    if (!kernel) return kernel.takeError();
    PlannedGroup planned;
    planned.workspace_bytes = workspace_bytes;
    planned.kernels.push_back(std::move(*kernel));
    return planned;
  };
  switch (context.group.kind) {
    case FusionGroup::Kind::kPointwise:
      return one(plan_pointwise(context));
    case FusionGroup::Kind::kDequant:
      return one(plan_dequantise(context));
    case FusionGroup::Kind::kReduction:
      return plan_reduce(context, workspace_bytes);
    case FusionGroup::Kind::kContraction:
      return plan_contraction(context, workspace_bytes);
  }
  return make_error(ErrorCode::kInternal, "group of an unknown kind");
}

// C identifiers of bounded length: the chain's name may have 128 bytes.
std::string kernel_name(const VerifiedChain& chain, size_t index) {
  return fmt::format("ctn_{}_k{}", chain.chain().name.substr(0, 40), index);
}

// The set of groups side by side that begins with group `g`; null: none.
const std::vector<int>* set_from(const FusionPlan& fusion, int g) {
  const auto found =
      llvm::find_if(fusion.beside, [&](const std::vector<int>& set) { return set.front() == g; });
  return found == fusion.beside.end() ? nullptr : &*found;
}

// The groups of the set that begins with `g` as one launch, where that is predicted to be faster
// than their own kernels. If one of them has no kernel of its own, plan_group() reports it later.
std::optional<KernelPlan> plan_set(const FusionPlan& fusion, int g,
                                   llvm::function_ref<GroupContext(int)> context) {
  const std::vector<int>* set = set_from(fusion, g);
  if (set == nullptr) return std::nullopt;
  std::vector<GroupContext> contexts;
  double apart_us = 0;
  for (int member : *set) {
    contexts.push_back(context(member));
    Expected<PlannedGroup> apart = plan_group(contexts.back(), 0);
    if (!apart) {
      llvm::consumeError(apart.takeError());
      continue;
    }
    for (const KernelPlan& kernel : apart->kernels) apart_us += kernel.predicted.us;
  }
  return plan_beside(contexts, apart_us);
}

void describe_set(const VerifiedChain& chain, const FusionPlan& fusion, llvm::ArrayRef<int> set,
                  KernelPlan& kernel) {
  kernel.why = fusion.groups[set.front()].why;
  for (int member : set) {
    llvm::append_range(kernel.values, computed_values(chain, fusion, member));
    if (member == set.front()) continue;
    kernel.why += fmt::format("; '{}' shares an operand and the launch with it",
                              chain.value(fusion.groups[member].anchors[0].value).name);
  }
  llvm::sort(kernel.values);
  kernel.values.erase(std::unique(kernel.values.begin(), kernel.values.end()), kernel.values.end());
}

// What the second kernel of a group is for.
std::string second_why(const FusionGroup& group) {
  return group.kind == FusionGroup::Kind::kContraction ? "adds the partial sums of split-K"
                                                       : "combines the parts of the terms";
}

struct Bucketed {
  PlanBucket bucket;
  i64 workspace_bytes = 0;
};

// `may_share`: Variants::may_share.
Expected<Bucketed> plan_bucket(const VerifiedChain& chain, const Target& target,
                               const PlanOptions& options, const FusionPlan& fusion,
                               const MemoryMap& memory, llvm::ArrayRef<ValueId> may_share,
                               std::pair<i64, i64> range) {
  Bucketed result;
  result.bucket.lo = range.first;
  result.bucket.hi = range.second;
  result.workspace_bytes = memory.workspace_bytes;
  std::vector<GroupTensors> tensors;
  for (size_t g = 0; g < fusion.groups.size(); ++g) {
    tensors.push_back(build_group(chain, fusion, memory, static_cast<int>(g)));
  }
  const auto context = [&](int g) -> GroupContext {
    return {chain,
            target,
            options,
            fusion.groups[g],
            tensors[g],
            range.second,
            kernel_name(chain, result.bucket.kernels.size()),
            llvm::any_of(fusion.groups[g].anchors, [&](const GroupAnchor& anchor) {
              return llvm::is_contained(may_share, anchor.value);
            })};
  };
  std::vector<bool> done(fusion.groups.size(), false);
  for (int g = 0; g < static_cast<int>(fusion.groups.size()); ++g) {
    if (done[g]) continue;
    if (auto kernel = plan_set(fusion, g, context)) {
      for (int member : *set_from(fusion, g)) done[member] = true;
      if (Error error = check_limits(*kernel, target, range.second)) return error;
      describe_set(chain, fusion, *set_from(fusion, g), *kernel);
      result.bucket.kernels.push_back(std::move(*kernel));
      continue;
    }
    Expected<PlannedGroup> planned = plan_group(context(g), result.workspace_bytes);
    if (!planned) return planned.takeError();
    result.workspace_bytes = planned->workspace_bytes;
    const size_t before = result.bucket.kernels.size();
    for (KernelPlan& kernel : planned->kernels) {
      if (Error error = check_limits(kernel, target, range.second)) return error;
      const bool first = result.bucket.kernels.size() == before;
      kernel.why = first ? fusion.groups[g].why : second_why(fusion.groups[g]);
      kernel.values = computed_values(chain, fusion, g);
      result.bucket.kernels.push_back(std::move(kernel));
    }
    // The first kernel of split-K computes the anchors only.
    if (result.bucket.kernels.size() - before > 1 &&
        fusion.groups[g].kind == FusionGroup::Kind::kContraction) {
      auto& values = result.bucket.kernels[before].values;
      values.clear();
      for (const GroupAnchor& anchor : fusion.groups[g].anchors) values.push_back(anchor.value);
    }
  }
  // Every family executes the dependency wait on every path, before it reads anything but weights
  // and before it writes. Hardware before sm_90 has no programmatic launch.
  for (const KernelPlan& kernel : result.bucket.kernels)
    result.bucket.pdl.push_back(target.compute_capability() >= 90 && kernel.gains_by_pdl);
  result.workspace_bytes = share_workspace(result.bucket.kernels);
  return result;
}

// How a chain, or another form of it, may be fused, with where its values are.
struct Variant {
  const VerifiedChain* chain = nullptr;
  int form = -1;  // of Variants::forms
  FusionPlan fusion;
  MemoryMap memory;
  bool has_norms_inside() const { return fusion.has_norms_inside || fusion.has_formed_operands; }
};

struct Variants {
  std::vector<Variant> all;
  // Contractions that may run beside others in one launch in some variant (FusionPlan::beside).
  // Which variant is taken depends on M.
  std::vector<ValueId> may_share;
  // FusionPlan::kept_apart where operands are formed, of the first chain.
  std::vector<std::string> kept_apart;
  std::vector<ChainForm> forms;  // the canonical form and the others that a plan may compute
  std::vector<std::string> not_rewritten;  // why there is no other form, a sentence each
  bool is_algebraic(size_t i) const { return all[i].form >= 0 && forms[all[i].form].algebraic; }
  bool is_rounded(size_t i) const { return all[i].form >= 0 && forms[all[i].form].rounded; }
};

// `form`: number of the chain among those of the variants; -1: it is the chain as written.
void add_variants(const VerifiedChain& chain, int form, const PlanOptions& options,
                  Variants& variants) {
  const bool first = variants.all.empty();
  for (const FusionOptions& choice : fusion_choices(options.fuse, options.batch_invariant)) {
    FusionPlan fusion = fuse_chain(chain, choice);
    if (choice.formed_operands && !choice.row_reductions && first)
      variants.kept_apart = fusion.kept_apart;
    if (!is_as_asked(choice, fusion)) continue;
    for (const std::vector<int>& set : fusion.beside) {
      for (int g : set) variants.may_share.push_back(fusion.groups[g].anchors[0].value);
    }
    MemoryMap memory = map_memory(chain, fusion);
    variants.all.push_back({&chain, form, std::move(fusion), std::move(memory)});
  }
}

// With batch_invariant a row has one form for every M, and the prediction depends on M: norms are
// as written, and weights are rounded. True: the chain as written is allowed.
bool keep_one_form(Variants& variants) {
  const auto is_algebraic = [](const ChainForm& form) { return form.algebraic; };
  if (llvm::any_of(variants.forms, is_algebraic)) {
    variants.not_rewritten = {
        "norms are planned as written: with batch_invariant a row has one form for every M, and "
        "the prediction depends on M"};
    llvm::erase_if(variants.forms, is_algebraic);
  }
  if (variants.forms.empty()) return true;
  variants.not_rewritten.emplace_back(
      "weights are rounded: with batch_invariant a row has one form for every M, and the "
      "prediction depends on M");
  return false;
}

// Those of the canonical form come first. A kernel for each op is for comparison: of the chain as
// it is written, which has no algebraic form. The result points to the chain.
Variants fusion_variants(const VerifiedChain& written, const PlanOptions& options) {
  Variants variants;
  ChainForms forms = other_forms(written, options.algebraic_norms && options.fuse,
                                 written.chain().words.rounded_weights);
  variants.forms = std::move(forms.all);
  variants.not_rewritten = std::move(forms.kept);
  const bool has_own = !options.batch_invariant || keep_one_form(variants);
  const ChainForm own = options.fuse ? std::move(forms.canonical) : ChainForm();
  const VerifiedChain& chain = own.chain ? *own.chain : written;
  // With batch_invariant a row is summed in one order for every M.
  if (!options.batch_invariant && options.fuse) add_sums_of_products(chain, own, variants.forms);
  const int others = static_cast<int>(variants.forms.size());
  if (own.chain) variants.forms.push_back(own);
  if (has_own) add_variants(chain, own.chain ? others : -1, options, variants);
  for (int i = 0; i < others; ++i) add_variants(*variants.forms[i].chain, i, options, variants);
  return variants;
}

double predicted_us(const PlanBucket& bucket) {
  double us = 0;
  for (const KernelPlan& kernel : bucket.kernels) us += kernel.predicted.us;
  return us;
}

// The least predicted time of some variants; -1: none of them has kernels.
struct Fastest {
  double us = -1;
  std::string refusal;  // why the first of them has none
  void add(double other) { us = us < 0 ? other : std::min(us, other); }
  void add(const std::string& why) { refusal = refusal.empty() ? why : refusal; }

  // Why none of them was chosen, where they have `what`; empty: there are none.
  std::string why_not(std::string_view what, double chosen_us) const {
    if (us >= 0) {
      return fmt::format("with {} {:.2f} us are predicted, {:.2f} us without", what, us, chosen_us);
    }
    return refusal.empty() ? "" : fmt::format("{}: {}", what, refusal);
  }
};

// The fastest variants of some kinds: with a norm inside, with rows reduced in epilogues, of the
// algebraic form of norms, of rounded weights, of weights as written, with one kernel for unlike
// products.
struct FastestOfKinds {
  Fastest inside, rows, algebraic, rounded, unrounded, together;

  template <class Result>
  void add(const Variants& variants, size_t i, const Result& result) {
    if (variants.all[i].has_norms_inside()) inside.add(result);
    if (variants.all[i].fusion.has_row_reductions) rows.add(result);
    if (variants.is_algebraic(i)) algebraic.add(result);
    if (!variants.all[i].fusion.has_unlike_apart) together.add(result);
    (variants.is_rounded(i) ? rounded : unrounded).add(result);
  }
};

// What explain says of norms, row reductions and weights in a bucket.
void describe_choice(const Variants& variants, size_t chosen, const FastestOfKinds& fastest,
                     PlanBucket& bucket) {
  const double us = predicted_us(bucket);
  bucket.form = variants.all[chosen].form;
  const bool algebraic = variants.is_algebraic(chosen), rounded = variants.is_rounded(chosen);
  const auto say = [&](std::string why) {
    if (!why.empty()) bucket.kept_apart.push_back(std::move(why));
  };
  if (!variants.all[chosen].has_norms_inside()) {
    if (!algebraic) bucket.kept_apart = variants.kept_apart;
    say(fastest.inside.why_not("the norm inside", us));
  }
  if (!variants.all[chosen].fusion.has_row_reductions)
    say(fastest.rows.why_not("rows reduced in the epilogue", us));
  if (variants.all[chosen].fusion.has_unlike_apart)
    say(fastest.together.why_not("products of unlike layouts in one kernel", us));
  if (!algebraic) say(fastest.algebraic.why_not("the algebraic form of norms", us));
  say(rounded ? fastest.unrounded.why_not("weights dequantised in the products", us)
              : fastest.rounded.why_not("rounded weights", us));
  for (const std::string& why : variants.not_rewritten) say(why);
}

// How many of norms, gains and row reductions the products of a variant take.
int parts_inside(const Variant& variant) {
  return variant.fusion.has_norms_inside + variant.fusion.has_gains_inside +
         variant.fusion.has_formed_operands + variant.fusion.has_row_reductions;
}

// The variant that is predicted to be fastest; with prefer_inside the fastest of those with the
// most parts inside. Among equal ones the first. A variant may have no kernels; if none has, the
// error is that of the first. `chosen` is the variant's number.
Expected<Bucketed> plan_fastest(const Target& target, const PlanOptions& options,
                                const Variants& variants, std::pair<i64, i64> range,
                                size_t& chosen) {
  std::optional<Bucketed> best;
  ErrorReport first;
  FastestOfKinds fastest;
  for (size_t i = 0; i < variants.all.size(); ++i) {
    const Variant& variant = variants.all[i];
    Expected<Bucketed> planned = plan_bucket(*variant.chain, target, options, variant.fusion,
                                             variant.memory, variants.may_share, range);
    if (!planned) {
      const ErrorReport refused = take_report(planned.takeError());
      if (i == 0) first = refused;
      fastest.add(variants, i, refused.message);
      continue;
    }
    const double us = predicted_us(planned->bucket);
    fastest.add(variants, i, us);
    if (best) {
      const int more =
          options.prefer_inside ? parts_inside(variant) - parts_inside(variants.all[chosen]) : 0;
      if (more < 0 || (more == 0 && us >= predicted_us(best->bucket))) continue;
    }
    best = std::move(*planned);
    chosen = i;
  }
  if (!best) return make_error_text(first.code, std::move(first.message), first.at);
  describe_choice(variants, chosen, fastest, best->bucket);
  return std::move(*best);
}

bool same_kernels(const PlanBucket& a, const PlanBucket& b) {
  if (a.kernels.size() != b.kernels.size() || a.form != b.form) return false;
  for (size_t k = 0; k < a.kernels.size(); ++k) {
    if (!(a.kernels[k].config == b.kernels[k].config) ||
        a.kernels[k].beside != b.kernels[k].beside ||
        a.kernels[k].min_ctas != b.kernels[k].min_ctas) {
      return false;
    }
  }
  return true;
}

// Bytes that the groups' kernels move at the symbol's upper bound, every tensor once per kernel.
std::vector<i64> group_bytes(const VerifiedChain& chain, const FusionPlan& fusion, i64 symbol) {
  const MemoryMap memory = map_memory(chain, fusion);
  std::vector<i64> bytes;
  for (size_t g = 0; g < fusion.groups.size(); ++g) {
    const GroupTensors tensors = build_group(chain, fusion, memory, static_cast<int>(g));
    bytes.push_back(program_bytes(tensors, symbol));
  }
  return bytes;
}

// The same of all kernels of the last bucket. Contractions side by side read their operand once.
i64 bytes_moved(const VerifiedChain& chain, const Plan& plan, const FusionPlan& fusion) {
  const PlanBucket& bucket = plan.buckets.back();
  std::vector<i64> bytes = group_bytes(chain, fusion, bucket.hi);
  for (const std::vector<int>& set : fusion.beside) {
    const ValueId anchor = fusion.groups[set.front()].anchors[0].value;
    const auto joint = llvm::find_if(bucket.kernels, [&](const KernelPlan& kernel) {
      return !kernel.beside.empty() && llvm::is_contained(kernel.values, anchor);
    });
    if (joint == bucket.kernels.end()) continue;
    for (int member : set) bytes[member] = 0;
    bytes[set.front()] = joint->predicted.bytes;
  }
  return std::accumulate(bytes.begin(), bytes.end(), i64{0});
}

// `chosen`: of the last bucket.
void sum_up(const VerifiedChain& chain, Plan& plan, const Variant& chosen) {
  // Weights that are rounded are stored without fusion, too.
  const bool rounded = chosen.form >= 0 && plan.forms[chosen.form].rounded;
  const VerifiedChain& apart_chain = rounded ? *chosen.chain : chain;
  const FusionPlan unfused = fuse_chain(apart_chain, false);
  const FusionPlan& fusion = chosen.fusion;
  plan.fused_bytes = bytes_moved(*chosen.chain, plan, fusion);
  plan.fused_kernels = static_cast<int>(fusion.groups.size());
  for (const KernelPlan& kernel : plan.buckets.back().kernels) {
    plan.fused_kernels -= static_cast<int>(kernel.beside.size());
  }
  const auto apart = group_bytes(apart_chain, unfused, plan.buckets.back().hi);
  plan.unfused_bytes = std::accumulate(apart.begin(), apart.end(), i64{0});
  plan.unfused_kernels = static_cast<int>(unfused.groups.size());
  for (const KernelPlan& kernel : plan.buckets.back().kernels) {
    plan.roofline_us += kernel.predicted.floor_us;
  }
}

// Why the chain has no kernels. Where it would have some with rounded weights, that is the fix.
Error refusal(const VerifiedChain& chain, const Target& target, const PlanOptions& options,
              Error error) {
  ErrorReport report = take_report(std::move(error));
  const RewrittenChain form =
      chain.chain().words.rounded_weights ? RewrittenChain() : rounded_form(chain);
  if (report.code == ErrorCode::kUnsupported && form.chain) {
    Expected<Plan> rounded = make_plan(*form.chain, target, options);
    if (rounded) {
      report.message +=
          "; or give the chain the word rounded_weights: its dequantised weights are then rounded "
          "before they are multiplied";
    } else {
      llvm::consumeError(rounded.takeError());
    }
  }
  return make_error_text(report.code, std::move(report.message), report.at);
}

}  // namespace

const VerifiedChain& chain_of(const VerifiedChain& written, const Plan& plan,
                              const PlanBucket& bucket) {
  return bucket.form < 0 ? written : *plan.forms[bucket.form].chain;
}

Expected<Plan> make_plan(const VerifiedChain& chain, const Target& target,
                         const PlanOptions& given) {
  const DefaultNumerics numerics;
  PlanOptions options = given;
  options.batch_invariant |= chain.chain().words.batch_invariant;
  options.algebraic_norms |= chain.chain().words.algebraic_norms;
  if (target.compute_capability() < 80) {
    return make_error(ErrorCode::kUnsupported,
                      "target {} is {}: kernels need sm_80 or newer; pass another --target",
                      target.name, target.arch);
  }
  Plan plan;
  plan.target = target;
  const Variants variants = fusion_variants(chain, options);
  plan.forms = variants.forms;
  size_t chosen = 0;
  for (const auto& range : bucket_ranges(chain)) {
    auto planned = plan_fastest(target, options, variants, range, chosen);
    if (!planned) return refusal(chain, target, options, planned.takeError());
    plan.workspace_bytes = std::max(plan.workspace_bytes, planned->workspace_bytes);
    if (!plan.buckets.empty() && same_kernels(plan.buckets.back(), planned->bucket)) {
      planned->bucket.lo = plan.buckets.back().lo;
      plan.buckets.pop_back();
    }
    plan.buckets.push_back(std::move(planned->bucket));
  }
  sum_up(chain, plan, variants.all[chosen]);
  return plan;
}

int find_bucket(const Plan& plan, i64 symbol) {
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    if (symbol >= plan.buckets[i].lo && symbol <= plan.buckets[i].hi) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace catenary
