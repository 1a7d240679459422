// SPDX-License-Identifier: Apache-2.0
// print() and render_error(). print writes exactly the contents of the Chain (explicit strides even
// if they are the default), so that parsing gives the same Chain.
#include <fmt/ranges.h>

#include "ir/names.h"
#include "ir/text/text.h"

namespace catenary {
namespace {

std::string name_of(const Chain& chain, ValueId id) {
  const bool known = id >= 0 && id < static_cast<ValueId>(chain.values.size());
  return known ? chain.values[id].name : fmt::format("<unknown value {}>", id);
}

std::string layout_text(llvm::ArrayRef<i64> strides, i64 align) {
  std::string text;
  if (!strides.empty()) text += fmt::format(" strides[{}]", fmt::join(strides, ", "));
  if (align != 16) text += fmt::format(" align {}", align);
  return text;
}

// Unlike to_string, which is for messages and omits default strides.
std::string type_text(const Chain& chain, const TensorType& type) {
  llvm::SmallVector<std::string, 4> sizes;
  for (const Dim& dim : type.shape) {
    sizes.push_back(!dim.symbolic  ? fmt::to_string(dim.size)
                    : chain.symbol ? chain.symbol->name
                                   : std::string("<no symbol>"));
  }
  std::string text(dtype_text(type.dtype));
  if (!sizes.empty()) text += fmt::format("[{}]", fmt::join(sizes, ", "));
  if (type.packed) text += " packed";
  return text + layout_text(type.strides, type.align);
}

std::string arguments_text(const Chain& chain, const Value& value) {
  if (value.op == Op::kConstant) return fmt::format("{}", value.attributes[0]);
  llvm::SmallVector<std::string, 4> parts;
  for (const Use& use : value.operands) {
    parts.push_back(name_of(chain, use.value));
    if (!use.labels.empty()) parts.back() += fmt::format(" @ \"{}\"", use.labels);
  }
  const OpInfo& info = op_info(value.op);
  for (size_t i = 0; i < info.attributes.size(); ++i) {
    if (info.attributes[i].empty()) continue;
    parts.push_back(fmt::format("{} = {}", info.attributes[i], value.attributes[i]));
  }
  if (value.op == Op::kCast) parts.emplace_back(dtype_text(value.type.dtype));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string value_text(const Chain& chain, const Value& value) {
  std::string text = fmt::format("{} = {}", value.name, op_info(value.op).text);
  if (value.op == Op::kContract || is_reduction(value.op)) {
    text += fmt::format(" \"{}\"", value.equation);
  }
  if (value.true_f32) text += " f32 ";
  if (value.fast_accum) text += " fast_accum ";
  text += fmt::format("({})", arguments_text(chain, value));
  if (value.op == Op::kDequant) {
    text += fmt::format(" block ({}, {})", value.block.rows, value.block.columns);
  }
  if (value.ragged) {
    text += fmt::format(" ragged {} by {} over {}", value.ragged->label,
                        name_of(chain, value.ragged->ends), value.ragged->group);
  }
  return text;
}

std::string_view line_of(std::string_view text, int line) {
  for (int i = 1; i < line; ++i) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (line == 1 && text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // no column counts it
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  return text;
}

}  // namespace

std::string print(const Chain& chain) {
  llvm::SmallVector<std::string, 8> parameters;
  std::string body;
  for (const Value& value : chain.values) {
    if (value.op == Op::kParameter) {
      parameters.push_back(fmt::format("\n    {} {}: {}", role_text(value.role), value.name,
                                       type_text(chain, value.type)));
    } else {
      body += fmt::format("  {}\n", value_text(chain, value));
    }
  }
  llvm::SmallVector<std::string, 4> outputs;
  for (const Output& output : chain.outputs) {
    outputs.push_back(fmt::format("{}: {}{}", name_of(chain, output.value),
                                  dtype_text(output.dtype),
                                  layout_text(output.strides, output.align)));
    if (output.in_place != -1) {
      outputs.back() += fmt::format(" inplace {}", name_of(chain, output.in_place));
    }
  }
  if (!outputs.empty()) body += fmt::format("  return {}\n", fmt::join(outputs, ", "));
  const std::string symbol = chain.symbol ? fmt::format("[{} in {}..{}]", chain.symbol->name,
                                                        chain.symbol->lo, chain.symbol->hi)
                                          : "";
  std::string words;
  for (const ChainWord& word : kChainWords) {
    if (chain.words.*word.member) words += fmt::format(" {}", word.name);
  }
  if (!words.empty()) words += " ";
  return fmt::format("chain {}{}{}({}) {{\n{}}}\n", chain.name, symbol, words,
                     fmt::join(parameters, ","), body);
}

std::string render_error(const ErrorReport& report, std::string_view file, std::string_view text) {
  if (report.at.line <= 0) return report.message;
  // A line may be as long as the text: show the part around the position.
  constexpr size_t kBefore = 80;
  constexpr size_t kShown = 160;
  const std::string_view line = line_of(text, report.at.line);
  const size_t column =
      std::min(static_cast<size_t>(std::max(report.at.column, 1)) - 1, line.size());
  const size_t begin = column > kBefore ? column - kBefore : 0;
  // Tabs become blanks: the caret is then right for every tab width.
  std::string shown(line.substr(begin, kShown));
  std::replace(shown.begin(), shown.end(), '\t', ' ');
  const std::string indent(escaped(shown.substr(0, column - begin)).size(), ' ');
  return fmt::format("{}:{}:{}: error: {}\n  {}\n  {}^", message_text(file), report.at.line,
                     report.at.column, report.message, escaped(shown), indent);
}

}  // namespace catenary
