// SPDX-License-Identifier: Apache-2.0
// `catenary bench --pack` on packs whose machine code no device runs: what it counts, for which
// GPUs it prepares, and what it refuses.
#include <fstream>

#include "bench/bench_options.h"
#include "bench/measure/pack_cost.h"
#include "tests/support/packed_chains.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using namespace catenary::bench;
using test::layer_chain;
using test::layer_record;
using test::LayerSizes;
using test::must;

namespace {

std::string write_pack(const test::TempDir& folder,
                       llvm::ArrayRef<std::shared_ptr<const ChainRecord>> records) {
  const std::string path = folder / "a.ctnpack";
  const std::vector<u8> bytes = test::pack_of(records);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path;
}

i64 kernels_of(const ChainRecord& record) {
  i64 count = 0;
  for (const BucketRecord& bucket : record.buckets) {
    count += static_cast<i64>(bucket.kernels.size());
  }
  return count;
}

Record measured(const PackCost& cost) {
  Record record;
  record.pack = cost;
  return record;
}

}  // namespace

TEST_CASE("a pack is counted by family and architecture, and prepared for each of its GPUs") {
  const test::TempDir folder;
  LayerSizes large;
  large.rows = "4096";
  const std::vector<std::shared_ptr<const ChainRecord>> records = {
      layer_record(), layer_record(large), layer_record({}, "a100")};
  const std::string path = write_pack(folder, records);
  const PackCost cost = must(measure_pack_cost(path, /*quick=*/true));
  CHECK(cost.name == "a.ctnpack");
  CHECK(cost.entries == 3);
  i64 kernels = 0;
  for (const auto& record : records) kernels += kernels_of(*record);
  CHECK(cost.kernels == kernels);
  i64 of_families = 0;
  i64 of_archs = 0;
  i64 bytes = 0;
  for (const PackPart& part : cost.families) of_families += part.kernels;
  for (const PackPart& part : cost.archs) {
    of_archs += part.kernels;
    bytes += part.bytes;
  }
  CHECK(of_families == kernels);
  CHECK(of_archs == kernels);
  CHECK(bytes == cost.code_bytes);
  REQUIRE(cost.targets.size() == 2);
  CHECK(cost.targets[0].target == "a100");
  CHECK(cost.targets[0].entries == 1);
  CHECK(cost.targets[1].arch == "sm_90a");
  CHECK(cost.targets[1].entries == 2);

  const llvm::json::Value json = to_json(measured(cost));
  const llvm::json::Object& pack = *json.getAsObject()->getObject("pack");
  for (const char* key :
       {"bytes", "entries", "families", "archs", "map_us", "open_us", "targets"}) {
    CAPTURE(key);
    CHECK(pack.get(key) != nullptr);
  }
  const llvm::json::Object& target = *(*pack.getArray("targets"))[0].getAsObject();
  for (const char* key : {"find_us", "prepare_us", "prepare_worst_us", "all_parallel_ms"}) {
    CAPTURE(key);
    CHECK(target.get(key) != nullptr);
  }
}

TEST_CASE("a pack for the simulator, and none, are refused") {
  const test::TempDir folder;
  const std::string path = write_pack(
      folder, {test::planned_record(layer_chain(), must(find_target("h200")), /*host=*/true)});
  auto cost = measure_pack_cost(path, true);
  REQUIRE_FALSE(cost);
  CHECK(take_report(cost.takeError()).message.find("has no entry for a GPU") != std::string::npos);
  BenchOptions options;
  options.pack = path;
  CHECK(run_bench(options) == 2);
  options.pack = folder / "absent";
  CHECK(run_bench(options) == 2);
}
