// SPDX-License-Identifier: Apache-2.0
// Which values share a kernel, on chains small enough to work out by hand.
#include <doctest/doctest.h>

#include "compiler/fusion/fuse.h"
#include "compiler/fusion/group.h"
#include "ir/text/text.h"
#include "llvm/ADT/STLExtras.h"

using namespace catenary;

namespace {

struct Fused {
  VerifiedChain chain;
  FusionPlan plan;

  ValueId find(std::string_view name) const {
    for (ValueId id = 0; id < chain.num_values(); ++id) {
      if (chain.value(id).name == name) return id;
    }
    FAIL("no value is named ", name);
    return -1;
  }
  int group_of(std::string_view name) const { return plan.group_of[find(name)]; }
  const FusionGroup& group(std::string_view name) const { return plan.groups[group_of(name)]; }
  std::vector<std::string> outputs(std::string_view name) const {
    std::vector<std::string> names;
    for (const GroupOutput& output : group(name).outputs) {
      names.push_back(chain.value(output.value).name);
    }
    return names;
  }
};

Fused fused(const std::string& text) {
  auto chain = verify(llvm::cantFail(parse(text)));
  if (!chain) FAIL(take_report(chain.takeError()).message);
  FusionPlan plan = fuse_chain(*chain, true);
  return {std::move(*chain), std::move(plan)};
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a value of parameters joins the kernel that reads them anyway") {
  // The dgrad of a gated layer: h does not depend on the accumulator.
  const Fused f = fused(R"(chain c(
      weight wd: bf16[48, 64], input g: bf16[32, 64], input u: bf16[32, 64],
      input dy: bf16[32, 48]) {
    s = silu(g)
    h = mul(s, u)
    dh = contract "mn,nk->mk"(dy, wd)
    du = mul(dh, s)
    dg = mul(dh, u)
    return h: bf16, du: bf16, dg: bf16 })");
  CHECK(f.plan.groups.size() == 1);
  CHECK(f.outputs("dh") == Names{"h", "du", "dg"});
  CHECK(f.group("dh").why.find("'h' joins it") != std::string::npos);
}

TEST_CASE("it joins also where a contraction that comes first reads it") {
  const Fused f = fused(R"(chain c(
      weight wd: bf16[48, 64], input g: bf16[32, 64], input u: bf16[32, 64],
      input dy: bf16[32, 48]) {
    s = silu(g)
    t = mul(s, u)
    h = cast(t, bf16)
    dh = contract "mn,nk->mk"(dy, wd)
    dw = contract "mn,mk->nk"(dy, h)
    du = mul(dh, s)
    dg = mul(dh, u)
    return dw: f32, du: bf16, dg: bf16 })");
  CHECK(f.plan.groups.size() == 2);
  CHECK(f.outputs("dh") == Names{"h", "du", "dg"});
  CHECK(f.group_of("h") < f.group_of("dw"));
}

TEST_CASE("a value that would read more than it shares has a kernel of its own") {
  const auto groups = [](const char* shape, const char* h) {
    return fused(fmt::format(R"(chain c(
        weight w: bf16[64, 48], weight b: bf16[64], input x: bf16[32, 48], input g: bf16{}) {{
      y = contract "mk,nk->mn"(x, w)
      z = add(y, b)
      h = {}
      return z: bf16, h: bf16 }})",
                             shape, h))
        .plan.groups.size();
  };
  CHECK(groups("[32, 64]", "silu(g)") == 2);    // shares nothing
  CHECK(groups("[32, 64]", "add(g, b)") == 2);  // shares a row, and reads a matrix besides
  CHECK(groups("[32, 48]", "add(g, x)") == 2);  // a matrix of the contraction, in another shape
  // The shape fits, but the kernel has x only as a matrix.
  const Fused square = fused(R"(chain c(weight w: bf16[48, 48], input x: bf16[32, 48]) {
    y = contract "mk,nk->mn"(x, w)
    h = silu(x)
    return y: bf16, h: bf16 })");
  CHECK(square.plan.groups.size() == 2);
}

TEST_CASE("it joins the kernel where it saves most") {
  const Fused f = fused(R"(chain c(
      weight w: bf16[64, 48], input x: bf16[32, 48], input v: bf16[32, 48], input g: bf16[32, 64],
      input u: bf16[32, 64]) {
    a = contract "mk,nk->mn"(x, w)
    b = mul(a, g)
    p = contract "mk,nk->mn"(v, w)
    d = mul(p, g)
    e = mul(d, u)
    h = mul(g, u)
    return b: bf16, e: bf16, h: bf16 })");
  CHECK(f.group_of("h") == f.group_of("p"));
}

TEST_CASE("an output in place is left for the end") {
  const Fused f = fused(R"(chain c(
      weight w: bf16[64, 48], input x: bf16[32, 48], input g: bf16[32, 64]) {
    a = contract "mk,nk->mn"(x, w)
    b = mul(a, g)
    h = silu(g)
    return b: bf16, h: bf16 inplace g })");
  CHECK(f.plan.groups.size() == 2);
  CHECK(f.plan.groups[1].copies.empty());
  CHECK(f.group_of("h") == 1);
}

namespace {

// Groups, and accumulators of the last one, of p + q with these types, rules and sum.
struct SumCase {
  const char* x = "bf16[32, 48]";
  const char* w = "bf16[48, 64]";
  const char* q = "contract \"mk,kn->mn\"(z, v)";
  const char* sum = "y = add(p, q)";
  const char* output = "y: bf16";
};

size_t groups_of(const SumCase& c) {
  return fused(fmt::format(R"(chain c(
      input x: bf16[32, 48], weight w: bf16[48, 64], input z: {}, weight v: {}) {{
    p = contract "mk,kn->mn"(x, w)
    q = {}
    {}
    return {} }})",
                           c.x, c.w, c.q, c.sum, c.output))
      .plan.groups.size();
}

}  // namespace

TEST_CASE("contractions that are only added have one accumulator") {
  const Fused f = fused(R"(chain c(
      input x: bf16[32, 48], weight w: bf16[48, 64], input z: bf16[32, 40], weight v: bf16[64, 40],
      input s: bf16[32, 16], weight t: bf16[64, 16], weight b: bf16[64]) {
    p = contract "mk,kn->mn"(x, w)
    q = contract "mk,nk->mn"(z, v)
    r = contract "nk,mk->mn"(t, s)
    a = add(p, q)
    c = add(a, r)
    y = add(c, b)
    return y: bf16 })");
  REQUIRE(f.plan.groups.size() == 1);
  CHECK(f.group("y").anchors.size() == 3);
  CHECK(f.group("y").accumulators.size() == 1);
  CHECK(f.group("y").accumulators[0] == f.find("c"));
  CHECK(f.group("y").why.find("'p', 'q', 'r' are contractions that add up to 'c'") == 0);
}

TEST_CASE("other additions of contractions keep their kernels") {
  CHECK(groups_of({}) == 1);
  CHECK(groups_of({.x = "f16[32, 48]", .w = "f16[48, 64]"}) == 2);  // another math mode
  CHECK(groups_of({.output = "y: bf16, q: f32"}) == 2);             // q has another reader
  CHECK(groups_of({.sum = "y = add(p, mul(q, 2))"}) == 2);          // not only added
  CHECK(groups_of({.sum = "y = sub(p, q)"}) == 2);
  CHECK(groups_of({.x = "bf16[64, 48]",
                   .w = "bf16[48, 32]",  // transposed
                   .q = "contract \"mk,kn->mn\"(z, v)",
                   .sum = "y = add(p, q @ \"nm\")"}) == 3);
  CHECK(groups_of({.x = "bf16[1, 48]"}) == 3);  // broadcast
}

namespace {

Fused with_norms(const std::string& text) {
  auto chain = verify(llvm::cantFail(parse(text)));
  if (!chain) FAIL(take_report(chain.takeError()).message);
  FusionPlan plan = fuse_chain(*chain, FusionOptions{true, true});
  return {std::move(*chain), std::move(plan)};
}

// A norm over x, then a product whose rows it scales; `more` lines, and the outputs.
std::string norm(const std::string& more, const std::string& outputs,
                 const std::string& data = "x") {
  return fmt::format(
      "chain c(input x: bf16[8, 64],{3} weight w: bf16[48, 64]) {{\n"
      "  q = sum \"mk->m\"(square(x))\n  s = rsqrt(add(mul(q, 0.015625), 0.00001))\n{0}\n"
      "  y = mul(contract \"mk,nk->mn\"({1}, w), s @ \"m\")\n  return {2} }}",
      more, data, outputs, data == "p" ? " input p: bf16[8, 64]," : "");
}

}  // namespace

TEST_CASE("a sum of squares moves into the contraction whose rows it scales") {
  const Fused f = with_norms(norm("", "y: bf16"));
  REQUIRE(f.plan.groups.size() == 1);
  CHECK(f.plan.groups[0].row_squares == f.find("q"));
  CHECK(f.group_of("s") == -1);
  CHECK(f.plan.groups[0].why.find("'q' is formed from the rows that it reads") !=
        std::string::npos);
  CHECK(fused(norm("", "y: bf16")).plan.groups.size() == 2);
}

TEST_CASE("a norm keeps its kernel where another reader needs it, or rows differ") {
  // The caller wants the scale.
  CHECK_FALSE(with_norms(norm("", "y: bf16, s: f32")).plan.has_norms_inside);
  // A pointwise kernel reads it: the normalised rows are rounded, as the chain says.
  CHECK_FALSE(with_norms(norm("  n = cast(mul(x @ \"mk\", s @ \"m\"), bf16)", "y: bf16, n: bf16"))
                  .plan.has_norms_inside);
  // The product is of other rows.
  CHECK_FALSE(with_norms(norm("", "y: bf16", "p")).plan.has_norms_inside);
  // The sum is over rows, not along K.
  CHECK_FALSE(with_norms(R"(chain c(input x: bf16[64, 64], weight w: bf16[48, 64]) {
    q = sum "mk->k"(square(x))
    y = mul(contract "mk,nk->mn"(x, w), rsqrt(q) @ "m")
    return y: f32 })")
                  .plan.has_norms_inside);
}

TEST_CASE("two contractions that one norm scales still form a pair") {
  const Fused f = with_norms(R"(chain c(input x: bf16[8, 64], weight w: bf16[48, 64],
      weight v: bf16[48, 64]) {
    s = rsqrt(sum "mk->m"(square(x)))
    g = mul(contract "mk,nk->mn"(x, w), s @ "m")
    u = mul(contract "mk,nk->mn"(x, v), s @ "m")
    h = mul(silu(g), u)
    return h: bf16 })");
  REQUIRE(f.plan.groups.size() == 1);
  CHECK(f.plan.groups[0].anchors.size() == 2);
}

namespace {

Fused with_gains(const std::string& text) {
  auto chain = verify(llvm::cantFail(parse(text)));
  if (!chain) FAIL(take_report(chain.takeError()).message);
  FusionPlan plan = fuse_chain(*chain, {.norms_inside = true, .gains_inside = true});
  return {std::move(*chain), std::move(plan)};
}

// `xg` is `scaled`, the product is over it; `more` lines, and the outputs beside y.
std::string gain(const std::string& scaled, const std::string& more = "",
                 const std::string& outputs = "", const char* g = "bf16[64]") {
  return fmt::format(
      "chain c(input x: bf16[8, 64], weight g: {3}, weight w: bf16[48, 64]) {{\n"
      "  s = rsqrt(sum \"mk->m\"(square(x)))\n  xg = {0}\n{1}\n"
      "  y = mul(contract \"mk,nk->mn\"(xg, w), s @ \"m\")\n  return y: bf16{2} }}",
      scaled, more, outputs, g);
}

}  // namespace

TEST_CASE("a gain moves into the contraction that reads the product with it") {
  const Fused f = with_gains(R"(chain c(input x: bf16[8, 64], weight g: bf16[64],
      weight w: bf16[48, 64]) {
    s = rsqrt(sum "mk->m"(square(x)))
    xg = cast(mul(g @ "k", x @ "mk"), bf16)
    y = mul(contract "mk,nk->mn"(xg, w), s @ "m")
    return y: bf16 })");
  REQUIRE(f.plan.groups.size() == 1);
  const FusionGroup& group = f.plan.groups[0];
  REQUIRE(group.gain);
  CHECK(group.gain->data == f.find("x"));
  CHECK(group.gain->gain == f.find("g"));
  CHECK(group.row_data == f.find("xg"));
  CHECK(group.row_squares >= 0);
  CHECK(f.group_of("xg") == -1);
  CHECK(group.why.find("it multiplies 'x' by 'g' as it loads it") != std::string::npos);
}

TEST_CASE("rows that a gain multiplies are stored in place of the product") {
  const Fused f = with_gains(R"(chain c(input p: bf16[8, 64], input r: bf16[8, 64],
      weight g: bf16[64], weight w: bf16[48, 64], weight v: bf16[32, 64]) {
    h = cast(add(p, r), bf16)
    s = rsqrt(sum "mk->m"(square(h)))
    hg = cast(mul(h @ "mk", g @ "k"), bf16)
    y = mul(contract "mk,nk->mn"(hg, w), s @ "m")
    z = mul(contract "mk,nk->mn"(hg, v), s @ "m")
    return y: bf16, z: bf16 })");
  REQUIRE(f.plan.groups.size() == 3);
  REQUIRE(f.plan.groups[0].outputs.size() == 1);
  CHECK(f.plan.groups[0].outputs[0].value == f.find("h"));
  for (const int g : {1, 2}) {
    CHECK(f.plan.groups[g].gain);
    CHECK(f.plan.groups[g].row_squares >= 0);
  }
}

TEST_CASE("a gain keeps its kernel where another reader needs the product, or it is another one") {
  const auto stays = [](const std::string& text) {
    const Fused f = with_gains(text);
    return !f.plan.has_gains_inside && f.group_of("xg") >= 0;
  };
  const std::string scaled = "cast(mul(x @ \"mk\", g @ \"k\"), bf16)";
  CHECK_FALSE(stays(gain(scaled)));
  CHECK_FALSE(stays(gain("cast(mul(x, g), bf16)")));
  // The caller wants it, or a pointwise kernel reads it.
  CHECK(stays(gain(scaled, "", ", xg: bf16")));
  CHECK(stays(gain(scaled, "  e = relu(xg)", ", e: f32")));
  // A contraction of other rows.
  CHECK(stays(gain(scaled, "  e = contract \"mk,mn->kn\"(xg, x)", ", e: f32")));
  // One number for each row, not along K.
  CHECK(stays(gain("cast(mul(x @ \"mk\", s @ \"m\"), bf16)", "  e = mul(g, g)", ", e: f32")));
  // The gain has another dtype; there is one more factor.
  CHECK(stays(gain(scaled, "", "", "f32[64]")));
  CHECK(stays(gain("cast(mul(mul(x, 2.0) @ \"mk\", g @ \"k\"), bf16)")));
}

namespace {

Fused with_sums(const std::string& text) {
  auto chain = verify(llvm::cantFail(parse(text)));
  if (!chain) FAIL(take_report(chain.takeError()).message);
  FusionPlan plan = fuse_chain(*chain, {.column_sums = true});
  return {std::move(*chain), std::move(plan)};
}

// A product, and a sum of what an elementwise op makes of it.
std::string column_sum(const std::string& outputs, const std::string& sum = "sum \"mn->n\"(p)",
                       const std::string& ragged = "") {
  const bool grouped = !ragged.empty();
  return fmt::format(
      "chain c(input x: bf16[40, 64], weight w: bf16[{3}48, 64]{5}) {{\n"
      "  d = contract \"mk,{4}nk->mn\"(x, w){2}\n  p = relu(d)\n  s = {1}\n  return {0} }}",
      outputs, sum, ragged, grouped ? "2, " : "", grouped ? "e" : "",
      grouped ? ", input e: i32[2]" : "");
}

}  // namespace

TEST_CASE("a sum over rows begins in the kernel that computes its terms") {
  const Fused f = with_sums(column_sum("s: f32"));
  REQUIRE(f.plan.groups.size() == 2);
  CHECK(f.plan.has_column_sums);
  REQUIRE(f.plan.groups[0].column_sums.size() == 1);
  CHECK(f.plan.groups[0].column_sums[0].value == f.find("p"));
  CHECK(f.plan.groups[0].outputs.empty());  // the sum needs no element of it
  CHECK(f.plan.groups[0].why.find("it sums every 16 rows of 'p' for 's'") != std::string::npos);
  CHECK(f.plan.groups[1].adds_column_sums);
  CHECK(f.plan.groups[1].why == "'s' adds sums of 16 rows");
  // Whoever else reads it finds it in memory.
  CHECK(with_sums(column_sum("s: f32, p: bf16")).plan.groups[0].outputs.size() == 1);
  CHECK_FALSE(fused(column_sum("s: f32")).plan.has_column_sums);
}

TEST_CASE("a sum over rows stores what else its terms are for") {
  const std::string text = R"(chain c(input dy: bf16[40, 64], input g: bf16[40, 64],
      weight w: bf16[64, 48]) {
    p = mul(dy, silu(g))
    s = sum "mn->n"(p)
    h = cast(p, bf16)
    d = contract "mn,nk->mk"(h, w)
    return s: f32, d: bf16 })";
  CHECK(fused(text).plan.groups.size() == 3);
  const Fused f = with_sums(text);
  REQUIRE(f.plan.groups.size() == 2);
  CHECK(f.plan.has_column_sums);
  CHECK(f.group_of("h") == f.group_of("s"));
  const auto& outputs = f.plan.groups[f.group_of("s")].outputs;
  REQUIRE(outputs.size() == 2);
  for (const GroupOutput& output : outputs) CHECK(output.of_terms == (output.value == f.find("h")));
  CHECK(f.plan.groups[f.group_of("s")].why.find("has the terms of 'h' too, and stores it") !=
        std::string::npos);
  // Nothing is saved where the kernels read other tensors, or the sum is along the rows.
  CHECK(with_sums(R"(chain c(input x: bf16[40, 64], input g: bf16[40, 64], weight w: bf16[64, 48]) {
    s = sum "mn->n"(x)
    h = silu(g)
    d = contract "mn,nk->mk"(cast(h, bf16), w)
    return s: f32, d: bf16 })")
            .plan.groups.size() == 3);
  CHECK(with_sums(R"(chain c(input g: bf16[40, 64], weight w: bf16[64, 48]) {
    s = sum "mn->m"(g)
    h = silu(g)
    d = contract "mn,nk->mk"(cast(h, bf16), w)
    return s: f32, d: bf16 })")
            .plan.groups.size() == 3);
}

TEST_CASE("a sum stores values of its terms that a later sum formed itself") {
  auto chain = verify(llvm::cantFail(parse(R"(chain c(
      input p: f32[4, 4], input q: f32[4, 4, 4], input d: f32[4, 4, 4], input e: f32[4, 4, 4],
      input v: f32[4, 4]) {
    s = sum "njm->mn"(mul(d, q))
    a = add(e, v)
    t = mul(0.5, a)
    u = sum "njm->jm"(select(q, 0, select(p, t, a)))
    h = add(contract "mn,njm->jn" f32 (s, q), u)
    return h: f32, t: f32, a: f32 })")));
  if (!chain) FAIL(take_report(chain.takeError()).message);
  FusionOptions options;
  options.column_sums = true;
  const FusionPlan plan = fuse_chain(*chain, options);
  CHECK(plan.has_column_sums);
  const MemoryMap memory = map_memory(*chain, plan);
  for (int g = 0; g < static_cast<int>(plan.groups.size()); ++g) {
    for (ValueId id : read_values(*chain, plan, g)) {
      const auto& outputs = plan.groups[plan.group_of[id]].outputs;
      CHECK(llvm::any_of(outputs, [&](const GroupOutput& o) { return o.value == id; }));
      CHECK(memory.home.count(id) == 1);
    }
    build_group(*chain, plan, memory, g);
  }
}

TEST_CASE("a sum reads its operand where no kernel has its rows") {
  // Along the columns of a tile.
  CHECK_FALSE(with_sums(column_sum("s: f32", "sum \"mn->m\"(p)")).plan.has_column_sums);
  CHECK_FALSE(with_sums(column_sum("s: f32", "sum \"mn->\"(p)")).plan.has_column_sums);
  CHECK_FALSE(with_sums(column_sum("s: f32", "reduce_max \"mn->n\"(p)")).plan.has_column_sums);
  CHECK_FALSE(with_sums(column_sum("s: f32", "sum \"mn->n\"(p)", " ragged m by e over e"))
                  .plan.has_column_sums);
  // A parameter has no kernel that could add its rows.
  CHECK_FALSE(with_sums("chain c(input x: bf16[40, 64]) { s = sum \"mn->n\"(x) return s: f32 }")
                  .plan.has_column_sums);
  // Another sum of the same value has other rows: it reads the value.
  const Fused both = with_sums(R"(chain c(input x: bf16[40, 2, 64], weight w: bf16[2, 48, 64]) {
    p = contract "bgk,gnk->bgn"(x, w)
    s = sum "bgn->gn"(p)
    t = sum "bgn->n"(p)
    return s: f32, t: f32 })");
  CHECK(both.plan.groups[0].column_sums.size() == 1);
  CHECK(both.plan.groups[0].outputs.size() == 1);
}

// Rounds of `ops` operations, each on the rows of the round before less their sum.
TEST_CASE("values are computed again up to 12 of them, those of other rounds included") {
  const auto most_again = [](int ops, int rounds) {
    std::string text = "chain c(input x: bf16[2048, 512]) {\n";
    std::string last = "x";
    for (int r = 0; r < rounds; ++r) {
      for (int i = 0; i < ops; ++i) {
        const std::string next = fmt::format("g{}_{}", r, i);
        text += fmt::format("  {} = tanh({})\n", next, last);
        last = next;
      }
      text += fmt::format("  s{0} = sum \"mn->m\"({1})\n  q{0} = sub({1} @ \"mn\", s{0} @ \"m\")\n",
                          r, last);
      last = fmt::format("q{}", r);
    }
    text += fmt::format("  return {}: bf16 }}", last);
    const VerifiedChain chain = llvm::cantFail(verify(llvm::cantFail(parse(text))));
    const FusionPlan plan = fuse_chain(chain, true);
    size_t most = 0;
    for (int g = 0; g < static_cast<int>(plan.groups.size()); ++g)
      most = std::max(most, computed_values(chain, plan, g).size() - plan.groups[g].values.size());
    return most;
  };
  CHECK(most_again(5, 1) > 0);
  CHECK(most_again(5, 2) > 5);
  for (const int ops : {3, 5, 11, 12}) {
    CAPTURE(ops);
    CHECK(most_again(ops, 6) <= 12);
  }
}
