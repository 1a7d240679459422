// SPDX-License-Identifier: Apache-2.0
// Random chains are valid, varied and reproducible; on them both ways of the reference to compute
// an element agree; shrinking keeps the failure and drops the rest.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

#include "ir/random/fill.h"
#include "ir/random/random_chain.h"
#include "ir/reference/compare.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

// Verifies, and reports seed and text otherwise.
VerifiedChain verified(u64 seed, const Chain& chain) {
  auto result = verify(chain);
  if (!result) {
    const ErrorReport report = take_report(result.takeError());
    FAIL("seed " << seed << ": " << report.message << "\n" << print(chain));
  }
  return std::move(*result);
}

RandomChainOptions any_chain(u64 seed) {
  RandomChainOptions options;
  options.exact_only = seed % 4 == 1;
  options.no_ragged = seed % 4 != 2;
  options.small_m = seed % 7 == 3;
  options.no_dequant = seed % 3 != 0;
  return options;
}

// Interval by interval, with NaN equal to NaN.
bool same(const Interval& a, const Interval& b) {
  const bool values = a.value == b.value || (std::isnan(a.value) && std::isnan(b.value));
  const bool errors = a.error == b.error || std::fabs(a.error - b.error) <= 1e-9 * a.error;
  return values && errors;
}

i64 random_symbol(const Chain& chain, u64 seed) {
  if (!chain.symbol) return 0;
  return chain.symbol->lo + static_cast<i64>(seed) % (chain.symbol->hi - chain.symbol->lo + 1);
}

}  // namespace

TEST_SUITE("ir") {
  TEST_CASE("2,000 seeds verify and round-trip through the text form; every feature occurs") {
    std::map<std::string, int> seen;
    for (u64 seed = 0; seed < 2000; ++seed) {
      const Chain chain = random_chain(seed, any_chain(seed));
      const VerifiedChain valid = verified(seed, chain);
      auto parsed = parse(print(chain));
      if (!parsed) FAIL("seed " << seed << ": " << take_report(parsed.takeError()).message);
      if (!(*parsed == chain)) FAIL("seed " << seed << " changes in text\n" << print(chain));
      for (ValueId id = 0; id < valid.num_values(); ++id) {
        const Value& value = valid.value(id);
        ++seen[std::string(op_info(value.op).text)];
        const TensorType& type = valid.info(id).type;
        if (value.op == Op::kParameter) ++seen[std::string(role_text(value.role))];
        if (value.op == Op::kParameter && !value.type.strides.empty()) ++seen["strided input"];
        if (value.op == Op::kParameter) ++seen[std::string(dtype_text(type.dtype))];
        seen["packed"] += type.packed;
        if (value.op == Op::kDequant) {
          seen["zeros"] += value.operands.size() > 2;
          seen["several rows a scale"] += value.block.rows > 1;
        }
        for (const Dim& dim : type.shape) {
          if (dim.size <= 1) ++seen[dim.size == 0 ? "size 0" : "size 1"];
        }
        if (num_elements(type) > 8192) FAIL("seed " << seed << " has a large tensor");
        for (const Use& use : value.operands) seen["by label"] += !use.labels.empty();
        seen["sum by group"] += valid.info(id).grouped_terms.has_value();
        seen["operand by group"] += is_elementwise(value.op) && value.ragged.has_value();
        if (!valid.info(id).contraction) continue;
        const Contraction& c = *valid.info(id).contraction;
        ++seen[fmt::format("contract {}",
                           dtype_text(valid.info(value.operands[0].value).type.dtype))];
        for (auto [name, labels] :
             {std::pair{"batch", &c.batch}, {"m", &c.m}, {"n", &c.n}, {"k", &c.k}}) {
          ++seen[fmt::format("{} labels {}", labels->size(), name)];
          for (const ContractionLabel& label : *labels) seen["zero k"] += label.size.size == 0;
        }
        seen["true f32"] += value.true_f32;
        seen["chained"] += valid.value(value.operands[0].value).op == Op::kCast;
        if (value.ragged) ++seen[c.ragged_group->result < 0 ? "ragged rows" : "ragged terms"];
      }
      for (const Output& output : chain.outputs) {
        ++seen[fmt::format("output {}", dtype_text(output.dtype))];
        seen["strided output"] += !output.strides.empty();
        ++seen[fmt::format("align {}", output.align)];
      }
      seen["several outputs"] += chain.outputs.size() > 1;
      seen["symbol"] += chain.symbol.has_value();
    }
    for (Op op : all_ops()) {
      CAPTURE(op_info(op).text);
      CHECK(seen[std::string(op_info(op).text)] > 0);
    }
    for (const char* feature : {"input",
                                "sum by group",
                                "operand by group",
                                "weight",
                                "scalar",
                                "strided input",
                                "strided output",
                                "by label",
                                "size 0",
                                "size 1",
                                "zero k",
                                "contract bf16",
                                "contract f16",
                                "contract f32",
                                "true f32",
                                "chained",
                                "ragged rows",
                                "ragged terms",
                                "output bf16",
                                "output f16",
                                "output f32",
                                "align 2",
                                "align 4",
                                "align 8",
                                "align 16",
                                "several outputs",
                                "symbol",
                                "0 labels batch",
                                "1 labels batch",
                                "2 labels batch",
                                "0 labels m",
                                "1 labels m",
                                "2 labels m",
                                "0 labels n",
                                "1 labels n",
                                "2 labels n",
                                "0 labels k",
                                "1 labels k",
                                "2 labels k",
                                "i8",
                                "i4",
                                "u4",
                                "packed",
                                "zeros",
                                "several rows a scale"}) {
      CAPTURE(feature);
      CHECK(seen[feature] > 2);
    }
  }

  TEST_CASE("the same seed gives the same chain, another seed another") {
    CHECK(random_chain(7) == random_chain(7));
    std::set<std::string> texts;
    for (u64 seed = 0; seed < 100; ++seed) texts.insert(print(random_chain(seed)));
    CHECK(texts.size() > 95);
  }

  TEST_CASE("no contraction if none is requested") {
    RandomChainOptions options;
    options.max_contractions = 0;
    for (u64 seed = 0; seed < 100; ++seed) {
      for (const Value& value : random_chain(seed, options).values)
        CHECK(value.op != Op::kContract);
    }
  }

  TEST_CASE("sampled elements equal evaluated ones") {
    for (u64 seed = 0; seed < 250; ++seed) {
      const Chain chain = random_chain(seed, any_chain(seed));
      const VerifiedChain valid = verified(seed, chain);
      const FillKind kind = all_fills()[seed % all_fills().size()];
      const ChainData data = fill_chain(valid, random_symbol(chain, seed), kind, seed);
      auto reference = Reference::create(valid, data.inputs);
      if (!reference) FAIL("seed " << seed << ": " << take_report(reference.takeError()).message);
      const auto all = reference->evaluate(2);
      for (size_t i = 0; i < all.size(); ++i) {
        const i64 size = static_cast<i64>(all[i].size());
        std::vector<i64> indices;
        for (i64 j = 0; j < size; j += 1 + size / 7) indices.push_back(j);
        const int output = static_cast<int>(i);
        const std::vector<Interval> divided = reference->output_elements(output, indices, 3);
        REQUIRE(divided.size() == indices.size());
        for (size_t e = 0; e < indices.size(); ++e) {
          const i64 j = indices[e];
          const Interval one = reference->output_element(output, j);
          if (same(one, all[i][j]) && same(divided[e], one)) continue;
          FAIL("seed " << seed << " output " << i << " element " << j << ": " << one.value << " +- "
                       << one.error << ", evaluated " << all[i][j].value << " +- "
                       << all[i][j].error << "\n"
                       << print(chain));
        }
      }
    }
  }

  TEST_CASE("exact chains on integers have no error anywhere") {
    RandomChainOptions options;
    options.exact_only = true;
    i64 elements = 0;
    i64 zeros = 0;
    for (u64 seed = 0; seed < 300; ++seed) {
      const Chain chain = random_chain(seed, options);
      const VerifiedChain valid = verified(seed, chain);
      if (!chain_is_exact(valid)) FAIL("seed " << seed << "\n" << print(chain));
      const ChainData data =
          fill_chain(valid, random_symbol(chain, seed), FillKind::kExactInteger, seed);
      auto reference = Reference::create(valid, data.inputs);
      REQUIRE(!!reference);
      for (const auto& output : reference->evaluate(1)) {
        for (const Interval& x : output) {
          ++elements;
          zeros += x.value == 0;
          if (x.error != 0 || x.value != std::nearbyint(x.value)) {
            FAIL("seed " << seed << ": " << x.value << " +- " << x.error << "\n" << print(chain));
          }
        }
      }
    }
    CHECK(elements > 50000);
    CHECK(zeros < elements / 2);
  }

  TEST_CASE("shrinking keeps the failure and drops the rest") {
    int shrunk = 0;
    for (u64 seed = 0; seed < 60; ++seed) {
      const Chain chain = random_chain(seed);
      const auto has_gelu = [](const Chain& c) {
        return llvm::any_of(c.values, [](const Value& v) { return v.op == Op::kGelu; });
      };
      if (!has_gelu(chain)) continue;
      ++shrunk;
      const Chain small = shrink(chain, has_gelu);
      verified(seed, small);
      CAPTURE(print(small));
      CHECK(has_gelu(small));
      CHECK(small.outputs.size() == 1);
      CHECK(small.values.size() == 2);
      for (const Dim& dim : small.values[0].type.shape) CHECK(dim.size <= 1);
      CHECK(small.values[0].type.strides.empty());
    }
    CHECK(shrunk > 3);
  }

  TEST_CASE("a quantised weight shrinks with its scales") {
    RandomChainOptions options;
    options.no_dequant = false;
    const auto has_dequant = [](const Chain& c) {
      return llvm::any_of(c.values, [](const Value& v) { return v.op == Op::kDequant; });
    };
    int shrunk = 0;
    for (u64 seed = 0; seed < 40; ++seed) {
      const Chain chain = random_chain(seed, options);
      if (!has_dequant(chain)) continue;
      ++shrunk;
      const Chain small = shrink(chain, has_dequant);
      verified(seed, small);
      CAPTURE(print(small));
      CHECK(has_dequant(small));
      CHECK(small.outputs.size() == 1);
      for (const Value& value : small.values) {
        for (const Dim& dim : value.type.shape) CHECK(dim.size <= 2);
      }
    }
    CHECK(shrunk > 5);
  }
}
