// SPDX-License-Identifier: Apache-2.0
// A struct's designated initialisers as C++ text: named fields in declaration order, defaults left
// out where the reader needs no reminder. What is printed is what the kernel reads.
#pragma once

#include <string>
#include <vector>

#include "compiler/emit/writer.h"

namespace catenary {

class Fields {
 public:
  // ".name = value,".
  template <class T>
  Fields& add(const char* name, const T& value) {
    append(name, cpp_text(value));
    return *this;
  }
  // The same; nothing where the value is the struct's default.
  template <class T>
  Fields& add_unless_default(const char* name, const T& value, const T& standard) {
    return value == standard ? *this : add(name, value);
  }
  // ".name = {.a = 1, .b = 2},".
  Fields& add(const char* name, const Fields& part) {
    append(name, part.braces());
    return *this;
  }
  // ".name = {{.a = 1}, {.a = 2}},".
  using List = std::vector<Fields>;
  Fields& add(const char* name, const List& parts) {
    std::string text;
    for (const Fields& part : parts) text += (text.empty() ? "" : ", ") + part.braces();
    append(name, "{" + text + "}");
    return *this;
  }
  // The fields added next start a new line.
  Fields& line();

  // Body of a `constexpr <Type> kConfig{...};`.
  const std::string& str() const { return text_; }
  // "{.a = 1, .b = 2}" from fields on one line.
  std::string braces() const;

 private:
  void append(const char* name, const std::string& value);

  std::string text_;
  bool starts_line_ = false;
};

// The parts that the configs of several families have.
Fields fields_of(const ContractionSpace& space);
Fields fields_of(const GainOperand& gain);
Fields fields_of(const RaggedGroups& ragged);
Fields fields_of(const GroupEnds& ends);
Fields fields_of(const MatrixOperand& operand);
Fields fields_of(const Sm90Operand& operand);

// {.a = ..., .b = ..., .k = 64}.
template <class MatrixOf>
Fields fields_of(const KSegment<MatrixOf>& segment) {
  Fields fields;
  fields.add("a", fields_of(segment.a)).add("b", fields_of(segment.b)).add("k", segment.k);
  return fields.add_unless_default("k_outer", segment.k_outer, i64{1});
}

// What the config of a GEMM family says of the contraction, a line each: `space`, the operands `a`,
// `b` and `b2`, `dual`, the K segments after the first.
template <class Config>
Fields contraction_fields(const Config& config) {
  Fields fields;
  fields.line().add("space", fields_of(config.space));
  fields.line().add("a", fields_of(config.a));
  fields.line().add("b", fields_of(config.b));
  if (config.dual) fields.line().add("b2", fields_of(config.b2)).add("dual", true);
  if (config.segments == 1) return fields;
  Fields::List more;
  for (i32 i = 0; i + 1 < config.segments; ++i) more.push_back(fields_of(config.more[i]));
  fields.line().add("segments", config.segments).add("more", more);
  return fields;
}

}  // namespace catenary
