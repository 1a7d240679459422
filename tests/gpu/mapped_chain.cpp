// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/mapped_chain.h"

#include <algorithm>
#include <map>

#include "ir/error.h"
#include "ir/random/random.h"

namespace catenary::gpu_suite {
namespace {

constexpr i64 kAround[] = {1, 8, 63, 64, 65, 72, 127, 128, 129, 136, 192, 200, 255, 256, 257, 264};
constexpr i64 kGroups[] = {1, 2, 5, 33, 70};
constexpr i64 kTerms[] = {1, 7, 8, 63, 64, 65, 128, 192, 200, 256, 257, 320, 513, 600};

class MappedChain {
 public:
  MappedChain(u64 seed, bool small) : random_(seed), small_(small) {}

  std::string text() {
    pick_sizes();
    const std::string x = labels("mk", 'm');
    const std::string w = labels("kn", 'n');
    std::string d = labels("mn", 0);
    // Every label of the result comes from an operand.
    const auto missing = [&](char l) { return (x + w).find(l) == std::string::npos; };
    d.erase(std::remove_if(d.begin(), d.end(), missing), d.end());
    return chain_text(x, w, d, 'n', "", "");
  }

  // The ragged label `m` is never the innermost: loads start at any position along it.
  std::string ragged_text() {
    pick_sizes();
    size_['e'] = random_.pick(llvm::ArrayRef<i64>(kGroups));
    const std::string batch = batch_.substr(0, 1);
    const std::string ends = fmt::format(", input e: i32[{}]", size_['e']);
    const std::string ragged = " ragged m by e over e";
    if (random_.chance(40)) {
      return chain_text(batch + "mn", batch + "mk", batch + "enk", 'k', ends, ragged);
    }
    const std::string w = batch + (random_.chance(50) ? "enk" : "ekn");
    return chain_text(batch + "mk", w, batch + "mn", 'n', ends, ragged);
  }

 private:
  // Operands x and w, result d, whose last label is `column`.
  std::string chain_text(const std::string& x, const std::string& w, const std::string& d,
                         char column, const std::string& ends, const std::string& ragged) {
    const bool gated = random_.chance(25);
    const std::string dtype = random_.chance(25) ? "f32" : random_.chance(70) ? "bf16" : "f16";
    std::string parameters =
        fmt::format("input x: {}, weight w: {}", operand(x, dtype), operand(w, dtype));
    std::string body = fmt::format("  g = contract \"{},{}->{}\"(x, w){}\n", x, w, d, ragged);
    std::string last = "g";
    if (gated) {
      parameters += fmt::format(", weight v: {}", operand(w, dtype));
      body += fmt::format("  u = contract \"{},{}->{}\"(x, v){}\n  h = add(relu(g), u)\n", x, w, d,
                          ragged);
      last = "h";
    }
    if (random_.chance(50)) {
      parameters += fmt::format(", weight b: f32[{}] align 4", size_text(column));
      body += fmt::format("  t = relu(add({}, b @ \"{}\"))\n", last, column);
      last = "t";
    }
    if (random_.chance(30)) {
      parameters += fmt::format(", input r: {}", result(d, true));
      body += fmt::format("  s = add({}, r)\n", last);
      last = "s";
    }
    body += fmt::format("  y = neg({})\n  return y: {}", last, result(d, false));
    if (random_.chance(20)) body += fmt::format(", g: {}", result(d, false));
    const std::string symbol =
        symbol_ == 0 ? "" : fmt::format("[M in {}..{}]", random_.range(0, 1), size_[symbol_]);
    return fmt::format("chain mapped{}({}) {{\n{} }}", symbol, parameters + ends, body);
  }

  void pick_sizes() {
    const auto pick = [&](llvm::ArrayRef<i64> from) {
      const i64 size = random_.pick(from);
      return small_ ? std::min<i64>(size, 200) : size;
    };
    size_['m'] = pick(kAround);
    size_['n'] = pick(kAround);
    size_['k'] = pick(kTerms);
    if (!small_ && random_.chance(20)) size_['m'] += 1500;
    batch_ = std::string("bg").substr(0, static_cast<size_t>(random_.range(0, 2)));
    for (char label : batch_) size_[label] = random_.range(1, 3);
    if (random_.chance(25)) symbol_ = random_.chance(60) ? 'm' : random_.chance(50) ? 'n' : 'k';
  }

  // `inner` in either order, after or between batch labels; an operand (its free label is `own`)
  // may lack a batch label. The last label is one of `inner`.
  std::string labels(std::string inner, char own) {
    std::string text;
    for (char label : batch_) {
      if (own == 0 || random_.chance(85)) text += label;
    }
    if (random_.chance(40)) std::swap(inner[0], inner[1]);
    text.insert(static_cast<size_t>(random_.range(0, static_cast<i64>(text.size()))), 1, inner[0]);
    return text + inner[1];
  }

  std::string size_text(char label) const {
    return label == symbol_ ? "M" : fmt::to_string(size_.at(label));
  }

  std::string shape(const std::string& labels) const {
    std::string text;
    for (char label : labels) text += (text.empty() ? "" : ", ") + size_text(label);
    return text;
  }

  // Row strides are a multiple of `unit` elements, sometimes with padding.
  std::string strides(const std::string& labels, i64 unit) {
    std::string strides;
    i64 step = 1;
    for (size_t i = labels.size(); i-- > 0;) {
      strides = fmt::to_string(step) + (strides.empty() ? "" : ", ") + strides;
      step *= size_.at(labels[i]);
      if (i + 1 == labels.size()) step = (step + unit - 1) / unit * unit;
      if (random_.chance(15)) step += unit;
    }
    return strides;
  }

  std::string operand(const std::string& labels, const std::string& dtype) {
    // Rows aligned to 16 bytes; 16-bit elements also to fewer, which needs cp.async fallback loads.
    const i64 unit = dtype == "f32" ? 4 : random_.chance(70) ? 8 : i64{1} << random_.range(0, 2);
    return fmt::format("{}[{}] strides[{}]", dtype, shape(labels), strides(labels, unit));
  }

  // A tensor like the result: a parameter, with its shape, or an output, without.
  std::string result(const std::string& labels, bool parameter) {
    constexpr const char* kTypes[] = {"bf16", "f16", "f32"};
    std::string text = kTypes[random_.range(0, 2)];
    if (parameter) text += fmt::format("[{}]", shape(labels));
    if (random_.chance(60)) return text + fmt::format(" strides[{}]", strides(labels, 8));
    return text + fmt::format(" strides[{}] align 4", strides(labels, 1));
  }

  Random random_;
  bool small_;
  std::map<char, i64> size_;
  std::string batch_;
  char symbol_ = 0;
};

}  // namespace

std::string mapped_chain(u64 seed, bool small) {
  MappedChain chain(seed, small);
  return seed % 4 == 0 ? chain.ragged_text() : chain.text();
}

}  // namespace catenary::gpu_suite
