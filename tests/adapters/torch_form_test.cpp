// SPDX-License-Identifier: Apache-2.0
// Forms: keys, and chains for the layouts of arguments.
#include <doctest/doctest.h>

#include "adapters/torch/form.h"
#include "ir/text/text.h"

using namespace catenary;
using namespace catenary::torch_adapter;

namespace {

template <typename T>
T ok(Expected<T> value) {
  if (!value) FAIL(take_report(value.takeError()).message);
  return std::move(*value);
}

template <typename T>
std::string error_text(Expected<T> value) {
  REQUIRE_FALSE(static_cast<bool>(value));
  return take_report(value.takeError()).message;
}

constexpr char kLinear[] =
    "chain linear[M in 1..64](input x: f32[M, 8], weight w: f32[24, 8], weight b: f32[24]) {\n"
    "  c = contract \"mk,nk->mn\"(x, w)\n"
    "  y = silu(add(c, b))\n"
    "  return y: f32\n"
    "}\n";

Form form_of(const char* text, LayoutRule rule) {
  return ok(make_form(ok(verify(ok(parse(text)))), rule));
}

TensorLayout layout(llvm::ArrayRef<i64> sizes, llvm::ArrayRef<i64> strides,
                    DType dtype = DType::kF32) {
  TensorLayout result;
  result.dtype = dtype;
  result.sizes.assign(sizes.begin(), sizes.end());
  result.strides.assign(strides.begin(), strides.end());
  return result;
}

std::string text_of(const Specialisation& special) { return print(special.chain.chain()); }

const TensorLayout kW = layout({40, 16}, {16, 1});
const TensorLayout kB = layout({40}, {1});

constexpr char kQuantised[] =
    "chain q[M in 1..64](input x: f16[M, 40], weight q: i4[24, 40] packed, weight s: f16[24, 2], "
    "weight z: i8[24, 2]) {\n"
    "  w = dequant(q, s, z) block (1, 32)\n"
    "  y = contract \"mk,nk->mn\"(x, w)\n"
    "  return y: f16\n"
    "}\n";

TensorLayout bytes(llvm::ArrayRef<i64> sizes, llvm::ArrayRef<i64> strides, bool is_unsigned) {
  TensorLayout result = layout(sizes, strides, DType::kI8);
  result.unsigned_bytes = is_unsigned;
  return result;
}

}  // namespace

TEST_CASE("a key is positive, the same for other names, and another for other layouts") {
  const Form exact = form_of(kLinear, LayoutRule::kExact);
  std::string renamed = kLinear;
  renamed.replace(renamed.find("chain linear"), 12, "chain other");
  CHECK(exact.key > 0);
  CHECK(form_of(renamed.c_str(), LayoutRule::kExact).key == exact.key);
  CHECK(form_of(kLinear, LayoutRule::kFromTensors).key != exact.key);
  CHECK(ok(make_form(ok(verify(ok(parse(kLinear)))), LayoutRule::kExact, true)).key != exact.key);
}

TEST_CASE("sizes of outputs come from parameters") {
  const Form form = form_of(kLinear, LayoutRule::kFromTensors);
  REQUIRE(form.outputs.size() == 1);
  CHECK(form.outputs[0].leading);
  CHECK(form.outputs[0].sizes[0].parameter == 0);
  CHECK(form.outputs[0].sizes[1].parameter == 1);
  CHECK(form.outputs[0].sizes[1].dim == 0);
}

TEST_CASE("a chain takes the sizes of the tensors, and merges leading dimensions") {
  const Form form = form_of(kLinear, LayoutRule::kFromTensors);
  const Specialisation special =
      ok(specialise(form, {layout({2, 3, 16}, {48, 16, 1}), kW, kB}, false));
  CHECK(text_of(special).find("x: f32[6, 16]") != std::string::npos);
  CHECK(special.symbol == 0);
  CHECK_FALSE(special.copied[0]);
  CHECK(llvm::ArrayRef<i64>(special.outputs[0].sizes) == llvm::ArrayRef<i64>({2, 3, 40}));
  CHECK(llvm::ArrayRef<i64>(special.outputs[0].strides) == llvm::ArrayRef<i64>({120, 40, 1}));
}

TEST_CASE("leading dimensions that are not one in memory are copied") {
  const Form form = form_of(kLinear, LayoutRule::kFromTensors);
  const Specialisation special =
      ok(specialise(form, {layout({2, 3, 16}, {16, 32, 1}), kW, kB}, false));
  CHECK(special.copied[0]);
  CHECK(text_of(special).find("x: f32[6, 16] strides[16, 1],") != std::string::npos);
}

TEST_CASE("a tensor that is overwritten is never a copy: its leading dimensions must be rows") {
  const Form form = form_of(
      "chain add[M in 1..64](input y: f32[M, 8], input x: f32[M, 8]) {\n"
      "  z = add(y, x)\n  return z: f32 inplace y\n}\n",
      LayoutRule::kFromTensors);
  const TensorLayout x = layout({4, 8, 16}, {128, 16, 1});
  CHECK_FALSE(ok(specialise(form, {x, x}, false)).copied[0]);
  const std::string text =
      error_text(specialise(form, {layout({4, 8, 16}, {256, 16, 1}), x}, false));
  CHECK(text.find("'y' is overwritten, and its leading dimensions, of strides (256, 16)") !=
        std::string::npos);
}

TEST_CASE("a symbol has the range of powers of 2 of its size") {
  const Form form = form_of(kLinear, LayoutRule::kFromTensors);
  const Specialisation large = ok(specialise(form, {layout({100, 16}, {16, 1}), kW, kB}, true));
  CHECK(text_of(large).find("[M in 65..128]") != std::string::npos);
  CHECK(large.symbol == 100);
  const Specialisation small = ok(specialise(form, {layout({3, 16}, {16, 1}), kW, kB}, true));
  CHECK(text_of(small).find("[M in 1..16]") != std::string::npos);
}

TEST_CASE("strides of dimensions with one index do not make another chain") {
  const Form form = form_of(kLinear, LayoutRule::kFromTensors);
  const Specialisation a = ok(specialise(form, {layout({1, 16}, {16, 1}), kW, kB}, false));
  const Specialisation b = ok(specialise(form, {layout({1, 16}, {777, 1}), kW, kB}, false));
  CHECK(text_of(a) == text_of(b));
}

TEST_CASE("exact layouts: what does not fit is named") {
  const Form form = form_of(kLinear, LayoutRule::kExact);
  const TensorLayout x = layout({5, 8}, {8, 1});
  const TensorLayout w = layout({24, 8}, {8, 1});
  const TensorLayout b = layout({24}, {1});
  CHECK(ok(specialise(form, {x, w, b}, false)).symbol == 5);
  const auto sentence = [&](const TensorLayout& wrong) {
    return error_text(specialise(form, {wrong, w, b}, false));
  };
  CHECK(sentence(layout({5, 8}, {8, 1}, DType::kBF16)).find("'x' is bf16") != std::string::npos);
  CHECK(sentence(layout({5, 9}, {9, 1})).find("sizes (5, 9)") != std::string::npos);
  CHECK(sentence(layout({5, 8}, {1, 5})).find("strides (1, 5)") != std::string::npos);
  CHECK(sentence(layout({65, 8}, {8, 1})).find("M = 65") != std::string::npos);
  CHECK(sentence(layout({5, 8, 1}, {8, 1, 1})).find("3 dimensions") != std::string::npos);
}

TEST_CASE("from tensors: sizes that contradict each other are an error of the chain") {
  const Form form = form_of(kLinear, LayoutRule::kFromTensors);
  const std::string text = error_text(specialise(form, {layout({5, 9}, {9, 1}), kW, kB}, false));
  CHECK(text.find("k") != std::string::npos);
}

TEST_CASE("a packed weight is its bytes, and has the sizes of the chain under either rule") {
  const TensorLayout s = layout({24, 2}, {2, 1}, DType::kF16);
  const TensorLayout z = bytes({24, 2}, {2, 1}, false);
  for (const LayoutRule rule : {LayoutRule::kExact, LayoutRule::kFromTensors}) {
    const Form form = form_of(kQuantised, rule);
    const TensorLayout x = layout({5, 40}, {40, 1}, DType::kF16);
    for (const bool is_unsigned : {false, true}) {
      const Specialisation special =
          ok(specialise(form, {x, bytes({1024}, {1}, is_unsigned), s, z}, false));
      CHECK(llvm::ArrayRef<i64>(special.outputs[0].sizes) == llvm::ArrayRef<i64>({5, 24}));
      CHECK(text_of(special).find("q: i4[24, 40] packed") != std::string::npos);
    }
    const auto sentence = [&](const TensorLayout& q, const TensorLayout& zeros) {
      return error_text(specialise(form, {x, q, s, zeros}, false));
    };
    CHECK(sentence(bytes({1023}, {1}, true), z) ==
          "'q' is uint8 of sizes (1023), and the chain takes i4, packed: pass uint8 of sizes "
          "(1024), as catenary.repack returns it");
    CHECK(sentence(layout({1024}, {1}), z).find("'q' is f32 of sizes") != std::string::npos);
    CHECK(sentence(bytes({1024}, {2}, true), z).find("'q' has strides (2)") != std::string::npos);
    CHECK(sentence(bytes({1024}, {1}, true), bytes({24, 2}, {2, 1}, true))
              .find("'z' is uint8, and the chain takes i8") != std::string::npos);
  }
}

TEST_CASE("beside a packed weight, tensors without rows of 16-byte vectors are copied") {
  const Form form = form_of(kQuantised, LayoutRule::kFromTensors);
  const auto copied = [&](llvm::ArrayRef<i64> strides, i64 align) {
    TensorLayout x = layout({5, 40}, strides, DType::kF16);
    x.align = align;
    return static_cast<bool>(
        ok(specialise(form,
                      {x, bytes({1024}, {1}, true), layout({24, 2}, {2, 1}, DType::kF16),
                       bytes({24, 2}, {2, 1}, false)},
                      false))
            .copied[0]);
  };
  CHECK_FALSE(copied({40, 1}, 16));
  CHECK_FALSE(copied({48, 1}, 16));
  CHECK(copied({44, 1}, 16));
  CHECK(copied({40, 1}, 8));
  CHECK(copied({1, 5}, 16));
}

TEST_CASE("rows of two elements a byte: an odd number of columns, and rows with gaps") {
  const auto text = [](std::string_view strides) {
    return fmt::format(
        "chain q(input x: f16[5, 7], weight q: u4[24, 7] strides[{}, 1], weight s: f16[24, 1]) {{\n"
        "  w = dequant(q, s) block (1, 7)\n"
        "  y = contract \"mk,nk->mn\"(x, w)\n"
        "  return y: f16\n"
        "}}\n",
        strides);
  };
  const TensorLayout x = layout({5, 7}, {7, 1}, DType::kF16);
  const TensorLayout s = layout({24, 1}, {1, 1}, DType::kF16);
  const Form dense = form_of(text("8").c_str(), LayoutRule::kFromTensors);
  ok(specialise(dense, {x, bytes({24, 4}, {4, 1}, true), s}, false));
  const Form gaps = form_of(text("16").c_str(), LayoutRule::kExact);
  ok(specialise(gaps, {x, bytes({24, 4}, {8, 1}, true), s}, false));
  CHECK(error_text(specialise(gaps, {x, bytes({24, 4}, {4, 1}, true), s}, false))
            .find("'q' has strides (4, 1), and the chain takes (8, 1)") != std::string::npos);
}
