// SPDX-License-Identifier: Apache-2.0
// `dequantise` in the simulator: every dtype of integers, scales and zeros, packed and plain,
// blocks of any shape, tails, batches, strides; every allocation has exactly the bytes of its
// tensor. Chains with rounded weights, on targets where no kernel reads the weight and where one
// does.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "shared/dequantise_config.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Case {
  std::string q = "i4";
  bool packed = true;
  std::string zero = "";  // its dtype; empty: none
  i64 rows = 33, columns = 130;
  i64 block_rows = 1, block_columns = 32;
  std::string to = "bf16", scale = "f32";
  std::string batch = "";  // "3, "
  std::string out = "";    // what follows `return w: `; empty: `to` align 16
  std::string q_layout = "", scale_layout = "", zero_layout = "";
  std::string role = "weight";
  const char* target = "h200";
};

std::string text_of(const Case& c) {
  const std::string numbers = fmt::format("[{}{}, {}]", c.batch, ceil_div(c.rows, c.block_rows),
                                          ceil_div(c.columns, c.block_columns));
  std::string text = fmt::format("chain a({0} q: {1}[{2}{3}, {4}]{5}{6}, {0} s: {7}{8}{9}", c.role,
                                 c.q, c.batch, c.rows, c.columns, c.packed ? " packed" : "",
                                 c.q_layout, c.scale, numbers, c.scale_layout);
  if (!c.zero.empty())
    text += fmt::format(", {} z: {}{}{}", c.role, c.zero, numbers, c.zero_layout);
  return text +
         fmt::format(") {{\n  w = cast(dequant(q, s{}) block ({}, {}), {})\n  return w: {} }}",
                     c.zero.empty() ? "" : ", z", c.block_rows, c.block_columns, c.to,
                     c.out.empty() ? c.to : c.out);
}

std::string failure(const Case& c, const HostCompiler& compiler) {
  for (const FillKind fill : {FillKind::kNormal, FillKind::kExactInteger}) {
    SimulatedChainOptions options;
    options.target = c.target;
    options.fill = fill;
    options.compiler = &compiler;
    auto chain = SimulatedChain::make(text_of(c), options);
    if (!chain) return text_of(c) + ": " + take_report(chain.takeError()).message;
    const auto& kernels = chain->plan().buckets.back().kernels;
    if (kernels.size() != 1 || family_name(kernels[0]) != "dequantise")
      return text_of(c) + ": another family";
    if (std::string problem = first_failure(*chain, text_of(c), 2); !problem.empty())
      return problem;
  }
  return "";
}

void pass(const std::vector<Case>& cases) {
  run_cases(cases,
            [&](const Case& c, i64, const HostCompiler& compiler) { return failure(c, compiler); });
}

// 4-bit rows begin with a byte.
std::string even_rows(const Case& c) {
  if (c.q == "i8" || c.packed || c.columns % 2 == 0) return "";
  return fmt::format(" strides[{}, 1]", c.columns + 1);
}

DequantiseConfig config_of(const std::string& text) {
  auto chain = SimulatedChain::make(text);
  if (!chain) FAIL(text << "\n" << take_report(chain.takeError()).message);
  return chain->plan().buckets[0].kernels[0].config.get<DequantiseConfig>();
}

}  // namespace

TEST_SUITE("dequantise in the simulator") {
  TEST_CASE("every dtype of integers, results, scales and zeros, packed and plain") {
    std::vector<Case> cases;
    const std::vector<std::string> scales = {"f32", "bf16", "f16"};
    const std::vector<std::string> zeros = {"", "i8", "i4", "u4"};
    for (const char* q : {"i8", "i4", "u4"}) {
      for (const bool packed : {true, false}) {
        for (const char* to : {"bf16", "f16"}) {
          for (size_t z = 0; z < zeros.size(); ++z) {
            Case c{.q = q, .packed = packed, .zero = zeros[z], .to = to};
            c.scale = scales[cases.size() % 3];
            c.columns = 256;
            if (z > 1) c.zero_layout = " strides[10, 1]";
            cases.push_back(c);
          }
        }
      }
    }
    pass(cases);
  }

  TEST_CASE("tails of rows and columns, and matrices smaller than a tile") {
    std::vector<Case> cases;
    for (const char* q : {"i8", "i4", "u4"}) {
      for (const bool packed : {true, false}) {
        for (const auto& [rows, columns] : {std::pair<i64, i64>{1, 1},
                                            {5, 7},
                                            {17, 9},
                                            {16, 64},
                                            {31, 65},
                                            {3, 203},
                                            {47, 120}}) {
          Case c{.q = q, .packed = packed, .rows = rows, .columns = columns};
          c.q_layout = even_rows(c);
          if (rows % 2 == 1) c.zero = "i8";
          if (columns % 8 != 0) c.out = "bf16 align 2";
          cases.push_back(c);
        }
      }
    }
    pass(cases);
  }

  TEST_CASE("blocks: of a row, of all columns, of several rows, of columns that no vector fits") {
    std::vector<Case> cases;
    for (const bool packed : {true, false}) {
      for (const auto& [rows, columns] : {std::pair<i64, i64>{1, 130},
                                          {2, 48},
                                          {33, 130},
                                          {1, 1},
                                          {5, 3},
                                          {4, 12},
                                          {1, 4096},
                                          {100, 16}}) {
        for (const char* q : {"i8", "u4"}) {
          Case c{.q = q, .packed = packed, .block_rows = rows, .block_columns = columns};
          c.zero = "i8";
          c.out = "bf16 align 4";
          cases.push_back(c);
        }
      }
    }
    pass(cases);
  }

  TEST_CASE("batches follow each other, with the padding of the packed layout") {
    std::vector<Case> cases;
    for (const bool packed : {true, false}) {
      for (const char* q : {"i8", "i4"}) {
        for (const char* batch : {"3, ", "2, 3, "}) {
          Case c{.q = q, .packed = packed, .zero = "i8", .rows = 19, .columns = 72};
          c.batch = batch;
          cases.push_back(c);
        }
      }
    }
    pass(cases);
  }

  TEST_CASE("strided results and operands") {
    std::vector<Case> cases;
    for (const bool packed : {true, false}) {
      cases.push_back({.packed = packed, .out = "bf16 strides[200, 1]"});
      cases.push_back({.packed = packed, .out = "bf16 strides[131, 1] align 2"});
      cases.push_back({.packed = packed, .out = "bf16 strides[1, 40] align 2"});
      cases.push_back({.packed = packed, .out = "f32 strides[132, 1]"});
      cases.push_back({.packed = packed, .out = "e4m3 align 2"});
      cases.push_back({.packed = packed, .out = "bf16, w: f32 align 4, w: bf16 align 2"});
      cases.push_back({.packed = packed,
                       .zero = "i8",
                       .scale_layout = " strides[1, 33]",
                       .zero_layout = " strides[2, 70]"});
    }
    cases.push_back({.q = "i8", .packed = false, .q_layout = " strides[1, 40] align 1"});
    cases.push_back({.q = "i8", .packed = false, .q_layout = " strides[136, 1]"});
    cases.push_back({.q = "i8", .packed = false, .q_layout = " strides[132, 1] align 4"});
    cases.push_back({.q = "i8", .packed = false, .q_layout = " strides[0, 1] align 1"});
    cases.push_back({.q = "i4", .packed = false, .q_layout = " strides[144, 1]"});
    cases.push_back({.q = "i4", .packed = false, .q_layout = " strides[138, 1] align 1"});
    pass(cases);
  }

  TEST_CASE("other targets, and weights that are inputs") {
    std::vector<Case> cases;
    for (const char* target : {"a100", "b200"}) {
      for (const bool packed : {true, false})
        cases.push_back({.packed = packed, .zero = "i8", .target = target});
    }
    for (const bool packed : {true, false})
      cases.push_back({.packed = packed, .zero = "i8", .role = "input"});
    pass(cases);
  }

  TEST_CASE("rounded weights: products of every kind, where no kernel reads the weight") {
    const std::string weights =
        "weight q: i4[40, 136] packed, weight s: bf16[20, 9], weight p: u4[40, 136], weight t: "
        "f32[40, 5], weight z: i8[40, 5]";
    const std::string v = "dequant(q, s) block (2, 16)", w = "dequant(p, t, z) block (1, 32)";
    const std::vector<std::string> texts = {
        fmt::format("chain a rounded_weights(input x: bf16[9, 136], {}) {{\n  g = contract "
                    "\"mk,nk->mn\"(x, {})\n  u = contract \"mk,nk->mn\"(x, {})\n  y = mul(silu(g), "
                    "u)\n  return y: bf16 }}",
                    weights, v, w),
        fmt::format("chain a rounded_weights(input x: f16[70, 136], input r: bf16[12, 136], {}) "
                    "{{\n  g = relu(contract \"mk,nk->mn\"(x, {}))\n  u = contract "
                    "\"nk,mk->mn\"({}, r)\n  return g: f16, u: f32 }}",
                    weights, v, w),
        "chain a rounded_weights(input x: bf16[40, 72], weight q: i8[3, 24, 72], weight s: "
        "f32[3, 24, 1],\n    input e: i32[3]) {\n  y = contract \"mk,enk->mn\"(x, dequant(q, s) "
        "block (1, 72)) ragged m by e over e\n  return y: bf16 }",
        "chain a batch_invariant rounded_weights(input x: bf16[3, 5, 70], weight q: i4[3, 33, 70] "
        "packed,\n    weight s: f16[3, 33, 3]) {\n  y = contract \"bmk,bnk->bmn\"(x, dequant(q, s) "
        "block (1, 32))\n  return y: f32 align 4 }",
        "chain a rounded_weights algebraic_norms(input x: bf16[50, 64], weight q: i4[24, 64] "
        "packed, weight s: bf16[24, 2]) {\n  t = rsqrt(add(mul(sum \"mk->m\"(square(x)), "
        "0.015625), "
        "0.00001))\n  n = cast(mul(x @ \"mk\", t @ \"m\"), bf16)\n  y = contract "
        "\"mk,nk->mn\"(n, dequant(q, s) block (1, 32))\n  return y: bf16 }"};
    std::vector<std::pair<std::string, const char*>> cases;
    for (const std::string& text : texts) {
      for (const char* target : {"h200", "a100", "b200"}) cases.push_back({text, target});
    }
    run_cases(cases, [](const auto& c, i64, const HostCompiler& compiler) -> std::string {
      for (const FillKind fill : {FillKind::kNormal, FillKind::kExactInteger}) {
        SimulatedChainOptions options;
        options.target = c.second;
        options.fill = fill;
        options.compiler = &compiler;
        auto chain = SimulatedChain::make(c.first, options);
        if (!chain) return c.first + ": " + take_report(chain.takeError()).message;
        const PlanBucket& bucket = chain->plan().buckets[0];
        if (family_name(bucket.kernels[0]) != "dequantise") return c.first + ": another family";
        if (std::string problem = first_failure(*chain, c.first, 2); !problem.empty())
          return c.second + (": " + problem);
      }
      return "";
    });
  }

  TEST_CASE("loads: a word or two of plain rows where they are aligned; one scale for a vector") {
    const auto plain = [](const char* q) {
      return text_of({.q = q, .packed = false, .columns = 128});
    };
    CHECK(config_of(plain("i8")).load_bytes == 8);
    CHECK(config_of(plain("u4")).load_bytes == 4);
    CHECK(config_of(plain("u4")).shares_block());
    Case narrow{.packed = false, .columns = 130};
    CHECK(config_of(text_of(narrow)).load_bytes == 1);
    CHECK_FALSE(config_of(text_of({.block_columns = 12})).shares_block());
  }

  TEST_CASE("a kernel that reads inputs before the dependency wait is a fault") {
    SimulatedChainOptions options;
    options.weights_as_inputs = true;
    auto chain = llvm::cantFail(SimulatedChain::make(text_of({}), options));
    std::string faults;
    for (u64 seed = 1; seed <= 3; ++seed) faults += chain.run(seed).name;
    CHECK(faults != "");
  }
}
