// SPDX-License-Identifier: Apache-2.0
// Reduced chains: valid, no size above the bound, remainders and equalities kept, layouts of the
// same kind. For the examples, odd sizes, and random chains.
#include "ir/random/reduce_sizes.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "ir/random/random_chain.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

VerifiedChain verified(const std::string& text) {
  Expected<Chain> chain = parse(text);
  if (!chain) FAIL(take_report(chain.takeError()).message << "\n" << text);
  return llvm::cantFail(verify(std::move(*chain)));
}

VerifiedChain example(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(std::string(CATENARY_SOURCE_DIR) + "/examples/" + name + ".chain").rdbuf();
  return verified(text.str());
}

ReducedChain reduce(const VerifiedChain& chain, i64 max_size) {
  Expected<ReducedChain> reduced = reduce_sizes(chain, max_size);
  if (!reduced) {
    FAIL(take_report(reduced.takeError()).message << "\n" << print(chain.chain()));
  }
  return std::move(*reduced);
}

const TensorType& parameter(const ReducedChain& reduced, int i) {
  return reduced.chain.info(reduced.chain.parameters()[i]).type;
}

std::set<ValueId> scales_of(const VerifiedChain& chain) {
  std::set<ValueId> scales;
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    if (chain.value(id).op != Op::kDequant) continue;
    for (size_t i = 1; i < chain.value(id).operands.size(); ++i) {
      scales.insert(chain.value(id).operands[i].value);
    }
  }
  return scales;
}

// Checks that hold for every reduction, value by value.
void check_reduction(const VerifiedChain& chain, const ReducedChain& reduced, i64 max_size) {
  std::map<i64, i64> became;
  REQUIRE(reduced.chain.num_values() == chain.num_values());
  const std::set<ValueId> scales = scales_of(chain);
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    if (scales.count(id) != 0) continue;  // verify() has compared their shape with their weight's
    const TensorType& before = chain.info(id).type;
    const TensorType& after = reduced.chain.info(id).type;
    REQUIRE(after.rank() == before.rank());
    for (int d = 0; d < before.rank(); ++d) {
      const i64 size = before.shape[d].size;
      const i64 small = after.shape[d].size;
      CHECK(after.shape[d].symbolic == before.shape[d].symbolic);
      CHECK(small <= max_size);
      CHECK((small > 1) == (size > 1));
      if (size <= max_size) CHECK(small == size);
      if (max_size >= 128) CHECK((size - small) % 64 == 0);
      CHECK((size - small) % 2 == 0);
      const bool known = became.try_emplace(size, small).first->second == small;
      CHECK(known);
    }
    CHECK(after.align == before.align);
    CHECK(after.dtype == before.dtype);
  }
}

}  // namespace

TEST_CASE("the examples, at every bound") {
  for (const char* name : {"small_batch", "pseudo_linear", "geglu_mlp", "grouped_linear",
                           "moe_linear", "int4_decode"}) {
    const VerifiedChain chain = example(name);
    for (i64 max_size : {16, 17, 64, 100, 200, 256, 300, 1000}) {
      CAPTURE(name);
      CAPTURE(max_size);
      check_reduction(chain, reduce(chain, max_size), max_size);
    }
  }
}

TEST_CASE("random chains, with their layouts") {
  for (u64 seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    RandomChainOptions options;
    options.max_elements = 40000;
    options.no_ragged = false;
    options.no_dequant = seed % 2 == 0;
    const VerifiedChain chain = llvm::cantFail(verify(random_chain(seed, options)));
    for (i64 max_size : {16, 24, 128}) check_reduction(chain, reduce(chain, max_size), max_size);
  }
}

TEST_CASE("scales are reduced as their weight is") {
  const ReducedChain small = reduce(example("int4_decode"), 256);
  CHECK(small.sizes == std::vector<std::pair<i64, i64>>{{14336, 256}, {4096, 192}});
  CHECK(parameter(small, 1).shape[1].size == 192);
  CHECK(parameter(small, 2).shape[1].size == 2);
  // A scale with strides of its own, and several rows a scale.
  const VerifiedChain chain = verified(
      "chain c(input x: bf16[4, 1024], weight q: i4[512, 1024], "
      "weight s: f32[64, 8] strides[24, 2]) {\n"
      "  y = contract \"mk,nk->mn\"(x, dequant(q, s) block (8, 128))\n  return y: f32\n}\n");
  const TensorType& scale = parameter(reduce(chain, 256), 2);
  CHECK(scale.shape[0].size == 24);
  CHECK(scale.shape[1].size == 2);
  CHECK(scale.strides == llvm::SmallVector<i64, 4>{12, 2});
}

TEST_CASE("rows of 4-bit zeros begin with a byte") {
  for (const char* strides : {"", " strides[6, 1]"}) {
    const VerifiedChain chain = verified(fmt::format(
        "chain c rounded_weights(input x: f16[4, 256], weight q: i4[8, 256] packed, weight s: "
        "f16[8, 2],\n"
        "        weight z: u4[8, 2]{}) {{\n"
        "  y = contract \"mk,nk->mn\"(x, dequant(q, s, z) block (1, 128))\n  return y: f16\n}}\n",
        strides));
    const TensorType& zeros = parameter(reduce(chain, 128), 3);
    CHECK(zeros.shape[1].size == 1);
    CHECK(zeros.strides[0] % 2 == 0);
  }
}

TEST_CASE("different sizes stay different if possible") {
  const ReducedChain mlp = reduce(example("geglu_mlp"), 256);
  CHECK(mlp.sizes == std::vector<std::pair<i64, i64>>{{8192, 256}, {3072, 192}, {768, 128}});
  // Below 65 there is only one multiple of 64.
  const ReducedChain tiny = reduce(example("geglu_mlp"), 64);
  CHECK(tiny.sizes == std::vector<std::pair<i64, i64>>{{8192, 64}, {3072, 64}, {768, 64}});
}

TEST_CASE("a chain that is small enough does not change") {
  const VerifiedChain chain = example("small_batch");
  const ReducedChain same = reduce(chain, 4096);
  CHECK(same.sizes.empty());
  CHECK(same.chain.chain() == chain.chain());
}

TEST_CASE("odd sizes stay odd, and no size becomes 1") {
  const ReducedChain odd =
      reduce(verified("chain c(input x: f32[4097, 333], weight w: f32[333]) {\n"
                      "  y = mul(x, w)\n  return y: f32\n}\n"),
             64);
  CHECK(odd.sizes == std::vector<std::pair<i64, i64>>{{4097, 33}, {333, 13}});
}

TEST_CASE("the symbol's range and the symbol are reduced too") {
  const ReducedChain reduced = reduce(verified("chain c[M in 100..4000](input x: f32[M, 8]) {\n"
                                               "  y = relu(x)\n  return y: f32\n}\n"),
                                      256);
  const Symbol& symbol = *reduced.chain.chain().symbol;
  CHECK(symbol.lo == 100);
  CHECK(symbol.hi == 224);
  CHECK(reduce_symbol(reduced.chain, 4000) == 224);
  CHECK(reduce_symbol(reduced.chain, 101) == 101);
  CHECK(reduce_symbol(reduced.chain, 1001) == 169);
  CHECK(reduce_symbol(reduced.chain, 3001) == 185);
  const ReducedChain fixed = reduce(verified("chain c[M in 1000..1001](input x: f32[M, 8]) {\n"
                                             "  y = relu(x)\n  return y: f32\n}\n"),
                                    256);
  CHECK(fixed.chain.chain().symbol->lo <= fixed.chain.chain().symbol->hi);
}

TEST_CASE("layouts keep order, padding, broadcast and alignment") {
  const ReducedChain reduced =
      reduce(verified("chain c(\n"
                      "    input padded: bf16[1024, 1000] strides[1008, 1],\n"
                      "    input slice: bf16[1024, 1000] strides[12288, 1],\n"
                      "    input turned: bf16[1024, 1000] strides[1, 1024],\n"
                      "    input same: bf16[1024, 1000] strides[0, 1],\n"
                      "    input window: bf16[1024, 1000] strides[3, 1]) {\n"
                      "  y = add(add(add(padded, slice), add(turned, same)), window)\n"
                      "  return y: f32 strides[1, 1032]\n}\n"),
             256);
  using Strides = llvm::SmallVector<i64, 4>;
  CHECK(parameter(reduced, 0).shape[0].size == 256);
  CHECK(parameter(reduced, 0).shape[1].size == 232);
  CHECK(parameter(reduced, 0).strides == Strides{240, 1});
  CHECK(parameter(reduced, 1).strides == Strides{448, 1});  // 232 + 216; 11288 = 216 modulo 64
  CHECK(parameter(reduced, 2).strides == Strides{1, 256});
  CHECK(parameter(reduced, 3).strides == Strides{0, 1});
  CHECK(parameter(reduced, 4).strides == Strides{3, 1});
  CHECK(reduced.chain.output_type(0).strides == Strides{1, 264});
  for (int i = 0; i < 3; ++i) {
    const i64 before = i == 0 ? 1008 : i == 1 ? 12288 : 1024;
    const auto& strides = parameter(reduced, i).strides;
    CHECK((before - std::max(strides[0], strides[1])) % 64 == 0);
  }
}

TEST_CASE("a bound that is too small for remainders is rejected") {
  auto reduced = reduce_sizes(example("small_batch"), 15);
  REQUIRE_FALSE(reduced);
  const ErrorReport report = take_report(reduced.takeError());
  CHECK(report.code == ErrorCode::kInvalidArgument);
  CHECK(report.message.find("15") != std::string::npos);
  CHECK(report.message.find("16") != std::string::npos);
}
