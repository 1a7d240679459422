// SPDX-License-Identifier: Apache-2.0
// Engine::compile with NVRTC: a tile that spills beside one epilogue is replaced by the next best.
#include <doctest/doctest.h>

#include <string>

#include "compiler/compile/nvrtc.h"
#include "compiler/kernel_family.h"
#include "ir/text/text.h"
#include "runtime/engine.h"

using namespace catenary;

namespace {

constexpr const char* kGeluKeepsInput =
    "chain one(input x: bf16[8192, 4096], weight w: bf16[4096, 4096], weight b: bf16[4096]) {\n"
    "  h = add(contract \"mk,nk->mn\"(x, w), b)\n  y = gelu_tanh(h)\n"
    "  return y: bf16, h: bf16 }";

constexpr const char* kDualKeepsBoth =
    "chain pair(input x: bf16[8192, 4096], weight w: bf16[4096, 4096],\n"
    "           weight v: bf16[4096, 4096], weight b: bf16[4096], weight c: bf16[4096]) {\n"
    "  g = add(contract \"mk,nk->mn\"(x, w), b)\n  u = add(contract \"mk,nk->mn\"(x, v), c)\n"
    "  y = mul(silu(g), u)\n  return y: bf16, g: bf16, u: bf16 }";

bool have_nvrtc() {
  auto nvrtc = Nvrtc::get();
  if (nvrtc) return true;
  MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
  return false;
}

EngineOptions uncached() {
  EngineOptions options;
  options.cache.mode = CacheMode::kOff;
  return options;
}

}  // namespace

// As a backward pass wants them: each result more takes registers beside the same accumulators.
TEST_CASE("layers that keep their pre-activations compile") {
  if (!have_nvrtc()) return;
  Engine engine(uncached());
  for (const char* text : {kGeluKeepsInput, kDualKeepsBoth}) {
    auto compiled =
        engine.compile(llvm::cantFail(parse(text)), llvm::cantFail(find_target("h200")));
    if (!compiled) FAIL(take_report(compiled.takeError()).message);
    const KernelPlan& kernel = (*compiled)->plan.buckets[0].kernels[0];
    CHECK(family_name(kernel) == "gemm_sm90");
    CHECK((*compiled)->buckets[0][0].cubin->resources.spill_bytes == 0);
  }
}

// 128 accumulators and three results, one of them in f32.
TEST_CASE("a forced tile that spills is refused; among free candidates the next best compiles") {
  if (!have_nvrtc()) return;
  const Target target = llvm::cantFail(find_target("h200"));
  const char* text =
      "chain three(input x: bf16[200, 136], weight w: bf16[328, 136], weight b: f32[328],\n"
      "            input s: f32[200, 1], input c: f32[1]) {\n"
      "  h = add(contract \"mk,nk->mn\"(x, w), b)\n  y = mul(relu(h), s)\n  z = mul(y, c)\n"
      "  return h: bf16 strides[336, 1], y: f32, z: f16 }";
  EngineOptions options = uncached();
  options.plan.force_tile = "128x128x64p2s6c2";
  auto forced = Engine(options).compile(llvm::cantFail(parse(text)), target);
  REQUIRE(!forced);
  const ErrorReport report = take_report(forced.takeError());
  CHECK(report.code == ErrorCode::kKernelRejected);
  CHECK_MESSAGE(report.message.find("spills") != std::string::npos, report.message);
  auto chosen = Engine(uncached()).compile(llvm::cantFail(parse(text)), target);
  if (!chosen) FAIL(take_report(chosen.takeError()).message);
  CHECK((*chosen)->buckets[0][0].cubin->resources.spill_bytes == 0);
}

// y = x0 + x1 + ... of `count` operands; with `late`, of relu of each, summed from the last, so
// that all are held at one time.
std::string many_operands(int count, const char* dtype, bool late) {
  std::string parameters, body;
  for (int i = 0; i < count; ++i) {
    parameters += fmt::format("{}input x{}: {}[512, 256]", i > 0 ? ", " : "", i, dtype);
    if (late) body += fmt::format("  r{0} = relu(x{0})\n", i);
  }
  const char* name = late ? "r" : "x";
  std::string sum = fmt::format("{}{}", name, count - 1);
  for (int i = count - 2; i >= 0; --i) {
    body += fmt::format("  s{} = add({}, {}{})\n", i, sum, name, i);
    sum = fmt::format("s{}", i);
  }
  return fmt::format("chain many({}) {{\n{}  return s0: {} }}", parameters, body, dtype);
}

TEST_CASE("an elementwise chain of any number of operands compiles without a spill") {
  if (!have_nvrtc()) return;
  Engine engine(uncached());
  for (const char* arch : {"sm_80", "h200"}) {
    const Target target = llvm::cantFail(find_target(arch));
    for (const bool late : {false, true}) {
      for (const auto& [count, dtype] : {std::pair{24, "bf16"},
                                         {32, "bf16"},
                                         {48, "f32"},
                                         {64, "f32"},
                                         {127, "bf16"},
                                         {127, "f32"}}) {
        CAPTURE(arch);
        CAPTURE(late);
        CAPTURE(count);
        CAPTURE(dtype);
        auto compiled =
            engine.compile(llvm::cantFail(parse(many_operands(count, dtype, late))), target);
        if (!compiled) FAIL(take_report(compiled.takeError()).message);
        for (const CompiledKernel& kernel : (*compiled)->buckets[0]) {
          CHECK(kernel.cubin->resources.spill_bytes == 0);
        }
      }
    }
  }
}
