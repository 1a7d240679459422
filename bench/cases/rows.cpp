// SPDX-License-Identifier: Apache-2.0
// Chains without a contraction that reduce rows: their sum, RMSNorm, LayerNorm and softmax. There
// is no peer; the bound is one pass over the input and the result.
#include "bench/cases/cases.h"

namespace catenary::bench {
namespace {

Case row_case(const char* name, i64 m, i64 k, const std::string& parameters,
              const std::string& body) {
  Case c;
  c.dtype = "bf16";
  c.group = "rows";
  c.shape = fmt::format("{}x{}", m, k);
  c.name = fmt::format("{}/{}/bf16", name, c.shape);
  c.chain =
      fmt::format("chain {}(input x: bf16[{}, {}]{}) {{\n{}}}\n", name, m, k, parameters, body);
  return c;
}

}  // namespace

std::vector<Case> row_cases(i64 m, i64 k) {
  const double mean = 1.0 / static_cast<double>(k);
  const std::string gain = fmt::format(", weight g: bf16[{}]", k);
  const std::string shift = fmt::format(", weight b: bf16[{}]", k);
  return {
      row_case("row_sum", m, k, "", "  y = sum \"mk->m\"(x)\n  return y: f32\n"),
      row_case("rms_norm", m, k, gain,
               fmt::format("  r = rsqrt(add(mul(sum \"mk->m\"(square(x)), {:.17g}), 0.00001))\n"
                           "  y = mul(mul(x @ \"mk\", r @ \"m\"), g @ \"k\")\n  return y: bf16\n",
                           mean)),
      row_case("layer_norm", m, k, gain + shift,
               fmt::format("  mean = mul(sum \"mk->m\"(x), {0:.17g})\n"
                           "  c = sub(x @ \"mk\", mean @ \"m\")\n"
                           "  r = rsqrt(add(mul(sum \"mk->m\"(square(c)), {0:.17g}), 0.00001))\n"
                           "  y = add(mul(mul(c @ \"mk\", r @ \"m\"), g @ \"k\"), b @ \"k\")\n"
                           "  return y: bf16\n",
                           mean)),
      row_case(
          "softmax", m, k, "",
          "  top = reduce_max \"mk->m\"(x)\n  e = exp(sub(x @ \"mk\", top @ \"m\"))\n"
          "  s = recip(sum \"mk->m\"(e))\n  y = mul(e @ \"mk\", s @ \"m\")\n  return y: bf16\n"),
  };
}

}  // namespace catenary::bench
