// SPDX-License-Identifier: Apache-2.0
// Plan -> the text and the JSON of `explain`. Both are read from the same plan and say the same;
// the text is aligned for a terminal of 100 columns, without colours. Decides nothing.
#include "compiler/explain.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compiler/kernel_family.h"
#include "ir/counted.h"
#include "ir/default_numerics.h"

namespace catenary {
namespace {

namespace json = llvm::json;

constexpr size_t kWidth = 100;
constexpr size_t kMargin = 14;  // where the text of a labelled line starts

// "12.0 MiB": three digits are enough to compare.
std::string bytes_text(i64 bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::fabs(value) >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, std::fabs(value) < 100 ? 1 : 0, kUnits[unit]);
}

std::string flops_text(double flops) {
  constexpr const char* kUnits[] = {"", "K", "M", "G", "T", "P"};
  double value = flops;
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} flop", flops);
  return fmt::format("{:.{}f} {}flop", value, value < 100 ? 1 : 0, kUnits[unit]);
}

std::string us_text(double us) { return fmt::format("{:.{}f} us", us, us < 100 ? 2 : 1); }

// A label and its text; words that pass the width go on below the text's start.
void line(std::string& out, std::string_view label, std::string_view text) {
  std::string row = fmt::format("  {:<{}}", label, kMargin - 2);
  bool fresh = true;
  llvm::SmallVector<llvm::StringRef, 32> words;
  llvm::StringRef(text.data(), text.size()).split(words, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef word : words) {
    if (!fresh && row.size() + 1 + word.size() > kWidth) {
      out += row + "\n";
      row.assign(kMargin, ' ');
      fresh = true;
    }
    if (!fresh) row += ' ';
    row += std::string_view(word);
    fresh = false;
  }
  while (!row.empty() && row.back() == ' ') row.pop_back();
  out += row + "\n";
}

std::string_view kind_text(SlotBinding::Kind kind) {
  switch (kind) {
    case SlotBinding::Kind::kParameter:
      return "parameter";
    case SlotBinding::Kind::kOutput:
      return "output";
    case SlotBinding::Kind::kWorkspace:
      return "workspace";
  }
  return "";
}

class Explainer {
 public:
  Explainer(const VerifiedChain& chain, const Plan& plan) : chain_(chain), plan_(plan) {}

  std::string text() const {
    std::string out = header();
    for (size_t b = 0; b < plan_.buckets.size(); ++b) {
      const PlanBucket& bucket = plan_.buckets[b];
      if (symbol()) {
        out += fmt::format("\nbucket {}: {} in {}..{}, figures at {} = {}, slots at the largest\n",
                           b, symbol()->name, bucket.lo, bucket.hi, symbol()->name, bucket.hi);
      }
      out += form_text(bucket);
      for (size_t k = 0; k < bucket.kernels.size(); ++k) out += kernel_text(bucket, k);
      if (!bucket.kept_apart.empty()) out += "\nkept apart\n";
      for (const std::string& why : bucket.kept_apart) line(out, "", why);
    }
    return out + totals_text();
  }

  json::Value value() const {
    json::Array buckets;
    for (const PlanBucket& bucket : plan_.buckets) {
      json::Array kernels;
      for (size_t k = 0; k < bucket.kernels.size(); ++k) kernels.push_back(kernel_json(bucket, k));
      json::Object object{{"lo", bucket.lo},
                          {"hi", bucket.hi},
                          {"predicted_us", predicted_us(bucket)},
                          {"kernels", std::move(kernels)},
                          {"kept_apart", json::Array(bucket.kept_apart)}};
      if (bucket.form >= 0) {
        const ChainForm& form = plan_.forms[bucket.form];
        const llvm::SmallVector<const char*, 4> names = form_names(form);
        for (const char* name : names) object[name] = true;
        object[names.front()] = json::Array(form.rewritten);
      }
      buckets.push_back(std::move(object));
    }
    json::Value range = nullptr;
    if (symbol()) {
      range = json::Object{{"name", symbol()->name}, {"lo", symbol()->lo}, {"hi", symbol()->hi}};
    }
    return json::Object{{"chain", chain_.chain().name},
                        {"target", target_json()},
                        {"symbol", std::move(range)},
                        {"buckets", std::move(buckets)},
                        {"totals", totals_json()}};
  }

 private:
  const std::optional<Symbol>& symbol() const { return chain_.chain().symbol; }
  const PlanBucket& last() const { return plan_.buckets.back(); }

  static double predicted_us(const PlanBucket& bucket) {
    double us = 0;
    for (const KernelPlan& kernel : bucket.kernels) us += kernel.predicted.us;
    return us;
  }

  static double flops(const PlanBucket& bucket) {
    double total = 0;
    for (const KernelPlan& kernel : bucket.kernels) total += kernel.predicted.flops;
    return total;
  }

  // Launches beyond one per fusion group: they combine the partial sums of split-K, or the parts of
  // a sum.
  int fix_ups() const { return static_cast<int>(last().kernels.size()) - plan_.fused_kernels; }

  // The names of what a form is in JSON; the first one has its clauses.
  static llvm::SmallVector<const char*, 4> form_names(const ChainForm& form) {
    llvm::SmallVector<const char*, 4> names;
    if (form.algebraic) names.push_back("algebraic");
    if (form.rounded) names.push_back("rounded");
    if (form.sums_products) names.push_back("sums_products");
    if (form.canonical) names.push_back("canonical");
    return names;
  }

  // What differs from the chain as it is written.
  std::string form_text(const PlanBucket& bucket) const {
    if (bucket.form < 0) return "";
    const ChainForm& form = plan_.forms[bucket.form];
    llvm::SmallVector<const char*, 4> parts;
    if (form.algebraic) parts.push_back("algebraic form of norms");
    if (form.rounded) parts.push_back("rounded weights");
    if (form.sums_products) parts.push_back("sums of products");
    if (form.canonical) parts.push_back("canonical form");
    std::string out = fmt::format("\n{}\n", fmt::join(parts, ", "));
    for (const std::string& what : form.rewritten) line(out, "", what);
    return out;
  }

  std::vector<std::string> names(const PlanBucket& bucket, const KernelPlan& kernel) const {
    const VerifiedChain& chain = chain_of(chain_, plan_, bucket);
    std::vector<std::string> result;
    for (ValueId id : kernel.values) result.push_back(chain.value(id).name);
    return result;
  }

  std::string header() const {
    const Target& t = plan_.target;
    std::string out;
    std::string words;
    for (const ChainWord& word : kChainWords) {
      if (chain_.chain().words.*word.member) words += fmt::format(", {}", word.summary);
    }
    line(out, "chain",
         fmt::format("{}: {}, {}, {}{}", chain_.chain().name,
                     counted(chain_.parameters().size(), "parameter"),
                     counted(chain_.num_values() - chain_.parameters().size(), "value"),
                     counted(chain_.chain().outputs.size(), "output"), words));
    line(out, "target",
         fmt::format("{} ({}): {} SMs at {:.2f} GHz, {:.0f} GB/s, {:.0f} TFLOP/s bf16, {} L2",
                     t.name, t.arch, t.sm_count, t.clock_ghz, t.dram_gbs, t.tensor_tflops,
                     bytes_text(t.l2_bytes)));
    return out;
  }

  // "ceil(M * 8 / 16) x 4 = 32": how the grid follows the symbol, and what it is at the upper end.
  std::string grid_text(const GridRule& grid, i64 hi) const {
    const i64 ctas = grid.ctas(hi);
    if (grid.scale == 0) return counted(ctas, "CTA");
    std::string rows = symbol()->name;
    if (grid.scale != 1) rows += fmt::format(" * {}", grid.scale);
    if (grid.block != 1) rows = fmt::format("ceil({} / {})", rows, grid.block);
    if (grid.extra != 0) rows = fmt::format("({} + {})", rows, grid.extra);
    if (grid.fixed != 1) rows += fmt::format(" * {}", grid.fixed);
    return fmt::format("{} = {}", rows, counted(ctas, "CTA"));
  }

  std::string slot_text(const SlotBinding& slot) const {
    std::string text = fmt::format("{:<9} {:<24} {:>10}, aligned to {}", kind_text(slot.kind),
                                   slot.name, bytes_text(slot.bytes), slot.align);
    if (slot.kind == SlotBinding::Kind::kWorkspace) {
      text += fmt::format(", at byte {}", slot.workspace_offset);
    }
    if (slot.in_place >= 0) {
      text += fmt::format(", in place of '{}'", parameter_name(slot.in_place));
    }
    return text;
  }

  // The arithmetic of families/roofline.h, with the terms that are not zero.
  std::string predicted_text(const Prediction& p) const {
    if (p.us == 0) return "counted in the kernel before";
    std::string roof;
    const auto add = [&](const char* name, double us) {
      if (us > 0) roof += fmt::format("{}{} {}", roof.empty() ? "" : ", ", name, us_text(us));
    };
    add("sm", p.sm_us);
    add("l2", p.l2_us);
    add("power", p.power_us);
    std::string text = fmt::format("{} = start {} + norm3(norm6({})", us_text(p.us),
                                   us_text(p.start_us), roof.empty() ? us_text(0) : roof);
    if (p.latency_us > 0) text += fmt::format(", latency {}", us_text(p.latency_us));
    text += fmt::format(", dram {})", us_text(p.dram_us));
    if (p.tail_us > 0) text += fmt::format(" + tail {}", us_text(p.tail_us));
    if (p.reduction_us > 0) text += fmt::format(" + reduction {}", us_text(p.reduction_us));
    return text;
  }

  std::string launch_text(const KernelPlan& k, i64 hi) const {
    std::string text = fmt::format("{} x {} threads", grid_text(k.grid, hi), k.threads);
    if (k.smem_bytes > 0)
      text += fmt::format(", {} of dynamic shared memory", bytes_text(k.smem_bytes));
    if (k.min_ctas > 1) text += fmt::format(", {} CTAs per SM", k.min_ctas);
    if (k.predicted.waves > 0) text += fmt::format(", {:.2f} waves", k.predicted.waves);
    return text;
  }

  std::string kernel_text(const PlanBucket& bucket, size_t index) const {
    const KernelPlan& k = bucket.kernels[index];
    std::string out = fmt::format("\nkernel {}: {}\n", index, k.symbol);
    line(out, "family", k.family->name());
    line(out, "computes", fmt::format("{}", fmt::join(names(bucket, k), ", ")));
    line(out, "why", k.why);
    line(out, "config", k.config_text);
    if (!k.tuned.empty()) line(out, "tuned", k.tuned);
    line(out, "launch", launch_text(k, bucket.hi));
    line(out, "starts", edge_text(bucket, index));
    line(out, "predicted", predicted_text(k.predicted));
    if (k.predicted.us != 0) {
      line(out, "moves",
           fmt::format("{}, {}", bytes_text(k.predicted.bytes), flops_text(k.predicted.flops)));
    }
    for (size_t s = 0; s < k.slots.size(); ++s) {
      out += fmt::format("  {:<{}}{}\n", fmt::format("slot {}", s), kMargin - 2,
                         slot_text(k.slots[s]));
    }
    for (size_t m = 0; m < k.maps.size(); ++m) {
      line(out, fmt::format("map {}", m), map_text(k, k.maps[m]));
    }
    for (size_t s = 0; s < k.scalars.size(); ++s) {
      line(out, fmt::format("scalar {}", s), parameter_name(k.scalars[s]));
    }
    for (const CandidateSummary& other : runner_ups(k)) {
      line(out, "runner-up", runner_up_text(k, other));
    }
    for (const FamilyRefusal& refusal : k.refusals) {
      line(out, "not taken", fmt::format("{}: {}", refusal.family, refusal.reason));
    }
    return out;
  }

  std::string edge_text(const PlanBucket& bucket, size_t index) const {
    if (index >= bucket.pdl.size() || !bucket.pdl[index]) {
      return index == 0 ? "when the stream's work before it has ended"
                        : "when the kernel before it has ended";
    }
    return index == 0 ? "before the stream's previous kernel has ended, if the caller allows it"
                      : "before the kernel before it has ended (programmatic dependent launch)";
  }

  // The best candidates that were not chosen.
  static std::vector<CandidateSummary> runner_ups(const KernelPlan& kernel) {
    constexpr size_t kShown = 3;
    std::vector<CandidateSummary> shown;
    for (const CandidateSummary& candidate : kernel.candidates) {
      if (!candidate.chosen && shown.size() < kShown) shown.push_back(candidate);
    }
    return shown;
  }

  static std::string runner_up_text(const KernelPlan& chosen, const CandidateSummary& other) {
    const std::string what = fmt::format("{}: {}", other.id.family, other.text);
    if (!other.rejected.empty()) return fmt::format("impossible: {}: {}", what, other.rejected);
    const double more = chosen.predicted.us > 0 ? other.us / chosen.predicted.us - 1 : 0;
    return fmt::format("{} ({:+.1f}%): {}", us_text(other.us), 100 * more, what);
  }

  std::string parameter_name(int position) const {
    return chain_.value(chain_.parameters()[position]).name;
  }

  std::string totals_text() const {
    std::string out = "\ntotals";
    if (symbol()) out += fmt::format(" at {} = {}", symbol()->name, last().hi);
    out += "\n";
    const double us = predicted_us(last());
    std::string kernels =
        fmt::format("{} fused, {} unfused", plan_.fused_kernels, plan_.unfused_kernels);
    if (fix_ups() > 0) kernels += fmt::format(", and {} that combine partial results", fix_ups());
    line(out, "kernels", kernels);
    const i64 saved = plan_.unfused_bytes - plan_.fused_bytes;
    const double share = plan_.unfused_bytes > 0 ? 100.0 * saved / plan_.unfused_bytes : 0;
    line(out, "bytes",
         fmt::format("{} fused, {} unfused: {} saved ({:.0f}%)", bytes_text(plan_.fused_bytes),
                     bytes_text(plan_.unfused_bytes), bytes_text(saved), share));
    line(out, "flops", flops_text(flops(last())));
    line(out, "predicted", us_text(us));
    line(out, "roofline",
         fmt::format("{}, {:.0f}% of the predicted time", us_text(plan_.roofline_us),
                     us > 0 ? 100 * plan_.roofline_us / us : 0));
    line(out, "workspace", bytes_text(plan_.workspace_bytes));
    return out;
  }

  json::Value target_json() const {
    const Target& t = plan_.target;
    return json::Object{{"name", t.name},
                        {"arch", t.arch},
                        {"sm_count", t.sm_count},
                        {"clock_ghz", t.clock_ghz},
                        {"smem_per_sm", t.smem_per_sm},
                        {"smem_per_cta", t.smem_per_cta},
                        {"l2_bytes", t.l2_bytes},
                        {"dram_gbs", t.dram_gbs},
                        {"tensor_tflops", t.tensor_tflops},
                        {"tf32_tflops", t.tf32_tflops},
                        {"f32_tflops", t.f32_tflops}};
  }

  static json::Value prediction_json(const Prediction& p) {
    return json::Object{
        {"us", p.us},           {"start_us", p.start_us}, {"sm_us", p.sm_us},
        {"l2_us", p.l2_us},     {"power_us", p.power_us}, {"latency_us", p.latency_us},
        {"dram_us", p.dram_us}, {"tail_us", p.tail_us},   {"reduction_us", p.reduction_us},
        {"waves", p.waves},     {"bytes", p.bytes},       {"flops", p.flops}};
  }

  static json::Value slot_json(const SlotBinding& slot) {
    json::Object object{{"kind", std::string(kind_text(slot.kind))},
                        {"name", slot.name},
                        {"bytes", slot.bytes},
                        {"align", slot.align}};
    if (slot.kind == SlotBinding::Kind::kWorkspace) {
      object["offset"] = slot.workspace_offset;
    } else {
      object["index"] = slot.index;
    }
    return object;
  }

  static json::Value runner_up_json(const CandidateSummary& other) {
    json::Object object{{"family", other.id.family},
                        {"tile", other.id.tile},
                        {"split_k", other.id.split_k},
                        {"config", other.text},
                        {"us", other.us}};
    if (!other.rejected.empty()) object["rejected"] = other.rejected;
    return object;
  }

  json::Value kernel_json(const PlanBucket& bucket, size_t index) const {
    const KernelPlan& k = bucket.kernels[index];
    json::Array values, slots, scalars, runner_ups;
    for (const std::string& name : names(bucket, k)) values.push_back(name);
    for (const SlotBinding& slot : k.slots) slots.push_back(slot_json(slot));
    for (int position : k.scalars) scalars.push_back(parameter_name(position));
    for (const CandidateSummary& other : Explainer::runner_ups(k)) {
      runner_ups.push_back(runner_up_json(other));
    }
    json::Object grid{
        {"ctas", k.grid.ctas(bucket.hi)}, {"fixed", k.grid.fixed}, {"size", k.grid.size},
        {"scale", k.grid.scale},          {"block", k.grid.block}, {"extra", k.grid.extra}};
    const bool overlap = index < bucket.pdl.size() && bucket.pdl[index];
    json::Value tuned = nullptr;
    if (!k.tuned.empty()) tuned = k.tuned;
    return json::Object{{"symbol", k.symbol},
                        {"family", std::string(k.family->name())},
                        {"tuned", std::move(tuned)},
                        {"values", std::move(values)},
                        {"why", k.why},
                        {"config", k.config_text},
                        {"grid", std::move(grid)},
                        {"threads", k.threads},
                        {"smem_bytes", k.smem_bytes},
                        {"min_ctas_per_sm", k.min_ctas},
                        {"pdl", overlap},
                        {"predicted", prediction_json(k.predicted)},
                        {"slots", std::move(slots)},
                        {"scalars", std::move(scalars)},
                        {"runner_ups", std::move(runner_ups)}};
  }

  json::Value totals_json() const {
    return json::Object{{"kernels", last().kernels.size()},
                        {"fused_kernels", plan_.fused_kernels},
                        {"unfused_kernels", plan_.unfused_kernels},
                        {"fused_bytes", plan_.fused_bytes},
                        {"unfused_bytes", plan_.unfused_bytes},
                        {"saved_bytes", plan_.unfused_bytes - plan_.fused_bytes},
                        {"flops", flops(last())},
                        {"predicted_us", predicted_us(last())},
                        {"roofline_us", plan_.roofline_us},
                        {"workspace_bytes", plan_.workspace_bytes}};
  }

  const VerifiedChain& chain_;
  const Plan& plan_;
};

}  // namespace

std::string explain_text(const VerifiedChain& chain, const Plan& plan) {
  const DefaultNumerics numerics;
  return Explainer(chain, plan).text();
}

json::Value explain_json(const VerifiedChain& chain, const Plan& plan) {
  const DefaultNumerics numerics;
  return Explainer(chain, plan).value();
}

}  // namespace catenary
