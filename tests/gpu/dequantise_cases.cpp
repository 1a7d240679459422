// SPDX-License-Identifier: Apache-2.0
// Handwritten chains whose quantised weights are rounded to matrices; see cases.h. By a cast of
// their own, which `dequantise` computes; as operands of products; by the word `rounded_weights`,
// where the planner chooses by rows.
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {
namespace {

struct Weight {
  std::string q = "i4";
  bool packed = true;
  bool zero = false;
  i64 rows = 77, columns = 520;
  i64 block_rows = 1, block_columns = 128;
  std::string to = "bf16";
  std::string scale = "bf16";
  std::string role = "weight";
  std::string batch = "";
  std::string layout = "";  // of q
};

struct WeightText {
  std::string parameters, dequant;
};

WeightText text_of(const Weight& w, const std::string& name = "q") {
  const std::string numbers = fmt::format("[{}{}, {}]", w.batch, ceil_div(w.rows, w.block_rows),
                                          ceil_div(w.columns, w.block_columns));
  return {fmt::format("{0} {1}: {2}[{3}{4}, {5}]{6}{7}, {0} s{1}: {8}{9}{10}", w.role, name, w.q,
                      w.batch, w.rows, w.columns, w.packed ? " packed" : "", w.layout, w.scale,
                      numbers, w.zero ? fmt::format(", {} z{}: i8{}", w.role, name, numbers) : ""),
          fmt::format("dequant({0}, s{0}{1}) block ({2}, {3})", name,
                      w.zero ? fmt::format(", z{}", name) : "", w.block_rows, w.block_columns)};
}

std::string form_of(const Weight& w) {
  return fmt::format("{} {} zero {} {}{}x{} blocks {}x{} to {}", w.packed ? "packed" : "plain", w.q,
                     w.zero, w.batch, w.rows, w.columns, w.block_rows, w.block_columns, w.to);
}

// The matrix itself.
WrittenCase matrix(const Weight& w, const std::string& output = "") {
  const WeightText text = text_of(w);
  WrittenCase made;
  made.name = fmt::format("dequantise, {} {}{}", form_of(w), w.role, output);
  made.family = "dequantise";
  made.text = fmt::format("chain a({}) {{\n  w = cast({}, {})\n  return w: {} }}", text.parameters,
                          text.dequant, w.to, output.empty() ? w.to : output);
  return made;
}

// y = relu(x w^T + b) for an x of `rows`, which may be a symbol M in 1 to `most`.
std::string linear(const Weight& w, const std::string& rows, i64 most, const std::string& word,
                   bool cast) {
  const WeightText text = text_of(w);
  return fmt::format(
      "chain a{}{}(input x: {}[{}, {}], {}, weight b: f32[{}] align 4) {{\n"
      "  w = {}\n  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: {} align 2 }}",
      rows == "M" ? fmt::format("[M in 1..{}]", most) : "", word, w.to, rows, w.columns,
      text.parameters, w.rows,
      cast ? fmt::format("cast({}, {})", text.dequant, w.to) : text.dequant, w.to);
}

void add_matrices(std::vector<WrittenCase>& cases) {
  for (const char* q : {"i8", "i4", "u4"}) {
    for (const bool packed : {true, false}) {
      for (const bool zero : {false, true}) {
        for (const char* to : {"bf16", "f16"}) {
          const char* const scale = zero ? "f32" : to;
          cases.push_back(
              matrix({.q = q, .packed = packed, .zero = zero, .to = to, .scale = scale}));
        }
      }
      const auto add = [&](i64 rows, i64 columns, i64 block_rows, i64 block_columns) {
        Weight w{.q = q, .packed = packed, .zero = rows % 2 == 0, .rows = rows};
        w.columns = columns, w.block_rows = block_rows, w.block_columns = block_columns;
        // Rows of 4 bits begin with a byte.
        if (!packed && columns % 2 == 1) w.layout = fmt::format(" strides[{}, 1]", columns + 1);
        cases.push_back(matrix(w, w.to + " align 2"));
      };
      add(1, 1, 1, 1), add(17, 9, 1, 32), add(130, 263, 2, 48), add(66, 200, 1, 200);
      add(40, 133, 5, 3), add(300, 1027, 64, 4096), add(2048, 4096, 1, 128);
      cases.push_back(matrix({.q = q,
                              .packed = packed,
                              .zero = true,
                              .rows = 19,
                              .columns = 72,
                              .block_columns = 32,
                              .batch = "2, 3, "}));
      cases.push_back(matrix({.q = q, .packed = packed, .zero = true, .role = "input"}));
      cases.push_back(matrix({.q = q, .packed = packed}, "bf16 strides[1, 80] align 2"));
      cases.push_back(matrix({.q = q, .packed = packed}, "bf16 strides[528, 1], w: f32"));
    }
  }
}

// Products with the matrix: forced by the cast, and left to the planner.
void add_products(std::vector<WrittenCase>& cases) {
  for (const char* q : {"i8", "i4", "u4"}) {
    for (const bool packed : {true, false}) {
      const Weight w{.q = q, .packed = packed, .zero = packed};
      for (const char* rows : {"3", "40", "300"}) {
        WrittenCase cast;
        cast.name = fmt::format("dequantise, product of {} rows, {}", rows, form_of(w));
        cast.family = "dequantise";
        cast.text = linear(w, rows, 0, "", true);
        cases.push_back(std::move(cast));
      }
      for (const char* word : {" rounded_weights ", " batch_invariant rounded_weights "}) {
        WrittenCase chosen;
        chosen.name = fmt::format("dequantise,{}{}", word, form_of(w));
        chosen.text = linear(w, "M", 600, word, false);
        chosen.symbols = {1, 8, 33, 64, 129, 513, 600};
        cases.push_back(std::move(chosen));
      }
    }
  }
  const WeightText g = text_of({.rows = 64}, "g"), u = text_of({.rows = 64}, "u");
  cases.push_back(
      {"dequantise, a pair",
       fmt::format("chain a rounded_weights(input x: bf16[700, 520], {}, {}) {{\n"
                   "  y = contract \"mk,nk->mn\"(x, {})\n  w = contract \"mk,nk->mn\"(x, {})\n"
                   "  h = mul(silu(y), w)\n  return h: bf16 }}",
                   g.parameters, u.parameters, g.dequant, u.dequant),
       {},
       {}});
  const WeightText e = text_of({.packed = false, .rows = 40, .batch = "4, "}, "q");
  cases.push_back({"dequantise, experts",
                   fmt::format("chain a rounded_weights(input x: bf16[90, 520], {}, input e: "
                               "i32[4]) {{\n  y = contract \"mk,enk->mn\"(x, {}) ragged m by e "
                               "over e\n  return y: bf16 }}",
                               e.parameters, e.dequant),
                   {},
                   {{10, 20, 60, 90}, {0, 0, 90, 90}, {0, 0, 0, 0}}});
}

}  // namespace

std::vector<WrittenCase> dequantise_cases() {
  std::vector<WrittenCase> cases;
  add_matrices(cases);
  add_products(cases);
  return cases;
}

}  // namespace catenary::gpu_suite
