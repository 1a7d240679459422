// SPDX-License-Identifier: Apache-2.0
// The simulated device's memory: bounds, alignment, written bytes, the pattern of fresh ones.
// Objects: every load is a separate copy, and leaves no file open.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "compiler/compile/host_compiler.h"
#include "compiler/compile/key.h"
#include "ir/reference/reference.h"
#include "ir/sha256.h"
#include "simulator/memory.h"
#include "simulator/object.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using catenary::sim::Allocation;
using catenary::sim::Memory;
using catenary::sim::Object;

namespace {

u8* bytes_of(void* address) { return static_cast<u8*>(address); }

i64 count_written(const Allocation& allocation) {
  return std::count(allocation.written.begin(), allocation.written.end(), true);
}

}  // namespace

TEST_CASE("an address is found only inside its allocation") {
  Memory memory;
  u8* a = bytes_of(memory.allocate(100));
  u8* b = bytes_of(memory.allocate(1));
  REQUIRE(a != nullptr);
  REQUIRE(b != nullptr);
  CHECK(reinterpret_cast<u64>(a) % 256 == 0);
  CHECK(reinterpret_cast<u64>(b) % 256 == 0);
  Allocation* found = memory.find(a, 100);
  REQUIRE(found != nullptr);
  CHECK(found->begin == reinterpret_cast<u64>(a));
  CHECK(found->bytes == 100);
  CHECK(memory.find(a + 99, 1) == found);
  CHECK(memory.find(a + 40, 60) == found);
  CHECK(memory.find(a + 40, 61) == nullptr);
  CHECK(memory.find(a + 100, 1) == nullptr);
  CHECK(memory.find(a - 1, 1) == nullptr);
  CHECK(memory.find(a, -1) == nullptr);
  CHECK(memory.find(b, 1) != found);
  CHECK(memory.find(nullptr, 1) == nullptr);
}

TEST_CASE("what is just after an allocation is in no other one") {
  Memory memory;
  std::vector<u8*> allocations;
  for (int i = 0; i < 64; ++i) allocations.push_back(bytes_of(memory.allocate(1000)));
  for (const u8* a : allocations) {
    REQUIRE(a != nullptr);
    for (const i64 past : {0, 16, 256, 1000, 4096, 65536, 131071}) {
      CHECK(memory.find(a + 1000 + past, 1) == nullptr);
    }
  }
}

TEST_CASE("only what was allocated is released, and once") {
  Memory memory;
  u8* a = bytes_of(memory.allocate(64));
  CHECK_FALSE(memory.release(a + 1));
  CHECK_FALSE(memory.release(nullptr));
  CHECK(memory.release(a));
  CHECK_FALSE(memory.release(a));
  CHECK(memory.find(a, 1) == nullptr);
}

TEST_CASE("an allocation that fails is a null address") {
  Memory memory;
  CHECK(memory.allocate(i64{1} << 61) == nullptr);
  CHECK(memory.allocate(i64{1} << 62) == nullptr);
  CHECK(memory.allocate(0) == nullptr);
}

TEST_CASE("fresh memory is NaN in every float type, and unwritten") {
  Memory memory;
  void* a = memory.allocate(64);
  CHECK(count_written(*memory.find(a, 64)) == 0);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3, DType::kE5M2}) {
    for (i64 i = 0; i < 64 / dtype_bytes(dtype); ++i) CHECK(std::isnan(load_element(dtype, a, i)));
  }
}

TEST_CASE("marks cover bytes, and do not change them") {
  Memory memory;
  u8* a = bytes_of(memory.allocate(33));
  Allocation& allocation = *memory.find(a, 33);
  CHECK(allocation.written.size() == 33);
  std::memset(a, 0, 33);
  memory.mark(a, 33, true);
  CHECK(count_written(allocation) == 33);
  memory.mark(a + 4, 8, false);
  CHECK(count_written(allocation) == 25);
  CHECK(std::all_of(a, a + 33, [](u8 byte) { return byte == 0; }));
  memory.mark(a + 21, 2, false);
  CHECK(count_written(allocation) == 23);
  memory.mark(a + 5, 2, true);
  CHECK(count_written(allocation) == 25);
  memory.mark(a, 33, false);
  CHECK(count_written(allocation) == 0);
  memory.mark(a, 0, true);
  CHECK(count_written(allocation) == 0);
}

namespace {

// Counts its calls, per loaded copy.
const char* const kCounting =
    "#include \"sim/cuda.h\"\n"
    "static int calls = 0;\n"
    "inline int shared_calls = 0;\n"
    "struct P { int* to; };\n"
    "extern \"C\" __global__ void counting(const __grid_constant__ P p) {\n"
    "  p.to[0] = ++calls;\n"
    "  p.to[1] = ++shared_calls;\n"
    "}\n";

std::vector<u8> image_of(const char* body) {
  auto compiler = HostCompiler::get();
  if (!compiler) {
    llvm::consumeError(compiler.takeError());
    MESSAGE("skipped: no host compiler");
    return {};
  }
  auto result = (*compiler)->compile({{"counting", "", body}, "sm_90a", {}});
  if (!result) FAIL(take_report(result.takeError()).message);
  return result->cubin.image;
}

int calls_of(const Object& object) {
  int counts[2] = {};
  int* to = counts;
  object.call()(&to);
  CHECK(counts[0] == counts[1]);
  return counts[0];
}

i64 open_files() {
  i64 count = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

ErrorReport failure(llvm::ArrayRef<u8> image) {
  auto object = Object::load(image);
  REQUIRE_FALSE(object);
  return take_report(object.takeError());
}

}  // namespace

TEST_CASE("each load is a separate copy, and closes what it opened") {
  const std::vector<u8> image = image_of(kCounting);
  if (image.empty()) return;
  const i64 files = open_files();
  auto first = llvm::cantFail(Object::load(image));
  auto second = llvm::cantFail(Object::load(image));
  CHECK(open_files() == files);
  CHECK(calls_of(*first) == 1);
  CHECK(calls_of(*first) == 2);
  CHECK(calls_of(*second) == 1);
  first.reset();
  for (int i = 0; i < 20; ++i) CHECK(calls_of(*llvm::cantFail(Object::load(image))) == 1);
  CHECK(calls_of(*second) == 2);
  first = llvm::cantFail(Object::load(image));
  const bool binds = first->bind() != nullptr;
  CHECK(binds);
  CHECK(calls_of(*first) == 1);
}

TEST_CASE("bytes that are no kernel do not load") {
  const u8 text[] = "not a shared object";
  const ErrorReport junk = failure(text);
  CHECK(junk.code == ErrorCode::kCompileFailed);
  CHECK(junk.message.find("20 bytes") != std::string::npos);
  CHECK(failure({}).code == ErrorCode::kCompileFailed);
}

// Of a pack that an older or a newer library wrote.
TEST_CASE("a kernel for another machine is not called") {
  const std::string hidden = "#define catenary_sim_version another_name\n";
  const std::string newer =
      "extern \"C\" __attribute__((visibility(\"default\"))) unsigned catenary_sim_version() {\n"
      "  return 1000;\n}\n";
  for (const std::string& version : {hidden, newer + hidden}) {
    const std::vector<u8> image = image_of((version + kCounting).c_str());
    if (image.empty()) return;
    const ErrorReport report = failure(image);
    CHECK(report.code == ErrorCode::kUnsupported);
    CHECK(report.message.find("by another version of the library") != std::string::npos);
  }
}

// Where this fails because of a change to Machine, or to what its calls take: increment
// kMachineVersion, then set both numbers. An entry point that an object may lack is no such change.
TEST_CASE("a change of the machine is a new version of it") {
  std::ifstream file(std::string(CATENARY_SOURCE_DIR) + "/templates/sim/machine.h");
  std::string code;
  for (std::string line; std::getline(file, line);) {
    for (const char c : line.substr(0, line.find("//"))) {
      if (c != ' ') code += c;
    }
  }
  CHECK(sim::kMachineVersion == 1);
  CHECK(KernelKey{sha256_digest({reinterpret_cast<const u8*>(code.data()), code.size()})}
            .hex()
            .substr(0, 16) == "9cb66303ab6618f2");
}
