// SPDX-License-Identifier: Apache-2.0
// Chains for tests of packs: planned for real, with machine code that has a right ELF header and
// that no device runs.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "compiler/compile/host_compiler.h"
#include "compiler/emit/emit.h"
#include "ir/text/text.h"
#include "runtime/pack/pack_writer.h"
#include "tests/support/sealed_pack.h"

namespace catenary::test {

// Like llvm::cantFail, which prints no message in a release build.
template <typename T>
T must(Expected<T> result) {
  if (!result) FAIL(take_report(result.takeError()).message);
  return std::move(*result);
}

// y = silu(x w^T + b); M symbolic if `rows` is empty.
struct LayerSizes {
  std::string name = "layer";
  std::string rows;  // "64"; empty: the symbol
  std::string range = "1..64";
  int n = 256;
  int k = 128;
  std::string w_layout;  // " align 8", " strides[256, 1]"
  std::string dtype = "bf16";
};

inline std::string layer_text(const LayerSizes& l) {
  const bool symbolic = l.rows.empty();
  return fmt::format(
      "chain {0}{1}(input {0}_x: {2}[{3}, {5}], weight w: {2}[{4}, {5}]{6}, weight b: f32[{4}]) "
      "{{\n"
      "  h = contract \"mk,nk->mn\"({0}_x, w)\n  y = silu(add(h, b))\n  return y: {2}\n}}\n",
      l.name, symbolic ? fmt::format("[M in {}]", l.range) : "", l.dtype, symbolic ? "M" : l.rows,
      l.n, l.k, l.w_layout);
}

inline VerifiedChain layer_chain(const LayerSizes& l = {}) {
  return must(verify(must(parse(layer_text(l)))));
}

// An ELF header of machine code for `arch`, and some bytes that depend on `seed`.
inline std::vector<u8> fake_code(const std::string& arch, const std::string& seed) {
  std::vector<u8> image(64 + 40, 0);
  std::memcpy(image.data(),
              "\x7f"
              "ELF\x02\x01\x01\x41\x08",
              9);
  if (is_host_arch(arch)) {
    image[18] = 62;
  } else {
    Target target;
    target.arch = arch;
    image[18] = 190;
    image[49] = static_cast<u8>(target.compute_capability());
  }
  const KernelKey digest = sha256({reinterpret_cast<const u8*>(seed.data()), seed.size()});
  std::copy(digest.bytes.begin(), digest.bytes.end(), image.begin() + 64);
  return image;
}

inline std::shared_ptr<const ChainRecord> planned_record(const VerifiedChain& chain,
                                                         const Target& target, bool host = false) {
  Plan plan = must(make_plan(chain, target));
  auto compiled = std::make_shared<CompiledChain>(CompiledChain{chain, plan, {}});
  for (const PlanBucket& bucket : plan.buckets) {
    compiled->buckets.emplace_back();
    for (const KernelPlan& kernel : bucket.kernels) {
      auto cubin = std::make_shared<Cubin>();
      cubin->symbol = kernel.symbol;
      cubin->arch = (host ? "host:" : "") + target.arch;
      cubin->compiler_id = "nvrtc 13.0.88";
      cubin->resources = {96, 0, 16, 0};
      CompiledKernel made{emit(chain, compiled->plan, kernel), {}, nullptr};
      cubin->image = fake_code(cubin->arch, made.source.body);
      made.key = sha256(cubin->image);
      made.cubin = std::move(cubin);
      compiled->buckets.back().push_back(std::move(made));
    }
  }
  return make_record(std::move(compiled));
}

inline std::shared_ptr<const ChainRecord> layer_record(const LayerSizes& sizes = {},
                                                       const std::string& target = "h200") {
  return planned_record(layer_chain(sizes), must(find_target(target)));
}

inline std::vector<u8> pack_of(llvm::ArrayRef<std::shared_ptr<const ChainRecord>> records,
                               PackContents contents = {}) {
  PackWriter writer(contents);
  for (const auto& record : records) must(writer.add(*record));
  return must(writer.bytes());
}

}  // namespace catenary::test
