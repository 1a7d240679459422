// SPDX-License-Identifier: Apache-2.0
// Engine::compile with NVRTC: a tile that spills beside one epilogue is replaced by the next best.
#include <doctest/doctest.h>

#include <string>

#include "compiler/compile/nvrtc.h"
#include "compiler/kernel_family.h"
#include "ir/log.h"
#include "ir/text/text.h"
#include "llvm/ADT/ScopeExit.h"
#include "runtime/engine.h"
#include "tests/support/temp_dir.h"

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

// A forward that a backward repeats: h, and the slope of its activation in f32. Few k-tiles.
constexpr const char* kSlopeToo =
    "chain slope(input x: bf16[8192, 768], weight w: bf16[3072, 768], weight b: bf16[3072]) {\n"
    "  a = add(contract \"mk,nk->mn\"(x, w), b)\n  h = gelu_tanh(a)\n  q = mul(a, a)\n"
    "  c = mul(a, 1.5957691216057308)\n  s = sigmoid(mul(c, add(mul(q, 0.044715), 1)))\n"
    "  e = mul(mul(c, sub(1, s)), add(mul(q, 0.134145), 1))\n  t = mul(s, add(e, 1))\n"
    "  return h: bf16, t: f32 }";

constexpr const char* kPlain =
    "chain plain(input x: bf16[64, 128], weight w: bf16[128, 128]) {\n"
    "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }";

constexpr const char* kRelu = "chain r(input x: f32[64]) { y = relu(x) return y: f32 }";

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

// A vector by group, in a loop over the rows of a group: without one its address is outside.
TEST_CASE("a constant load stays below its guard") {
  if (!have_nvrtc()) return;
  constexpr const char* kByGroup =
      "chain a[M in 1..5](input e: i32[2], input x: f32[3, M, 480] strides[2400, 480, 1],\n"
      "                   weight w: f32[2, 3, 17, 480], weight v: f32[2, 3, 17, 480],\n"
      "                   weight b: f32[2, 3, 17]) {\n"
      "  h = contract \"gmn,bgin->gmi\"(x, w) ragged m by e over b\n"
      "  u = contract \"gmn,bgin->gmi\"(x, v) ragged m by e over b\n"
      "  y = add(add(h, b @ \"bgi\"), u)\n"
      "  return h: f32 strides[90, 18, 1], y: f16 strides[17, 51, 1] }";
  Engine engine(uncached());
  auto compiled =
      engine.compile(llvm::cantFail(parse(kByGroup)), llvm::cantFail(find_target("h100")));
  if (!compiled) FAIL(take_report(compiled.takeError()).message);
  CHECK(family_name((*compiled)->plan.buckets[0].kernels[0]) == "skinny");
  const CompiledKernel& kernel = (*compiled)->buckets[0][0];
  CompileOptions options;
  options.want_ptx = true;
  auto result = (*Nvrtc::get())->compile(CompileJob{kernel.source, kernel.cubin->arch, options});
  if (!result) FAIL(take_report(result.takeError()).message);
  // A row's group is compared with the number for none (-1) before the first of its loads.
  const std::string& ptx = result->ptx;
  const size_t load = ptx.find("ld.global.nc");
  REQUIRE(load != std::string::npos);
  const size_t guard = ptx.rfind(", -1;", load);
  REQUIRE(guard != std::string::npos);
  const size_t line = ptx.rfind('\n', guard);
  CHECK(ptx.substr(line, guard - line).find("setp.eq.s32") != std::string::npos);
  CHECK(ptx.substr(guard, load - guard).find("bra") != std::string::npos);
}

// As a backward pass wants them: each result more takes registers beside the same accumulators.
TEST_CASE("layers that keep their pre-activations compile") {
  if (!have_nvrtc()) return;
  Engine engine(uncached());
  for (const auto& [text, target] : {std::pair(kGeluKeepsInput, "h200"),
                                     {kDualKeepsBoth, "h200"},
                                     {kSlopeToo, "h200"},
                                     {kSlopeToo, "h100"}}) {
    auto compiled =
        engine.compile(llvm::cantFail(parse(text)), llvm::cantFail(find_target(target)));
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
  // The next process has the rejection from the cache.
  const test::TempDir folder;
  options.cache.mode = CacheMode::kReadWrite;
  options.cache.directory = folder / "cache";
  for (const u64 misses : {1, 0}) {
    Engine engine(options);
    auto again = engine.compile(llvm::cantFail(parse(text)), target);
    REQUIRE(!again);
    CHECK(take_report(again.takeError()).message == report.message);
    CHECK(engine.cache().stats().misses == misses);
  }
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

TEST_CASE("a sum over any number of operands compiles without a spill") {
  if (!have_nvrtc()) return;
  Engine engine(uncached());
  for (const char* arch : {"sm_80", "h200"}) {
    for (const auto& [count, dtype] :
         {std::pair{8, "bf16"}, {13, "bf16"}, {10, "f32"}, {32, "f32"}, {100, "bf16"}}) {
      CAPTURE(arch);
      CAPTURE(count);
      CAPTURE(dtype);
      Chain chain = llvm::cantFail(parse(many_operands(count, dtype, true)));
      chain.outputs[0].value = chain.sum("mn->n", chain.outputs[0].value);
      chain.outputs[0].dtype = DType::kF32;
      auto compiled = engine.compile(std::move(chain), llvm::cantFail(find_target(arch)));
      if (!compiled) FAIL(take_report(compiled.takeError()).message);
    }
  }
}

// Each add has an operand of its own, as large as the result.
TEST_CASE("an epilogue with many operands takes narrower vectors, not another tile") {
  if (!have_nvrtc()) return;
  std::string parameters = "input x: bf16[4096, 1024], weight w: bf16[4096, 1024]";
  std::string body = "  s0 = contract \"mk,nk->mn\"(x, w)\n";
  constexpr int kOperands = 40;
  for (int i = 1; i <= kOperands; ++i) {
    parameters += fmt::format(", input x{}: bf16[4096, 4096]", i);
    body += fmt::format("  s{} = add(s{}, x{})\n", i, i - 1, i);
  }
  int rejected = 0;
  const auto count = [](void* user, i32, const char* line) {
    const bool is_one = std::string_view(line).find("is not used") != std::string_view::npos;
    *static_cast<int*>(user) += is_one ? 1 : 0;
  };
  set_log(count, &rejected, LogLevel::kInfo);
  const auto reset = llvm::make_scope_exit([] { reset_log(); });
  Engine engine(uncached());
  auto compiled =
      engine.compile(llvm::cantFail(parse(fmt::format("chain long({}) {{\n{}  return s{}: bf16 }}",
                                                      parameters, body, kOperands))),
                     llvm::cantFail(find_target("h200")));
  if (!compiled) FAIL(take_report(compiled.takeError()).message);
  CHECK(rejected == 0);
  CHECK(family_name((*compiled)->plan.buckets[0].kernels[0]) == "gemm_sm90");
}

TEST_CASE("an engine that is pinned to this NVRTC finds what an engine without a pin compiled") {
  if (!have_nvrtc()) return;
  const test::TempDir folder;
  const Target target = llvm::cantFail(find_target("h200"));
  EngineOptions options;
  options.cache.directory = folder.path();
  Engine compiling(options);
  REQUIRE(static_cast<bool>(compiling.compile(llvm::cantFail(parse(kPlain)), target)));
  options.nvrtc_build = llvm::cantFail(Nvrtc::get())->compiler_id();
  Engine pinned(options);
  REQUIRE(static_cast<bool>(pinned.compile(llvm::cantFail(parse(kPlain)), target)));
  CHECK(pinned.cache().stats().misses == 0);
  CHECK(pinned.cache().stats().disk_hits > 0);
  // What the cache does not have is compiled by the same build, and refused by another one.
  CHECK(static_cast<bool>(pinned.compile(llvm::cantFail(parse(kRelu)), target)));
  options.nvrtc_build = "nvrtc 13.9.9 CL-9";
  Engine other(options);
  const ErrorReport refused =
      take_report(other.compile(llvm::cantFail(parse(kPlain)), target).takeError());
  CHECK(refused.code == ErrorCode::kNvrtcMissing);
  CHECK(refused.message.find("pinned to nvrtc 13.9.9 CL-9") != std::string::npos);
}
