// SPDX-License-Identifier: Apache-2.0
// What an engine finds in packs, what a miss says, and that with compiling off no compiler's
// library is opened.
#include "runtime/lookup/pack_lookup.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/engine.h"
#include "tests/support/fake_driver.h"
#include "tests/support/packed_chains.h"
#include "tests/support/recorded_dlopen.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using catenary::cuda::ScopedDriver;
using catenary::testing::fake;
using catenary::testing::fake_api;
using test::count_opened;
using test::layer_chain;
using test::layer_record;
using test::LayerSizes;
using test::must;
using test::pack_of;

namespace {

// The bytes live as long as the process: a pack in memory does not own them.
std::shared_ptr<const Pack> pack(llvm::ArrayRef<std::shared_ptr<const ChainRecord>> records) {
  static std::vector<std::vector<u8>>& all = *new std::vector<std::vector<u8>>;
  all.push_back(pack_of(records));
  return must(Pack::open_memory(all.back()));
}

EngineOptions strict() {
  EngineOptions options;
  options.cache.mode = CacheMode::kOff;
  options.lookup.jit = JitMode::kOff;
  return options;
}

ErrorReport miss(const LayerSizes& asked, const ChainOptions& options = {},
                 const char* target = "h200", LayerSizes packed = {}) {
  LookupOptions lookup;
  lookup.jit = JitMode::kOff;
  lookup.packs = {pack({layer_record(packed)})};
  PackLookup packs(std::move(lookup));
  const ChainRequest request =
      make_request(layer_chain(asked), must(find_target(target)), false, options);
  CHECK(must(packs.find(request)) == nullptr);
  return take_report(packs.miss(request));
}

void expect(const ErrorReport& report, std::initializer_list<const char*> parts) {
  CAPTURE(report.message);
  CHECK(report.code == ErrorCode::kPackMiss);
  for (const char* part : parts) {
    CAPTURE(part);
    CHECK(report.message.find(part) != std::string::npos);
  }
}

TEST_CASE("the recorder sees NVRTC where compiling is allowed") {
  // A file of that name that is no library: opening it is tried, and fails.
  const test::TempDir folder;
  const std::string library = folder / "libnvrtc.so.13";
  std::ofstream(library) << "no library";
  ::setenv("CATENARY_NVRTC", library.c_str(), 1);
  EngineOptions options = strict();
  options.lookup.jit = JitMode::kAuto;
  Engine engine(options);
  auto record = engine.obtain(layer_chain().chain(), must(find_target("h200")));
  REQUIRE_FALSE(record);
  CHECK(take_report(record.takeError()).code == ErrorCode::kNvrtcMissing);
  CHECK(count_opened("nvrtc") > 0);
}

TEST_CASE("with compiling off a chain of a pack is loaded and launched, and NVRTC is not opened") {
  const ScopedDriver driver = must(ScopedDriver::over(fake_api()));
  const size_t before = count_opened("nvrtc");
  Engine engine(strict());
  engine.add_pack(pack({layer_record(), layer_record({}, "a100")}));
  LayerSizes renamed;
  renamed.name = "renamed";
  const auto executable = must(engine.prepare(layer_chain(renamed).chain(), 0));
  std::vector<void*> tensors;
  for (u64 i = 1; i <= 4; ++i) tensors.push_back(reinterpret_cast<void*>(i << 20));
  LaunchArguments arguments;
  arguments.tensors = tensors;
  arguments.symbol = 7;
  std::vector<char> workspace(static_cast<size_t>(executable->workspace_bytes()) + 256);
  arguments.workspace = reinterpret_cast<void*>(
      (reinterpret_cast<std::uintptr_t>(workspace.data()) + 255) / 256 * 256);
  CHECK_FALSE(static_cast<bool>(executable->launch(arguments)));
  REQUIRE(fake().launches.size() >= 1);
  // The kernels keep the names of the chain that was packed; errors have those of the caller.
  CHECK(fake().launches[0].kernel.rfind("ctn_layer_", 0) == 0);
  tensors[0] = nullptr;
  const ErrorReport report = take_report(executable->launch(arguments));
  CHECK(report.message.find("renamed_x") != std::string::npos);

  LayerSizes unknown;
  unknown.n = 512;
  const ErrorReport missed =
      take_report(engine.prepare(layer_chain(unknown).chain(), 0).takeError());
  expect(missed,
         {"'layer'", "h200 (sm_90a)", "compiling is off", "size 0 of 'w' 256 (asked: 512)"});
  expect(take_report(engine.compile(layer_chain().chain(), must(find_target("h200"))).takeError()),
         {"compiling is off"});
  CHECK(count_opened("nvrtc") == before);
}

TEST_CASE("a miss names the nearest entry and what differs") {
  LayerSizes asked;
  asked.range = "65..128";
  expect(miss(asked),
         {"the nearest entry, 'layer' of the pack in memory", "M in 1..64 (asked: 65..128)"});
  asked = {};
  asked.rows = "64";
  expect(miss(asked), {"1..64 (asked: no symbol)"});
  asked = {};
  expect(miss(asked, {}, "a100"), {"a100 (sm_80)", "machine code for sm_90a (asked: sm_80)"});
  asked.w_layout = " align 8";
  expect(miss(asked), {"'w' aligned to 16 (asked: 8)"});
  asked.w_layout = " strides[136, 1]";
  expect(miss(asked), {"'w' with strides [128, 1] (asked: [136, 1])"});
  const auto in_place = [](const char* place) {
    const std::string text = fmt::format(
        "chain c(input x: f32[8, 8]) {{\n  y = relu(x)\n  return y: f32{}\n}}\n", place);
    return must(verify(must(parse(text))));
  };
  LookupOptions lookup;
  lookup.jit = JitMode::kOff;
  const Target h200 = must(find_target("h200"));
  lookup.packs = {pack({test::planned_record(in_place(" inplace x"), h200)})};
  PackLookup places(std::move(lookup));
  CHECK(must(places.find(make_request(in_place(" inplace x"), h200, false, {})))
            ->tensors[1]
            .in_place == 0);
  expect(take_report(places.miss(make_request(in_place(""), h200, false, {}))),
         {"output 0 in place of parameter 0 (asked: in its own memory)"});
  asked = {};
  asked.dtype = "f16";
  expect(miss(asked), {"of bf16 (asked: f16)"});
  asked = {};
  expect(miss(asked, {.fuse = false}), {"fusion on (asked: off)"});
  expect(miss(asked, {.split_k = 4}), {"split-K 0 (asked: 4)"});
  LookupOptions none;
  none.jit = JitMode::kOff;
  PackLookup empty(none);
  const auto request = make_request(layer_chain(), must(find_target("h200")), false, {});
  expect(take_report(empty.miss(request)), {"no pack was given"});
  empty.add(pack({}), 0);
  expect(take_report(empty.miss(request)), {"no entry of the pack in memory has its operations"});
}

// One difference each; the order of the keys is another.
TEST_CASE("of entries with as many differences the nearest sizes are named") {
  const auto sizes = [](int k, const char* range = "1..64") {
    LayerSizes layer;
    layer.k = k;
    layer.range = range;
    return layer;
  };
  LookupOptions options;
  options.jit = JitMode::kOff;
  std::vector<std::shared_ptr<const ChainRecord>> records;
  for (const int k : {128, 1920, 2304, 16384, 512}) records.push_back(layer_record(sizes(k)));
  for (const char* range : {"1..1", "1000..3000", "5000..60000", "100..200"}) {
    records.push_back(layer_record(sizes(128, range)));
  }
  options.packs = {pack(records)};
  PackLookup packs(std::move(options));
  const auto missed = [&](const LayerSizes& asked) {
    return take_report(
        packs.miss(make_request(layer_chain(asked), must(find_target("h200")), false, {})));
  };
  expect(missed(sizes(2048)), {"size 1 of 'layer_x' 1920 (asked: 2048)"});
  expect(missed(sizes(9000)), {"size 1 of 'layer_x' 16384 (asked: 9000)"});
  expect(missed(sizes(128, "900..1500")), {"M in 1000..3000 (asked: 900..1500)"});
  expect(missed(sizes(128, "2..2")), {"M in 1..1 (asked: 2..2)"});
}

TEST_CASE("a machine of another SM count gets the nearest plan, with one warning") {
  std::vector<std::string> warnings;
  LookupOptions options;
  options.warn = [&](const std::string& line) { warnings.push_back(line); };
  Target small = must(find_target("h200"));
  small.sm_count = 60;
  const auto chain = layer_chain();
  options.packs = {pack({layer_record(), test::planned_record(chain, small)})};
  PackLookup packs(std::move(options));
  const auto planned_for = [&](int sms) {
    Target device = must(find_target("h200"));
    device.sm_count = sms;
    return must(packs.find(make_request(chain, device, false, {})))->target.sm_count;
  };
  CHECK(planned_for(132) == 132);
  CHECK(planned_for(60) == 60);
  CHECK(warnings.empty());
  CHECK(planned_for(114) == 132);
  CHECK(planned_for(114) == 132);
  CHECK(planned_for(78) == 60);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].find("planned for 132 SMs (h200), and the device has 114") !=
        std::string::npos);
}

TEST_CASE("code without a suffix runs on newer GPUs of its generation, and on no other") {
  PackLookup packs({});
  packs.add(pack({layer_record({}, "a100")}), 0);
  const auto found = [&](const char* target) {
    return must(packs.find(make_request(layer_chain(), must(find_target(target)), false, {})));
  };
  CHECK(found("a100")->arch == "sm_80");
  CHECK(found("h200") == nullptr);
  CHECK(found("b200") == nullptr);
  // 8.6 runs it where its shared memory is enough.
  Target roomy = must(find_target("a10"));
  roomy.smem_per_cta = must(find_target("a100")).smem_per_cta;
  CHECK(must(packs.find(make_request(layer_chain(), roomy, false, {})))->arch == "sm_80");
  roomy.smem_per_cta = 1024;
  CHECK(must(packs.find(make_request(layer_chain(), roomy, false, {}))) == nullptr);
  packs.add(pack({layer_record({}, "a10")}), 0);
  CHECK(found("a10")->arch == "sm_86");
}

TEST_CASE("code of the simulator is another architecture") {
  PackLookup packs({});
  const Target target = must(find_target("h200"));
  packs.add(pack({test::planned_record(layer_chain(), target, true)}), 0);
  CHECK(must(packs.find(make_request(layer_chain(), target, false, {}))) == nullptr);
  CHECK(must(packs.find(make_request(layer_chain(), target, true, {})))->arch == "host:sm_90a");
}

TEST_CASE("a miss of the simulator is said in words") {
  PackLookup packs(strict().lookup);
  const ChainRequest request = make_request(layer_chain(), must(find_target("h200")), true, {});
  expect(take_report(packs.miss(request)),
         {"chain 'layer' for the simulator of sm_90a is in no pack"});
  expect(take_report(packs.refuse_compiling(request)),
         {"would be compiled for the simulator of sm_90a, and compiling is off"});
}

TEST_CASE("packs are asked by priority, then in the order of their addition") {
  const auto record_named = [](const char* tool) {
    ChainRecord record = *layer_record();
    for (BucketRecord& bucket : record.buckets) {
      for (KernelRecord& kernel : bucket.kernels) kernel.config_text = tool;
    }
    return std::make_shared<const ChainRecord>(record);
  };
  PackLookup packs({});
  const auto first = [&] {
    const auto request = make_request(layer_chain(), must(find_target("h200")), false, {});
    return must(packs.find(request))->buckets[0].kernels[0].config_text;
  };
  packs.add(pack({record_named("a")}), 0);
  packs.add(pack({record_named("b")}), 0);
  CHECK(first() == "a");
  packs.add(pack({record_named("c")}), 5);
  CHECK(first() == "c");
  packs.add(pack({record_named("d")}), -1);
  CHECK(first() == "c");
}

TEST_CASE("a pack that cannot be read is a warning where compiling can replace it, else an error") {
  static std::vector<u8> bytes = pack_of({layer_record()});
  std::vector<std::string> warnings;
  for (const JitMode mode : {JitMode::kAuto, JitMode::kOff}) {
    LookupOptions options;
    options.jit = mode;
    options.warn = [&](const std::string& line) { warnings.push_back(line); };
    options.packs = {must(Pack::open_memory(bytes))};
    PackLookup packs(std::move(options));
    const test::PackPlaces at(bytes);
    u8& byte = bytes[llvm::support::endian::read64le(&bytes[at.row(0) + 80]) + 20];
    byte ^= 1;
    auto found = packs.find(make_request(layer_chain(), must(find_target("h200")), false, {}));
    byte ^= 1;
    if (mode == JitMode::kAuto) {
      CHECK(must(std::move(found)) == nullptr);
      REQUIRE(warnings.size() == 1);
      CHECK(warnings[0].find("the digest of entry 0 differs") != std::string::npos);
    } else {
      CHECK(take_report(found.takeError()).code == ErrorCode::kCorruptArtifact);
    }
  }
}

TEST_CASE("an entry that cannot be read has that reason only") {
  static std::vector<u8> bytes = pack_of({layer_record()});
  std::vector<std::string> warnings;
  LookupOptions options;
  options.jit = JitMode::kWarn;
  options.warn = [&](const std::string& line) { warnings.push_back(line); };
  options.packs = {must(Pack::open_memory(bytes))};
  PackLookup packs(std::move(options));
  const test::PackPlaces at(bytes);
  u8& byte = bytes[llvm::support::endian::read64le(&bytes[at.row(0) + 80]) + 20];
  const ChainRequest request = make_request(layer_chain(), must(find_target("h200")), false, {});
  byte ^= 1;
  auto found = packs.find(request);
  byte ^= 1;  // sound again, so that the entry could be found to have the chain
  CHECK(must(std::move(found)) == nullptr);
  REQUIRE_FALSE(static_cast<bool>(packs.miss(request)));
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].find("the digest of entry 0 differs") != std::string::npos);
  CHECK(warnings[1].find("is in no pack that can be read, and is compiled") != std::string::npos);
  CHECK(warnings[1].find("cannot run") == std::string::npos);
}

TEST_CASE("all misses are kept, once each, as lines that give the requests back") {
  Engine engine(strict());
  engine.add_pack(pack({layer_record()}));
  const Target target = must(find_target("h200"));
  CHECK(engine.missed().empty());
  for (int round = 0; round < 2; ++round) {
    for (int i = 1; i <= 10; ++i) {
      LayerSizes sizes;
      sizes.name = fmt::format("unknown{}", i);
      sizes.k = 128 + 64 * i;
      expect(take_report(engine.obtain(layer_chain(sizes).chain(), target).takeError()),
             {sizes.name.c_str(), "size 1 of"});
    }
  }
  std::istringstream lines(engine.missed());
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    const ChainRequest request = must(parse_request_line(line));
    CHECK(request.chain.chain().name == fmt::format("unknown{}", ++count));
    CHECK(request.target == target);
    CHECK(request_line(request) == line);
  }
  CHECK(count == 10);
}

TEST_CASE("threads prepare from one pack at the same time") {
  Engine engine(strict());
  std::vector<std::shared_ptr<const ChainRecord>> records;
  for (int k = 1; k <= 8; ++k) {
    LayerSizes sizes;
    sizes.k = 128 * k;
    records.push_back(layer_record(sizes));
  }
  engine.add_pack(pack(records));
  std::atomic<int> found = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&engine, &found, t] {
      for (int i = 0; i < 16; ++i) {
        LayerSizes sizes;
        sizes.k = 128 * ((i + t) % 8 + 1);
        const Target target = must(find_target("h200"));
        auto record = engine.obtain(layer_chain(sizes).chain(), target);
        if (record) ++found;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(found == 64);
}

TEST_CASE("warn mode compiles, and says once for each chain that it does") {
  ::setenv("CATENARY_NVRTC", "/nonexistent/libnvrtc.so.13", 1);
  std::vector<std::string> warnings;
  EngineOptions options = strict();
  options.lookup.jit = JitMode::kWarn;
  options.cache.warn = [&](const std::string& line) { warnings.push_back(line); };
  Engine engine(options);
  for (int i = 0; i < 2; ++i) {
    auto record = engine.obtain(layer_chain().chain(), must(find_target("h200")));
    CHECK(take_report(record.takeError()).code == ErrorCode::kNvrtcMissing);
  }
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("is in no pack, and is compiled") != std::string::npos);
}

TEST_CASE("the environment names packs, the mode and the trace") {
  const test::TempDir folder;
  const std::string path = folder / "a.ctnpack";
  PackWriter writer;
  REQUIRE(must(writer.add(*layer_record())));
  REQUIRE_FALSE(static_cast<bool>(writer.write(path)));
  ::setenv("CATENARY_PACK_PATH", (path + "::" + path).c_str(), 1);
  ::setenv("CATENARY_JIT", "off", 1);
  ::setenv("CATENARY_TRACE", "/tmp/x", 1);
  LookupOptions options = must(with_environment(LookupOptions{}));
  CHECK(options.packs.size() == 2);
  CHECK(options.jit == JitMode::kOff);
  CHECK(options.trace == "/tmp/x");
  LookupOptions chosen;
  chosen.jit = JitMode::kAuto;
  chosen.trace = "y";
  chosen = must(with_environment(chosen));
  CHECK(chosen.jit == JitMode::kAuto);
  CHECK(chosen.trace == "y");
  ::setenv("CATENARY_JIT", "of", 1);
  const ErrorReport wrong = take_report(with_environment(LookupOptions{}).takeError());
  CHECK(wrong.code == ErrorCode::kInvalidArgument);
  CHECK(wrong.message == "CATENARY_JIT is 'of': use auto, warn or off");
  ::unsetenv("CATENARY_JIT");
  ::setenv("CATENARY_PACK_PATH", (folder / "absent").c_str(), 1);
  const ErrorReport absent = take_report(with_environment(LookupOptions{}).takeError());
  CHECK(absent.code == ErrorCode::kIo);
  CHECK(absent.message.rfind("CATENARY_PACK_PATH: ", 0) == 0);
  ::unsetenv("CATENARY_PACK_PATH");
  ::unsetenv("CATENARY_TRACE");
}

TEST_CASE("names and labels do not count, anything else does") {
  const auto key = [](const std::string& text) {
    const VerifiedChain chain = must(verify(must(parse(text))));
    return chain_key(canonical_text(chain), "sm_90a", {});
  };
  const std::string base =
      "chain a[M in 1..8](input x: bf16[M, 64], weight w: bf16[32, 64], weight s: f32[32]) {\n"
      "  h = contract \"mk,nk->mn\"(x, w)\n  y = mul(h, s @ \"n\")\n  return y: bf16\n}\n";
  const std::string renamed =
      "chain bb[Q in 1..8](input in: bf16[Q, 64], weight z: bf16[32, 64] strides[64, 1], weight t: "
      "f32[32]) {\n  g = contract \"ax,bx->ab\"(in, z)\n  o = mul(g, t @ \"b\")\n"
      "  return o: bf16 strides[32, 1]\n}\n";
  CHECK(key(base) == key(renamed));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = base;
    REQUIRE(text.find(from) != std::string::npos);
    return key(text.replace(text.find(from), from.size(), to));
  };
  CHECK(changed("1..8", "1..9") != key(base));
  CHECK(changed("1..8]", "1..8] batch_invariant ") != key(base));
  CHECK(changed("1..8]", "1..8] algebraic_norms ") != key(base));
  CHECK(changed("1..8]", "1..8] rounded_weights ") != key(base));
  CHECK(changed("weight w", "input w") != key(base));
  CHECK(changed("mul", "add") != key(base));
  CHECK(changed("y: bf16", "y: f32") != key(base));
  CHECK(changed("w: bf16[32, 64]", "w: bf16[32, 64] align 8") != key(base));
  CHECK(changed("s: f32", "s: bf16") != key(base));
  CHECK(chain_key("c", "sm_90a", {}) != chain_key("c", "sm_90", {}));
  CHECK(chain_key("c", "sm_90a", {}) != chain_key("c", "sm_90a", {.split_k = 1}));
  CHECK(chain_key("c", "sm_90a", {}) != chain_key("c", "sm_90a", {.allow_spills = true}));
}

}  // namespace
