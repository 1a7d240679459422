// SPDX-License-Identifier: Apache-2.0
// Kernels that write where earlier ones read: chains whose tensors share workspace, in the
// simulator, with launches that start before the previous one has ended.
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct Case {
  std::string name;
  std::string chain;
  i64 bytes = 0;  // of all tensors in the workspace, if each had its own
  int split_k = 0;
  std::string target = "h200";
};

// `count` layers with relu: a value of each but the last one, and the partial sums of split-K.
Case layers(const char* name, int count, i64 m, i64 width, const char* dtype = "bf16",
            int split_k = 0) {
  std::string text = fmt::format("chain c(input x0: {}[{}, {}]", dtype, m, width);
  for (int i = 0; i < count; ++i)
    text += fmt::format(", weight w{}: {}[{}, {}]", i, dtype, width, width);
  text += ") {\n";
  for (int i = 0; i < count; ++i) {
    text += fmt::format("  x{} = cast(relu(contract \"mk,nk->mn\"(x{}, w{})), {})\n", i + 1, i, i,
                        dtype);
  }
  const auto whole = [](i64 bytes) { return ceil_div(bytes, i64{256}) * 256; };
  const i64 values = (count - 1) * whole(m * width * (dtype == std::string("f32") ? 4 : 2));
  const i64 partials = split_k > 1 ? count * whole(split_k * m * width * 4) : 0;
  return {name, text + fmt::format("  return x{}: {} }}", count, dtype), values + partials,
          split_k};
}

// A norm with two passes over its rows before each of three products, and a residual that is read
// late.
Case blocks(i64 m) {
  std::string text = fmt::format("chain c(input x0: f32[{}, 72]", m);
  for (int i = 0; i < 3; ++i) text += fmt::format(", weight w{}: bf16[72, 72]", i);
  text += ") {\n";
  for (int i = 0; i < 3; ++i) {
    text += fmt::format(
        "  a{0} = mul(sum \"mk->m\"(x{0}), 0.0138888)\n  d{0} = sub(x{0} @ \"mk\", a{0} @ \"m\")\n"
        "  s{0} = rsqrt(add(mul(sum \"mk->m\"(square(d{0})), 0.0138888), 0.01))\n"
        "  n{0} = cast(mul(d{0} @ \"mk\", s{0} @ \"m\"), bf16)\n"
        "  x{1} = add(x{0}, contract \"mk,nk->mn\"(n{0}, w{0}))\n",
        i, i + 1);
  }
  const i64 rows = ceil_div(m * 72, i64{64}) * 256;
  return {fmt::format("blocks of {} rows", m), text + "  return x3: f32 }", 3 * rows};
}

std::string run(const Case& from, const HostCompiler& compiler) {
  for (const FillKind fill : {FillKind::kNormal, FillKind::kNanPlant}) {
    SimulatedChainOptions options;
    options.target = from.target;
    options.plan.split_k = from.split_k;
    options.fill = fill;
    options.sm_count = 3;
    options.compiler = &compiler;
    auto chain = SimulatedChain::make(from.chain, options);
    if (!chain) return from.name + ": " + take_report(chain.takeError()).message;
    if (chain->plan().workspace_bytes >= from.bytes) return from.name + ": nothing is shared";
    const std::string failure = first_failure(*chain, from.name, 4);
    if (!failure.empty()) return failure;
  }
  return "";
}

}  // namespace

TEST_CASE("chains whose tensors share workspace") {
  std::vector<Case> cases = {layers("small M", 5, 5, 128),
                             layers("large M", 5, 136, 72),
                             layers("rows of 65", 4, 33, 65),
                             layers("tf32", 4, 20, 40, "f32"),
                             layers("split-K", 4, 72, 136, "bf16", 2),
                             blocks(3),
                             blocks(70)};
  for (const char* target : {"a100", "l4"}) {
    cases.push_back(layers("cp.async", 4, 40, 72));
    cases.back().target = target;
  }
  run_cases(cases, [](const Case& from, i64, const HostCompiler& compiler) {
    return run(from, compiler);
  });
}
