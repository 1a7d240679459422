// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/fields.h"

#include <fmt/format.h>

namespace catenary {

Fields& Fields::line() {
  if (!text_.empty() && text_.back() != '\n') text_ += "\n";
  starts_line_ = true;
  return *this;
}

std::string Fields::braces() const {
  std::string text = text_;
  if (!text.empty()) text.pop_back();
  return "{" + text + "}";
}

void Fields::append(const char* name, const std::string& value) {
  if (starts_line_) {
    text_ += "    ";
  } else if (!text_.empty()) {
    text_ += " ";
  }
  starts_line_ = false;
  text_ += fmt::format(".{} = {},", name, value);
}

Fields fields_of(const ContractionSpace& s) {
  const ContractionSpace d;
  Fields fields;
  fields.add("math", s.math);
  fields.add_unless_default("batch", s.batch, d.batch)
      .add_unless_default("batch_rank", s.batch_rank, d.batch_rank);
  fields.add("m", s.m).add("n", s.n).add("k", s.k).add_unless_default("k_outer", s.k_outer,
                                                                      d.k_outer);
  return fields;
}

Fields fields_of(const GainOperand& g) {
  Fields fields;
  fields.add("used", g.used).add("slot", g.slot);
  fields.add_unless_default("weight", g.weight, GainOperand().weight);
  return fields;
}

Fields fields_of(const RaggedGroups& r) {
  Fields fields;
  fields.add("kind", r.kind).add("group_ends_slot", r.group_ends_slot);
  fields.add("num_groups", r.num_groups);
  return fields;
}

Fields fields_of(const GroupEnds& e) {
  Fields fields;
  fields.add("num_groups", e.num_groups).add("slot", e.slot).add("dim", e.dim);
  return fields;
}

Fields fields_of(const MatrixOperand& o) {
  const MatrixOperand d;
  Fields fields;
  fields.add("slot", o.slot);
  fields.add_unless_default("stride_row", o.stride_row, d.stride_row);
  fields.add_unless_default("stride_k", o.stride_k, d.stride_k);
  fields.add_unless_default("stride_outer", o.stride_outer, d.stride_outer);
  fields.add_unless_default("stride_group", o.stride_group, d.stride_group);
  fields.add_unless_default("stride_batch", o.stride_batch, d.stride_batch);
  fields.add_unless_default("k_major", o.k_major, d.k_major).add("copy_bytes", o.copy_bytes);
  return fields;
}

Fields fields_of(const Sm90Operand& o) {
  const Sm90Operand d;
  Fields fields;
  if (!o.by_cp_async) fields.add("map", o.map);
  fields.add_unless_default("k_major", o.k_major, d.k_major)
      .add_unless_default("weight", o.weight, d.weight);
  if (o.by_cp_async) {
    return fields.add("by_cp_async", true).add("memory", fields_of(o.memory));
  }
  fields.add_unless_default("coord2", o.coord2, d.coord2)
      .add_unless_default("coord3", o.coord3, d.coord3);
  return fields.add_unless_default("coord4", o.coord4, d.coord4);
}

}  // namespace catenary
