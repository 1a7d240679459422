// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit_program.h"

#include "compiler/writer.h"

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

  std::string variable(int line) const {
    const ProgramLine& l = program_[line];
    if (l.kind == Kind::kLoad) return fmt::format("in.v_{}", l.name);
    return fmt::format("v_{}", l.name);
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
        return fmt::format("    store_vec<{}, {}, {}>(p, at, {});  // %{}\n",
                           cpp_text(line.operand), text_.vec, text_.guarded,
                           as_vector(line.args[0]), line.name);
    }
    return "";
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

std::string emit_store_program(const Program& program, const ProgramText& text) {
  ProgramPrinter printer(program, text);
  printer.open();
  std::string sums;
  for (int i = 0; i < text.accumulators; ++i) {
    sums += fmt::format(", const Vec<{}>& sum{}", text.vec, i);
  }
  printer.raw(
      "  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in" + sums +
      ") {\n");
  printer.lines();
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
