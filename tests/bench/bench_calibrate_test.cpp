// SPDX-License-Identifier: Apache-2.0
// What the calibration is made of: in the simulator, which keeps no time, all that needs no probe
// kernel; and that NVRTC compiles the probes.
#include <doctest/doctest.h>

#include "bench/measure/calibrate.h"
#include "bench/measure/probe_kernel.h"
#include "compiler/compile/nvrtc.h"
#include "tests/support/bench_session.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using namespace catenary::bench;

TEST_CASE("calibration copies, launches and multiplies in the simulator") {
  const std::unique_ptr<Session> session = test::simulated_session();
  if (!session) return;
  const test::TempDir folder;
  const test::ScopedEnv cache("CATENARY_CACHE_DIR", (folder / "cache").c_str());
  CalibrateOptions options;
  options.timing = test::shortest();
  options.stream_bytes = 1 << 16;
  options.gemm_size = 64;
  options.candidates = 1;
  RandomPool pool(3);
  const auto works = [](auto measured) {
    REQUIRE_MESSAGE(measured, take_report(measured.takeError()).message);
  };
  works(copy_rate(*session, options));
  works(graph_launch_cost(*session, pool, 1024, options));
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    Expected<GemmRates> rates = gemm_rates(*session, nullptr, pool, dtype, options);
    REQUIRE_MESSAGE(rates, take_report(rates.takeError()).message);
    CHECK(rates->ours > 0);
    CHECK(rates->peer == 0);
  }
}

TEST_CASE("NVRTC compiles the probes, without spills") {
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) {
    MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
    return;
  }
  for (const ProbeSource* source : all_probes()) {
    CompileJob job;
    job.source.symbol = source->symbol;
    job.source.body = source->text;
    job.arch = "sm_90a";
    Expected<CompileResult> result = (*nvrtc)->compile(job);
    REQUIRE_MESSAGE(result, take_report(result.takeError()).message);
    CHECK(result->cubin.symbol == source->symbol);
  }
}

TEST_CASE("a calibration is a table and a record") {
  Record record;
  record.calibration = {{"dram_copy", "GB/s", 4280.5, ""}, {"dram_read", "GB/s", {}, "no NVRTC"}};
  const std::string table = calibration_table(record.calibration);
  CHECK(table.find("4280.500 GB/s") != std::string::npos);
  CHECK(table.find("no NVRTC") != std::string::npos);
  const llvm::json::Value json = to_json(record);
  CHECK(json.getAsObject()->getArray("calibration")->size() == 2);
}
