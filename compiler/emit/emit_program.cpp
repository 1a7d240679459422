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
      : program_(program), text_(text), rows_(program) {}

  void open() {
    out_ += fmt::format("struct {} {{\n", text_.name);
    out_ += "  struct Operands {\n";
    each(Kind::kLoad, [&](const ProgramLine& line) { out_ += member(line); });
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
      out_ += load("Operands", line);
    });
    out_ += "  }\n";
  }

  void lines() {
    for (const ProgramLine& line : program_) out_ += print(line);
  }

  // The lines that the results need, as elements. Numbers of rows are known, and so is `source`.
  void lines_of(llvm::ArrayRef<int> results, int source) {
    rows_.each_from(program_, source, results, [&](int line) { out_ += print(program_[line]); });
  }

  // As parameters.
  std::string source_parameters(int pass) const {
    const int line = rows_.source(pass);
    if (line >= 0) return fmt::format(", const Vec<{}>& {}", text_.vec, variable(line));
    std::string sums;
    for (int i = 0; i < text_.accumulators; ++i)
      sums += fmt::format(", const Vec<{}>& sum{}", text_.vec, i);
    return sums;
  }

  bool reduces_rows() const { return rows_.passes() > 0; }
  const RowNumbers& rows() const { return rows_; }

  // The numbers of a row, and what a pass forms.
  void numbers() {
    out_ += "  struct Numbers {\n";
    for (int i = 0; i < size(); ++i) {
      if (is_member(i)) out_ += fmt::format("    float v_{};\n", program_[i].name);
    }
    out_ += "  };\n";
    std::string begin = "0", ops, keeps;
    int count = 0;
    for (int pass = 0; pass < rows_.passes(); ++pass) {
      for (int line : rows_.reductions(program_, pass)) {
        ops += (count++ > 0 ? ", " : "") + cpp_text(reduce_op(program_[line].op));
      }
      begin += fmt::format(", {}", count);
      keeps += fmt::format("{}{}", pass > 0 ? ", " : "", rows_.kept(pass) >= 0);
    }
    out_ += fmt::format("  static constexpr int kPasses = {};\n", rows_.passes());
    out_ += fmt::format("  static constexpr int kPassBegin[] = {{{}}};\n", begin);
    out_ += fmt::format("  static constexpr bool kKeeps[] = {{{}}};\n", keeps);
    out_ += fmt::format("  static constexpr ReduceOp kReductions[] = {{{}}};\n", ops);
  }

  // What is known of a row after a pass; `first`: the number of its first reduction.
  void numbers_after(int pass, int first) {
    for (int line : rows_.reductions(program_, pass)) {
      out_ += fmt::format("    numbers.v_{} = reduced[{}];  // {}\n", program_[line].name, first++,
                          program_[line].comment);
    }
    llvm::SmallVector<int, 8> results;
    for (int i = 0; i < size(); ++i) {
      if (is_member(i) && rows_.level(i) == pass + 1 && program_[i].kind != Kind::kReduceRow)
        results.push_back(i);
    }
    const auto known = [&](int line) {
      return rows_.is_number(line) && !llvm::is_contained(results, line);
    };
    each_needed(program_, results, known, [&](int line) { out_ += print_of_row(line); });
  }

  void store_numbers() {
    each(Kind::kStore, [&](const ProgramLine& line) {
      if (line.operand.columns == 1) return;
      out_ += fmt::format("    store_number<{}>(p, at, {});  // %{}\n", cpp_text(line.operand),
                          of_row(line.args[0]), line.name);
    });
  }

  void raw(const std::string& text) { out_ += text; }
  void close() { out_ += "};\n"; }
  const std::string& str() const { return out_; }

  // The operands of a register epilogue in three structs: column operands, row operands, and
  // matrix operands, which are read from shared memory.
  void open_in_registers() {
    out_ += fmt::format("struct {} {{\n", text_.name);
    for (const Varies varies : {Varies::kColumns, Varies::kRows, Varies::kBoth}) {
      out_ += fmt::format("  struct {} {{\n", type_of(varies));
      each_of(varies, [&](const ProgramLine& line) { out_ += member(line); });
      out_ += "  };\n";
      if (varies == Varies::kBoth) continue;
      out_ += fmt::format(
          "  static CATENARY_DEVICE void load_{}(const P& p, const Coord& at, {}& in) {{\n",
          varies == Varies::kColumns ? "columns" : "rows", type_of(varies));
      each_of(varies, [&](const ProgramLine& line) { out_ += load(type_of(varies), line); });
      out_ += "  }\n";
    }
    std::string list;
    int count = 0;
    each_of(Varies::kBoth, [&](const ProgramLine& line) {
      list += fmt::format("{}Matrices::o_{}", count++ > 0 ? ", " : "", line.name);
    });
    out_ += fmt::format("  static constexpr int kMatrixCount = {};\n", count);
    if (count > 0) out_ += fmt::format("  static constexpr Operand kMatrices[] = {{{}}};\n", list);
  }

  // The outputs' places, in the order of the program's stores.
  void outputs() {
    std::string list;
    int count = 0;
    each(Kind::kStore, [&](const ProgramLine& line) {
      if (line.operand.columns > 1) return;
      list += (count++ > 0 ? ",\n      " : "\n      ") + cpp_text(line.operand);
    });
    out_ += fmt::format("  static constexpr int kOutputCount = {};\n", count);
    out_ += fmt::format("  static constexpr bool kShort = {}, kLong = {};\n", is_short(program_),
                        is_long(program_));
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
    if (rows_.is_number(line)) return fmt::format("numbers.v_{}", l.name);
    if (l.kind != Kind::kLoad) return fmt::format("v_{}", l.name);
    constexpr const char* kNames[] = {"columns", "rows", "matrices"};
    const char* operands =
        text_.register_epilogue ? kNames[static_cast<int>(varies_along(l))] : "in";
    return fmt::format("{}.v_{}.values()", operands, l.name);
  }

  // Constants, scalars and numbers of rows are floats; map() takes them as they are, stores and
  // rounds do not.
  std::string as_vector(int line) const {
    const Kind kind = program_[line].kind;
    if (kind != Kind::kConstant && kind != Kind::kScalar && !rows_.is_number(line))
      return variable(line);
    return fmt::format("splat<{}>({})", text_.vec, variable(line));
  }

 private:
  int size() const { return static_cast<int>(program_.size()); }
  bool is_member(int line) const {
    return rows_.is_number(line) && program_[line].kind != Kind::kStore;
  }

  static ReduceOp reduce_op(Op op) {
    return op == Op::kReduceMax ? ReduceOp::kMax : ReduceOp::kSum;
  }

  // A line of a row as a float.
  std::string of_row(int line) const {
    return variable(line) + (program_[line].kind == Kind::kLoad ? ".v[0]" : "");
  }

  std::string print_of_row(int line) const {
    const ProgramLine& l = program_[line];
    if (l.kind != Kind::kCompute && l.kind != Kind::kRound) return print(l);
    std::string value;
    if (l.kind == Kind::kRound) {
      value = fmt::format("round_element<{}>({})", cpp_text(l.dtype), of_row(l.args[0]));
    } else {
      value = fmt::format("op_{}::apply({})", op_info(l.op).text,
                          arguments(l, [&](int arg) { return of_row(arg); }));
    }
    const char* type = rows_.is_number(line) ? "" : "const float ";
    return fmt::format("    {}{} = {};  // {}\n", type, variable(line), value, l.comment);
  }

  // An operand as a member of a struct, and its load into that struct.
  std::string member(const ProgramLine& line) const {
    return fmt::format("    static constexpr Operand o_{0} = {1};\n    Loaded<o_{0}, {2}> v_{0};\n",
                       line.name, cpp_text(line.operand), text_.vec);
  }
  std::string load(const char* type, const ProgramLine& line) const {
    return fmt::format("    in.v_{0} = load_operand<{1}::o_{0}, {2}, {3}>(p, at);  // {4}\n",
                       line.name, type, text_.vec, text_.guarded, line.comment);
  }

  template <class F>
  void each(Kind kind, F f) {
    for (const ProgramLine& line : program_) {
      if (line.kind == kind) f(line);
    }
  }

  // Along which of M and N an operand varies; a scalar counts as a row.
  enum class Varies { kColumns, kRows, kBoth };
  static Varies varies_along(const ProgramLine& line) {
    const Dims& stride = line.operand.stride;
    if (stride.at[kMaxDims - 1] == 0) return Varies::kRows;
    return stride.at[kMaxDims - 2] == 0 ? Varies::kColumns : Varies::kBoth;
  }
  static const char* type_of(Varies varies) {
    constexpr const char* kTypes[] = {"Columns", "Rows", "Matrices"};
    return kTypes[static_cast<int>(varies)];
  }

  template <class F>
  void each_of(Varies varies, F f) {
    each(Kind::kLoad, [&](const ProgramLine& line) {
      if (varies_along(line) == varies) f(line);
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
        return assign(vec + "&", text_.array ? fmt::format("given[{}]", line.index)
                                             : fmt::format("sum{}", line.index));
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
      case Kind::kReduceRow:
        return "";  // a number of the row
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

  // The arguments of an op's functor.
  std::string arguments(const ProgramLine& line,
                        llvm::function_ref<std::string(int)> argument) const {
    std::string args;
    for (int arg : line.args) args += (args.empty() ? "" : ", ") + argument(arg);
    for (int i = 0; i < 2; ++i) {
      if (op_info(line.op).attributes[i].empty()) continue;
      args += ", " + cpp_text(static_cast<float>(line.attributes[i]));
    }
    return args;
  }

  std::string compute(const ProgramLine& line) const {
    return fmt::format("map<{}, op_{}>({})", text_.vec, op_info(line.op).text,
                       arguments(line, [&](int arg) { return variable(arg); }));
  }

  const Program& program_;
  const ProgramText& text_;
  const RowNumbers rows_;
  std::string out_;
};

}  // namespace

bool has_partial_vector(const Extent& inner, int vec) {
  return inner.scale != 0 || inner.size % vec != 0;
}

std::string emit_store_program(const Program& program, const ProgramText& text) {
  ProgramPrinter printer(program, text);
  printer.open();
  std::string sums = printer.source_parameters(0);
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

namespace {

// The functions of row reductions (epilogue/row_reductions.cuh).
void print_row_reductions(const Program& program, int vec, ProgramPrinter& printer) {
  printer.numbers();
  int first = 0;
  for (int pass = 0; pass < printer.rows().passes(); ++pass) {
    const std::vector<int> reduced = printer.rows().reductions(program, pass);
    const int kept = printer.rows().kept(pass);
    printer.raw(fmt::format(
        "  static CATENARY_DEVICE void terms(Pass<{0}>, const P& p, const Columns& columns, const "
        "Rows& rows, const Numbers& numbers{1}, Vec<{2}>* out{3}) {{\n",
        pass, printer.source_parameters(pass), vec,
        kept < 0 ? "" : fmt::format(", Vec<{}>& kept", vec)));
    llvm::SmallVector<int, 4> terms;
    for (int line : reduced) terms.push_back(program[line].args[0]);
    printer.lines_of(terms, printer.rows().source(pass));
    for (size_t i = 0; i < terms.size(); ++i) {
      printer.raw(fmt::format("    out[{}] = {};  // %{}\n", first + i, printer.as_vector(terms[i]),
                              program[reduced[i]].name));
    }
    if (kept >= 0) printer.raw(fmt::format("    kept = {};\n", printer.as_vector(kept)));
    printer.raw(fmt::format(
        "  }}\n  static CATENARY_DEVICE void numbers(Pass<{}>, const P& p, const Rows& rows, const "
        "float* reduced, Numbers& numbers) {{\n",
        pass));
    printer.numbers_after(pass, first);
    printer.raw("  }\n");
    first += static_cast<int>(reduced.size());
  }
  printer.raw(
      "  static CATENARY_DEVICE void store_numbers(const P& p, const Coord& at, const Numbers& "
      "numbers) {\n");
  printer.store_numbers();
  printer.raw("  }\n");
}

}  // namespace

std::string emit_register_program(const Program& program, const ProgramText& text) {
  ProgramPrinter printer(program, text);
  printer.open_in_registers();
  printer.outputs();
  if (printer.reduces_rows()) print_row_reductions(program, text.vec, printer);
  const int passes = printer.rows().passes();
  printer.raw(fmt::format(
      "  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const "
      "Rows& rows, const Matrices& matrices{}{}, Vec<{}>* out) {{\n",
      passes > 0 ? ", const Numbers& numbers" : "", printer.source_parameters(passes), text.vec));
  const llvm::SmallVector<int, 4> stores = element_stores(program);
  if (printer.reduces_rows()) {
    printer.lines_of(stores, printer.rows().source(passes));
  } else {
    printer.lines();
  }
  for (size_t i = 0; i < stores.size(); ++i) {
    const ProgramLine& line = program[stores[i]];
    printer.raw(
        fmt::format("    out[{}] = {};  // %{}\n", i, printer.as_vector(line.args[0]), line.name));
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
      "{1}Vec<{0}>* out) {{\n",
      text.vec, text.array ? fmt::format("const Vec<{}>* given, ", text.vec) : ""));
  printer.lines();
  for (size_t i = 0; i < results.size(); ++i) {
    printer.raw(fmt::format("    out[{}] = {};\n", i, printer.as_vector(results[i])));
  }
  printer.raw("  }\n");
  printer.close();
  return printer.str();
}

}  // namespace catenary
