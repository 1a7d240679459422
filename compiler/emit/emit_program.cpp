// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/emit_program.h"

#include <fmt/format.h>

#include "compiler/emit/writer.h"

namespace catenary {
namespace {

using Kind = ProgramLine::Kind;

class ProgramPrinter {
 public:
  ProgramPrinter(const Program& program, const ProgramText& text)
      : program_(program), text_(text) {}

  void open() {
    out_ += fmt::format("struct {} {{\n", text_.name);
    out_ += "  struct Operands {\n";
    each(Kind::kLoad, [&](const ProgramLine& line) {
      out_ += fmt::format("    Vec<{}> v_{};\n", text_.vec, line.name);
    });
    out_ += "  };\n";
    loads("load_weights", true);
    loads("load", false);
  }

  // Stationary operands are loaded by a function of their own: it may run before the dependency
  // wait.
  void loads(const char* function, bool weights) {
    out_ += fmt::format(
        "  static CATENARY_DEVICE void {}(const P& p, const Coord& at, Operands& in) {{\n",
        function);
    each(Kind::kLoad, [&](const ProgramLine& line) {
      if (line.operand.weight != weights) return;
      out_ += fmt::format("    in.v_{} = load_vec<{}, {}, {}>(p, at);  // {}\n", line.name,
                          cpp_text(line.operand), text_.vec, text_.guarded, line.comment);
    });
    out_ += "  }\n";
  }

  void lines() {
    for (const ProgramLine& line : program_) out_ += print(line);
  }

  void raw(const std::string& text) { out_ += text; }
  void close() { out_ += "};\n"; }
  const std::string& str() const { return out_; }

  // The operands of accumulators that stay where they lie: those that differ from column to column
  // of D, as pairs which wait in registers, and the others; each with a struct and a function.
  void open_in_registers() {
    out_ += fmt::format("struct {} {{\n", text_.name);
    for (const bool columns : {true, false}) {
      out_ += columns ? "  struct Columns {\n" : "  struct Rows {\n";
      each_of(columns, [&](const ProgramLine& line) {
        if (columns) {
          out_ += fmt::format("    static constexpr Operand o_{0} = {1};\n    Pair<o_{0}> v_{0};\n",
                              line.name, cpp_text(line.operand));
        } else {
          out_ += fmt::format("    Vec<{}> v_{};\n", text_.vec, line.name);
        }
      });
      out_ += fmt::format(
          "  }};\n  static CATENARY_DEVICE void {}(const P& p, const Coord& at, "
          "{}& in) {{\n",
          columns ? "load_columns" : "load_rows", columns ? "Columns" : "Rows");
      each_of(columns, [&](const ProgramLine& line) {
        out_ += columns ? fmt::format("    in.v_{0} = load_pair<Columns::o_{0}>(p, at);  // {1}\n",
                                      line.name, line.comment)
                        : fmt::format("    in.v_{} = load_vec<{}, {}, false>(p, at);  // {}\n",
                                      line.name, cpp_text(line.operand), text_.vec, line.comment);
      });
      out_ += "  }\n";
    }
  }

  // The outputs' places, in the order of the program's stores.
  void outputs() {
    std::string list;
    int count = 0;
    each(Kind::kStore, [&](const ProgramLine& line) {
      list += (count++ > 0 ? ",\n      " : "\n      ") + cpp_text(line.operand);
    });
    out_ += fmt::format("  static constexpr int kOutputCount = {};\n", count);
    out_ += fmt::format("  static constexpr bool kShort = {};\n", is_short());
    out_ += fmt::format("  static constexpr Operand kOutputs[] = {{{}}};\n", list);
  }

  // The stores of the sums of rows, at the coordinates of a sum.
  void row_sums() {
    if (text_.column_sums == 0) return;
    out_ += fmt::format(
        "  static CATENARY_DEVICE void store_rows(const P& p, const Coord& at, const Vec<{}>* "
        "rows) {{\n",
        text_.vec);
    int number = 0;
    each(Kind::kStore, [&](const ProgramLine& line) {
      if (line.operand.rows == 1) return;
      out_ += fmt::format("    store_vec<{}, {}, {}>(p, at, rows[{}]);  // %{}\n",
                          cpp_text(line.operand), text_.vec, text_.guarded, number++, line.name);
    });
    out_ += "  }\n";
  }

  std::string variable(int line) const {
    const ProgramLine& l = program_[line];
    if (l.kind != Kind::kLoad) return fmt::format("v_{}", l.name);
    if (!text_.register_epilogue) return fmt::format("in.v_{}", l.name);
    return varies_along_n(l) ? fmt::format("columns.v_{}.values()", l.name)
                             : fmt::format("rows.v_{}", l.name);
  }

  // Constants and scalars are floats; map() takes them as they are, stores and rounds do not.
  std::string as_vector(int line) const {
    const Kind kind = program_[line].kind;
    if (kind != Kind::kConstant && kind != Kind::kScalar) return variable(line);
    return fmt::format("splat<{}>({})", text_.vec, variable(line));
  }

 private:
  template <class F>
  void each(Kind kind, F f) {
    for (const ProgramLine& line : program_) {
      if (line.kind == kind) f(line);
    }
  }

  // Little to do for each value: few results, and few ops, of one instruction each (those that
  // round at most once).
  bool is_short() const {
    constexpr int kMostLines = 3;
    int lines = 0;
    for (const ProgramLine& line : program_) {
      if (line.kind == Kind::kCompute && op_info(line.op).error > 1) return false;
      if (line.kind == Kind::kCompute || line.kind == Kind::kStore) ++lines;
    }
    return lines <= kMostLines;
  }

  static bool varies_along_n(const ProgramLine& line) {
    return line.operand.stride.at[kMaxDims - 1] != 0;
  }

  template <class F>
  void each_of(bool columns, F f) {
    each(Kind::kLoad, [&](const ProgramLine& line) {
      if (varies_along_n(line) == columns) f(line);
    });
  }

  std::string print(const ProgramLine& line) const {
    const auto assign = [&](const std::string& type, const std::string& value) {
      return fmt::format("    const {} v_{} = {};  // {}\n", type, line.name, value, line.comment);
    };
    const std::string vec = fmt::format("Vec<{}>", text_.vec);
    switch (line.kind) {
      case Kind::kLoad:
        return "";
      case Kind::kAccumulator:
        return assign(vec + "&", fmt::format("sum{}", line.index));
      case Kind::kConstant:
        return assign("float", cpp_text(static_cast<float>(line.attributes[0])));
      case Kind::kScalar:
        return assign("float", fmt::format("p.scalar[{}]", line.index));
      case Kind::kCompute:
        return assign(vec, compute(line));
      case Kind::kRound:
        return assign(vec, fmt::format("round_to<{}, {}>({})", cpp_text(line.dtype), text_.vec,
                                       as_vector(line.args[0])));
      case Kind::kStore:
        if (text_.register_epilogue) return "";
        if (line.operand.rows != 1) return add_row(line);
        return fmt::format("    store_vec<{}, {}, {}>(p, at, {});  // %{}\n",
                           cpp_text(line.operand), text_.vec, text_.guarded,
                           as_vector(line.args[0]), line.name);
    }
    return "";
  }

  // Sums of rows are in the order of the program's stores.
  std::string add_row(const ProgramLine& line) const {
    int number = 0;
    for (const ProgramLine& other : program_) {
      if (&other == &line) break;
      number += other.operand.rows != 1 ? 1 : 0;
    }
    return fmt::format("    rows[{0}] = map<{1}, op_add>(rows[{0}], {2});  // %{3}\n", number,
                       text_.vec, as_vector(line.args[0]), line.name);
  }

  std::string compute(const ProgramLine& line) const {
    std::string args;
    for (int arg : line.args) args += (args.empty() ? "" : ", ") + variable(arg);
    for (int i = 0; i < 2; ++i) {
      if (op_info(line.op).attributes[i].empty()) continue;
      args += ", " + cpp_text(static_cast<float>(line.attributes[i]));
    }
    return fmt::format("map<{}, op_{}>({})", text_.vec, op_info(line.op).text, args);
  }

  const Program& program_;
  const ProgramText& text_;
  std::string out_;
};

}  // namespace

bool has_partial_vector(const Extent& inner, int vec) {
  return inner.scale != 0 || inner.size % vec != 0;
}

std::string emit_store_program(const Program& program, const ProgramText& text) {
  ProgramPrinter printer(program, text);
  printer.open();
  std::string sums;
  for (int i = 0; i < text.accumulators; ++i) {
    sums += fmt::format(", const Vec<{}>& sum{}", text.vec, i);
  }
  if (text.column_sums > 0) sums = fmt::format(", Vec<{}>* rows", text.vec) + sums;
  printer.raw(
      "  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in" + sums +
      ") {\n");
  printer.lines();
  printer.raw("  }\n");
  printer.row_sums();
  printer.close();
  return printer.str();
}

std::string emit_register_program(const Program& program, const ProgramText& text) {
  ProgramPrinter printer(program, text);
  printer.open_in_registers();
  printer.outputs();
  std::string sums;
  for (int i = 0; i < text.accumulators; ++i) {
    sums += fmt::format(", const Vec<{}>& sum{}", text.vec, i);
  }
  printer.raw(
      fmt::format("  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const "
                  "Rows& rows{}, "
                  "Vec<{}>* out) {{\n",
                  sums, text.vec));
  printer.lines();
  int output = 0;
  for (const ProgramLine& line : program) {
    if (line.kind != Kind::kStore) continue;
    printer.raw(fmt::format("    out[{}] = {};  // %{}\n", output++,
                            printer.as_vector(line.args[0]), line.name));
  }
  printer.raw("  }\n");
  printer.close();
  return printer.str();
}

std::string emit_value_program(const Program& program, llvm::ArrayRef<int> results,
                               const ProgramText& text) {
  ProgramPrinter printer(program, text);
  printer.open();
  printer.raw(fmt::format(
      "  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, "
      "Vec<{}>* out) {{\n",
      text.vec));
  printer.lines();
  for (size_t i = 0; i < results.size(); ++i) {
    printer.raw(fmt::format("    out[{}] = {};\n", i, printer.as_vector(results[i])));
  }
  printer.raw("  }\n");
  printer.close();
  return printer.str();
}

}  // namespace catenary
