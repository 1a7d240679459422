// SPDX-License-Identifier: Apache-2.0
// A pack that was written before is launched as before: its machine code reads the parameter struct
// that the library of that time gave it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "llvm/ADT/StringExtras.h"
#include "runtime/engine.h"
#include "runtime/pack/pack.h"
#include "shared/params.h"
#include "tests/support/affine_chain.h"
#include "tests/support/fake_driver.h"
#include "tests/support/packed_chains.h"

using namespace catenary;
using catenary::cuda::ScopedDriver;
using catenary::testing::fake;
using catenary::testing::fake_api;
using catenary::testing::FakeLaunch;
using catenary::testing::no_cache;
using test::must;

namespace {

void* address(u64 megabyte) { return reinterpret_cast<void*>(megabyte << 20); }

// Bytes of the parameter struct without its padding, of the kernel that has the fewest.
size_t params_end(const BucketRecord& bucket) {
  size_t end = size_t{1} << 20;
  for (const KernelRecord& kernel : bucket.kernels) {
    const size_t fields = sizeof(i64) + sizeof(u32) + sizeof(float) * kernel.scalars.size();
    end = std::min(end, sizeof(TensorMap) * kernel.maps.size() +
                            sizeof(void*) * std::max<size_t>(kernel.slots.size(), 1) + fields);
  }
  return end;
}

// The launches of an entry for the smallest and the largest size of each bucket, as text.
std::string launches(const std::shared_ptr<const ChainRecord>& record) {
  const ScopedDriver driver = must(ScopedDriver::over(fake_api()));
  fake().capability = record->target.compute_capability();
  fake().sm_count = record->target.sm_count;
  fake().smem_per_cta = static_cast<int>(record->target.smem_per_cta);
  Engine engine(no_cache());
  const auto executable = must(engine.load(record, 0));
  std::vector<void*> tensors;
  for (const TensorRecord& tensor : record->tensors) {
    const bool shared = tensor.in_place >= 0;
    tensors.push_back(shared ? tensors[static_cast<size_t>(tensor.in_place)]
                             : address(tensors.size() + 1));
  }
  const std::vector<float> scalars(record->num_scalars, 2.5f);
  std::string text;
  for (const BucketRecord& bucket : record->buckets) {
    fake().image_bytes = params_end(bucket);
    for (const i64 symbol : {bucket.lo, bucket.hi}) {
      fake().launches.clear();
      LaunchArguments arguments;
      arguments.tensors = tensors;
      arguments.scalars = scalars;
      arguments.symbol = symbol;
      arguments.workspace = address(1 << 10);
      if (Error error = executable->launch(arguments)) FAIL(take_report(std::move(error)).message);
      for (const FakeLaunch& launch : fake().launches) {
        text += fmt::format("{} symbol {} grid {} block {} smem {} cluster {} pdl {}\n  {}\n",
                            launch.kernel, symbol, launch.grid, launch.block, launch.smem,
                            launch.cluster, launch.pdl, llvm::toHex(launch.image));
      }
    }
  }
  return text;
}

}  // namespace

// Where a launch of an old pack changes, its kernels read what they do not expect: kLaunchAbi
// (runtime/pack/format.h) is to be incremented, and old entries are launched by the old rules.
TEST_CASE("packs that were written before are launched as before") {
  for (u32 version = pack_format::kOldestLaunchAbi; version <= pack_format::kLaunchAbi; ++version) {
    CAPTURE(version);
    const std::string path = fmt::format("{}/tests/golden/launch_{}", CATENARY_SOURCE_DIR, version);
    const auto pack = must(Pack::open(path + ".ctnpack"));
    std::string text;
    for (size_t i = 0; i < pack->size(); ++i) text += launches(must(pack->record(i)));
    const bool updating = std::getenv("CATENARY_UPDATE_GOLDEN") != nullptr;
    if (updating && !std::filesystem::exists(path + ".launches")) {
      std::ofstream(path + ".launches", std::ios::binary) << text;
    }
    std::ifstream file(path + ".launches", std::ios::binary);
    CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == text);
  }
}
