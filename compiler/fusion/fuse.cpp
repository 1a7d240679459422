// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/fuse.h"

#include "compiler/fusion/anchors.h"
#include "compiler/fusion/beside.h"
#include "compiler/fusion/column_sums.h"
#include "compiler/fusion/edit_groups.h"
#include "compiler/fusion/formed.h"
#include "compiler/fusion/gain.h"
#include "compiler/fusion/group.h"
#include "compiler/fusion/in_place.h"
#include "compiler/fusion/norm.h"
#include "compiler/fusion/recomputed.h"
#include "compiler/fusion/row_reductions.h"
#include "compiler/fusion/stored_terms.h"

#include <algorithm>

#include "llvm/ADT/SmallPtrSet.h"

namespace catenary {
namespace {

using Kind = FusionGroup::Kind;

// "a sum": what an anchor is, for messages.
std::string_view anchor_text(Op op) {
  if (op == Op::kContract) return "a contraction";
  return op == Op::kSum ? "a sum" : "a maximum";
}

// Whether a kernel computes a value of this op. A weight is dequantised by the contraction that
// reads it.
bool has_place(Op op) { return op != Op::kParameter && op != Op::kConstant && op != Op::kDequant; }

// Who reads an operand by group, for messages.
constexpr std::string_view kByGroup = "a kernel takes by group";

bool same_shape(llvm::ArrayRef<Dim> a, llvm::ArrayRef<Dim> b) { return a == b; }

std::string shape_text(const VerifiedChain& chain, llvm::ArrayRef<Dim> shape) {
  std::string text = "[";
  for (const Dim& dim : shape) {
    text += fmt::format("{}{}", text.size() > 1 ? ", " : "",
                        dim.symbolic ? chain.chain().symbol->name : fmt::to_string(dim.size));
  }
  return text + "]";
}

class Fuser {
 public:
  Fuser(const VerifiedChain& chain, const FusionOptions& options)
      : chain_(chain), fuse_(options.fuse) {
    plan_.group_of.assign(chain.num_values(), -1);
    if (!fuse_) return;
    sets_ = find_anchor_sets(
        chain, options.unlike_apart ? UnlikeAnchors::kApart : UnlikeAnchors::kTogether);
    plan_.has_unlike_apart = sets_.has_unlike_apart;
  }

  FusionPlan run() {
    if (fuse_) {
      place_dequantised();
      materialise_group_operands();
    }
    for (ValueId id = 0; id < chain_.num_values(); ++id) place(id);
    for (const Output& output : chain_.chain().outputs)
      materialise(output.value, "the caller wants");
    find_stored();
    return std::move(plan_);
  }

 private:
  const Value& value(ValueId id) const { return chain_.value(id); }
  llvm::ArrayRef<Dim> shape(ValueId id) const { return chain_.info(id).type.shape; }
  int group_of(ValueId id) const { return plan_.group_of[id]; }

  // An operand that a kernel takes by group must be 0 in a row of no group, so it is loaded and
  // never recomputed: one that depends only on parameters is stored by a kernel before.
  void materialise_group_operands() {
    std::vector<bool> computed(chain_.num_values(), false);  // needs a contraction or a sum
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      const Value& v = value(id);
      computed[id] = v.op == Op::kContract || is_reduction(v.op);
      for (size_t i = 0; i < v.operands.size(); ++i) {
        const ValueId operand = v.operands[i].value;
        computed[id] = computed[id] || computed[operand];
        const auto& groups = chain_.info(id).operand_group;
        if (!groups.empty() && groups[i] >= 0 && !computed[operand]) materialise(operand, kByGroup);
      }
    }
  }

  bool is_dequantised(ValueId id) const {
    const Value& v = value(id);
    return v.op == Op::kCast && value(v.operands[0].value).op == Op::kDequant;
  }

  // Casts of dequantised weights come first: they read only parameters, and contractions that share
  // a kernel or a launch then find all of theirs.
  void place_dequantised() {
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      if (is_dequantised(id)) add_dequantised(id);
    }
  }

  void add_dequantised(ValueId id) {
    const int group = add_group(
        Kind::kDequant, id,
        fmt::format("'{}' is a dequantised weight, which is stored as a matrix", value(id).name));
    plan_.groups[group].accumulators.push_back(value(id).operands[0].value);
    pending_group_.resize(plan_.groups.size());
  }

  int add_group(Kind kind, ValueId first, std::string why) {
    FusionGroup group;
    group.kind = kind;
    group.shape.assign(shape(first).begin(), shape(first).end());
    if (kind == Kind::kContraction || kind == Kind::kReduction) {
      group.anchors.push_back({first, group.shape});
      group.accumulators.push_back(first);
    }
    group.why = std::move(why);
    plan_.groups.push_back(std::move(group));
    join(static_cast<int>(plan_.groups.size()) - 1, first);
    return static_cast<int>(plan_.groups.size()) - 1;
  }

  void join(int group, ValueId id) {
    plan_.groups[group].values.push_back(id);
    plan_.group_of[id] = group;
  }

  // A value that other kernels must find in memory. One that depends only on parameters joins a
  // group that reads them anyway, or a pointwise group of its shape that was made for another such
  // value; else a pointwise group is made for it.
  void materialise(ValueId id, std::string_view reader) {
    const Value& v = value(id);
    if (group_of(id) >= 0 || !has_place(v.op)) return;
    if (fuse_) {
      place_ready();
      if (group_of(id) >= 0 || join_reader(id)) return;
    }
    store_apart(id, reader);
  }

  // The same by a pointwise group that has only such values.
  void store_apart(ValueId id, std::string_view reader) {
    for (size_t g = 0; fuse_ && g < plan_.groups.size(); ++g) {
      if (pending_group_[g] && same_shape(plan_.groups[g].shape, shape(id)) &&
          knows_groups(static_cast<int>(g), id)) {
        join(static_cast<int>(g), id);
        return;
      }
    }
    add_group(Kind::kPointwise, id,
              fmt::format("'{}' depends only on parameters, and {} it in memory", value(id).name,
                          reader));
    pending_group_.resize(plan_.groups.size());
    pending_group_.back() = true;
  }

  // Bytes of the tensor at the symbol's upper bound.
  i64 bytes_of(ValueId id) const {
    return num_elements(chain_.info(id).type) * dtype_bytes(chain_.info(id).type.dtype);
  }

  // The tensors in memory that `reader` takes `id` from, itself or what it recomputes `id` from.
  // `seen`: values that this reader was asked about before.
  void add_leaves(ValueId id, int reader, std::vector<bool>& seen,
                  std::vector<bool>& leaves) const {
    if (seen[id] || (reader >= 0 && group_of(id) == reader)) return;
    seen[id] = true;
    const Value& v = value(id);
    if (group_of(id) >= 0 || (v.op == Op::kParameter && v.role != Role::kScalar)) {
      leaves[id] = true;
      return;
    }
    for (const Use& use : v.operands) add_leaves(use.value, reader, seen, leaves);
  }

  // What `values` are computed from, those of group `reader` (-1: of none). The matrices of a
  // contraction do not count: an epilogue does not have their elements.
  std::vector<bool> leaves_of(llvm::ArrayRef<ValueId> values, int reader) const {
    std::vector<bool> seen(chain_.num_values(), false);
    std::vector<bool> leaves(chain_.num_values(), false);
    for (ValueId id : values) {
      if (value(id).op == Op::kContract) continue;
      for (const Use& use : value(id).operands) add_leaves(use.value, reader, seen, leaves);
    }
    return leaves;
  }

  // Places the elementwise values whose operands have their places: groups then read all that they
  // read.
  void place_ready() {
    std::vector<bool> ready(chain_.num_values(), false);
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      const Value& v = value(id);
      const bool anchor = v.op == Op::kContract || is_reduction(v.op);
      ready[id] =
          group_of(id) >= 0 ||
          (!anchor && llvm::all_of(v.operands, [&](const Use& use) { return ready[use.value]; }));
      if (ready[id] && !anchor) place(id);
    }
  }

  bool is_in_place(ValueId id) const {
    return llvm::any_of(chain_.chain().outputs, [&](const Output& output) {
      return output.value == id && output.in_place >= 0;
    });
  }

  // The group of the value's shape where it saves the most bytes: those of tensors that the group
  // reads anyway. Tensors that it would read besides must be fewer bytes. An output in place is
  // left for last, when all have read what it overwrites.
  bool join_reader(ValueId id) {
    if (is_in_place(id)) return false;
    const std::vector<bool> needed = leaves_of({id}, -1);
    int best = -1;
    i64 most = 0;
    for (size_t g = 0; g < plan_.groups.size(); ++g) {
      const FusionGroup& group = plan_.groups[g];
      if (group.kind == Kind::kDequant || !same_shape(group.shape, shape(id))) continue;
      if (!knows_groups(static_cast<int>(g), id)) continue;
      const std::vector<bool> read = leaves_of(group.values, static_cast<int>(g));
      i64 shared = 0, added = 0;
      for (ValueId leaf = 0; leaf < chain_.num_values(); ++leaf) {
        if (needed[leaf]) (read[leaf] ? shared : added) += bytes_of(leaf);
      }
      if (shared > std::max(most, added)) {
        best = static_cast<int>(g);
        most = shared;
      }
    }
    if (best < 0) return false;
    plan_.groups[best].why += fmt::format(
        "; '{}' joins it: it needs only tensors that the kernel reads anyway", value(id).name);
    join(best, id);
    return true;
  }

  void place_anchor(ValueId id) {
    const Value& v = value(id);
    // A reduction may form its terms itself; the tensor cores read memory.
    for (const Use& use : v.operands) {
      if (v.op == Op::kContract || !fuse_)
        materialise(use.value, fmt::format("{} reads", anchor_text(v.op)));
    }
    if (fuse_ && sets_.sum_of[id] >= 0) return place_summand(id);
    const ValueId partner = fuse_ ? sets_.partner[id] : -1;
    const int earlier = partner < 0 || partner > id ? -1 : group_of(partner);
    // The pair holds only if nothing that the second half reads is computed in or after the first.
    if (earlier >= 0 && operands_group(v) < earlier) {
      FusionGroup& group = plan_.groups[earlier];
      group.anchors.push_back({id, {shape(id).begin(), shape(id).end()}});
      group.accumulators.push_back(id);
      group.why += fmt::format("; '{}' shares an operand and an epilogue with it", v.name);
      join(earlier, id);
      return;
    }
    add_group(
        is_reduction(v.op) ? Kind::kReduction : Kind::kContraction, id,
        fmt::format("'{}' is {}: it reads its operands from memory", v.name, anchor_text(v.op)));
    pending_group_.resize(plan_.groups.size());
  }

  // Contractions with one accumulator start a group where the last of them is; nothing else reads
  // the others.
  void place_summand(ValueId id) {
    const ContractionSum& sum = sets_.sums[sets_.sum_of[id]];
    if (id != sum.contractions.back()) return;
    std::string names;
    for (ValueId part : sum.contractions)
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", value(part).name);
    const ValueId first = sum.contractions.front();
    const int index = add_group(
        Kind::kContraction, first,
        fmt::format("{} are contractions that add up to '{}': they read their operands from "
                    "memory and have one accumulator",
                    names, value(sum.value).name));
    pending_group_.resize(plan_.groups.size());
    FusionGroup& group = plan_.groups[index];
    group.accumulators = {sum.value};
    for (ValueId part : llvm::drop_begin(sum.contractions)) {
      group.anchors.push_back({part, group.shape});
      join(index, part);
    }
    for (ValueId addition : sum.additions) join(index, addition);
  }

  int operands_group(const Value& v) const {
    int latest = -1;
    for (const Use& use : v.operands) latest = std::max(latest, group_of(use.value));
    return latest;
  }

  bool takes_by_group(ValueId id) const {
    return llvm::any_of(chain_.info(id).operand_group, [](int dim) { return dim >= 0; });
  }

  // Does the kernel of `group` know the groups of the rows by which `id` takes operands? That of
  // the ragged contraction of these rows does, and a pointwise kernel finds those of one dimension.
  bool knows_groups(int group, ValueId id) const {
    if (!takes_by_group(id)) return true;
    const GroupedRows& rows = *chain_.info(id).rows;
    const auto same = [&](const std::optional<GroupedRows>& known) {
      return known && known->dim == rows.dim && known->ends == rows.ends;
    };
    const FusionGroup& to = plan_.groups[group];
    if (to.kind == Kind::kReduction) return false;
    if (to.kind == Kind::kContraction) return same(chain_.info(to.anchors[0].value).rows);
    return llvm::all_of(to.values, [&](ValueId other) {
      return !takes_by_group(other) || same(chain_.info(other).rows);
    });
  }

  // Does `id` read every value of `group` at its own coordinates? A transposed use needs memory,
  // and so does one by group.
  bool reads_in_place(ValueId id, int group) const {
    const Value& v = value(id);
    for (size_t i = 0; i < v.operands.size(); ++i) {
      if (group_of(v.operands[i].value) != group) continue;
      if (!chain_.info(id).operand_group.empty() && chain_.info(id).operand_group[i] >= 0)
        return false;
      const auto& dims = chain_.info(id).operand_dims[i];
      for (size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] != static_cast<int>(d) && shape(id)[d] != Dim{1, false}) return false;
      }
    }
    return true;
  }

  void store_group_operands(ValueId id) {
    const auto& groups = chain_.info(id).operand_group;
    for (size_t i = 0; i < groups.size(); ++i) {
      const ValueId operand = value(id).operands[i].value;
      if (groups[i] >= 0 && group_of(operand) < 0 && has_place(value(operand).op))
        store_apart(operand, kByGroup);
    }
  }

  void place(ValueId id) {
    const Value& v = value(id);
    if (!has_place(v.op) || group_of(id) >= 0) return;
    if (takes_by_group(id)) store_group_operands(id);
    if (v.op == Op::kContract || is_reduction(v.op)) return place_anchor(id);
    const int latest = operands_group(v);
    if (is_dequantised(id)) return add_dequantised(id);
    if (!fuse_) {
      add_group(Kind::kPointwise, id, "fusion is off");
      pending_group_.resize(plan_.groups.size());
      return;
    }
    if (latest < 0 && !takes_by_group(id)) return;  // recomputed where it is read
    const bool same = latest >= 0 && same_shape(plan_.groups[latest].shape, shape(id));
    const bool known = latest >= 0 && knows_groups(latest, id);
    const bool dequant = latest >= 0 && plan_.groups[latest].kind == Kind::kDequant;
    if (same && known && !dequant && reads_in_place(id, latest)) return join(latest, id);
    add_group(
        Kind::kPointwise, id,
        latest < 0 || !known
            ? fmt::format("'{}' takes an operand by the group of a row, which its kernel finds",
                          v.name)
        : dequant
            ? fmt::format("'{}' reads a dequantised weight, whose kernel computes no more", v.name)
        : same ? fmt::format("'{}' reads a value of the kernel before it in another order", v.name)
               : fmt::format("'{}' is {}, the kernel before it computes {}", v.name,
                             shape_text(chain_, shape(id)),
                             shape_text(chain_, plan_.groups[latest].shape)));
    pending_group_.resize(plan_.groups.size());
  }

  void mark_stored(ValueId id) {
    auto& outputs = plan_.groups[group_of(id)].outputs;
    if (llvm::any_of(outputs, [&](const GroupOutput& output) { return output.value == id; }))
      return;
    outputs.push_back({id, {shape(id).begin(), shape(id).end()}, false});
  }

  // What the group `reader` needs of `id`: a stored value, or, through values that are recomputed,
  // whatever those need. `seen`: values that this reader was asked about before.
  void mark_read(ValueId id, int reader, std::vector<bool>& seen) {
    if (group_of(id) == reader || seen[id]) return;
    seen[id] = true;
    if (reads_memory(plan_, id, reader)) return mark_stored(id);
    for (const Use& use : value(id).operands) mark_read(use.value, reader, seen);
  }

  void find_stored() {
    for (size_t g = 0; g < plan_.groups.size(); ++g) {
      const auto values = plan_.groups[g].values;
      std::vector<bool> seen(chain_.num_values(), false);
      for (ValueId id : values) {
        for (const Use& use : value(id).operands) mark_read(use.value, static_cast<int>(g), seen);
      }
    }
    for (const Output& output : chain_.chain().outputs) mark_stored(output.value);
    for (FusionGroup& group : plan_.groups) {
      llvm::sort(group.outputs,
                 [](const GroupOutput& a, const GroupOutput& b) { return a.value < b.value; });
    }
  }

  const VerifiedChain& chain_;
  bool fuse_;
  FusionPlan plan_;
  AnchorSets sets_;  // empty without fusion
  std::vector<bool> pending_group_;
};

// A value may have moved to an earlier group. Groups between its two places then read it from
// memory instead of forming it, so it is stored.
void store_read_values(const VerifiedChain& chain, FusionPlan& plan) {
  for (int g = 0; g < static_cast<int>(plan.groups.size()); ++g) {
    for (ValueId id : read_values(chain, plan, g)) store_value(chain, plan, id);
  }
}

}  // namespace

FusionPlan fuse_chain(const VerifiedChain& chain, FusionOptions options) {
  FusionPlan plan = Fuser(chain, options).run();
  if (options.fuse && options.gains_inside)
    plan.has_gains_inside = move_gains_inside(chain, plan, options.formed_operands);
  if (options.fuse && options.formed_operands)
    plan.has_formed_operands = form_operands_inside(chain, plan);
  if (options.fuse && options.norms_inside) plan.has_norms_inside = move_norms_inside(chain, plan);
  if (options.fuse && options.row_reductions)
    plan.has_row_reductions = move_row_reductions_inside(chain, plan, !options.batch_invariant);
  if (options.fuse && options.column_sums) {
    const bool inside = move_column_sums_inside(chain, plan);
    plan.has_column_sums = store_terms_in_sums(chain, plan) || inside;
  }
  if (options.fuse) store_read_values(chain, plan);
  if (options.fuse && !options.batch_invariant) recompute_values(chain, plan);
  add_copies(chain, plan);
  if (options.fuse) find_beside(chain, plan);
  return plan;
}

std::vector<FusionOptions> fusion_choices(bool fuse, bool batch_invariant) {
  std::vector<FusionOptions> choices;
  FusionOptions choice;
  choice.fuse = fuse;
  choice.batch_invariant = batch_invariant;
  for (int i = 0; i < (batch_invariant ? 2 : 4); ++i) {
    choice.row_reductions = i % 2 != 0;
    choice.unlike_apart = i / 2 != 0;
    for (const auto& [gains, formed] : {std::pair(false, false), {true, false}, {true, true}}) {
      choice.gains_inside = gains;
      choice.formed_operands = formed;
      for (const bool norms : {false, true}) {
        choice.norms_inside = norms;
        for (const bool sums : {false, true}) {
          choice.column_sums = sums;
          choices.push_back(choice);
        }
      }
    }
  }
  return choices;
}

bool is_as_asked(const FusionOptions& options, const FusionPlan& fusion) {
  const bool operands = options.formed_operands ? fusion.has_formed_operands
                                                : options.gains_inside == fusion.has_gains_inside;
  return operands && options.norms_inside == fusion.has_norms_inside &&
         options.column_sums == fusion.has_column_sums &&
         options.row_reductions == fusion.has_row_reductions &&
         options.unlike_apart == fusion.has_unlike_apart;
}

}  // namespace catenary
