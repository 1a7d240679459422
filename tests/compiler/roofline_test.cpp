// SPDX-License-Identifier: Apache-2.0
// The cost model: its terms add up in every golden plan, as data and as `explain` prints them; it
// follows its counts; rates exist for every target.
#include "compiler/families/roofline.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "compiler/plan.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

double sum_of(const Prediction& p) {
  const double most =
      std::pow(std::pow(p.sm_us, 6) + std::pow(p.l2_us, 6) + std::pow(p.power_us, 6), 1.0 / 6);
  return p.start_us +
         std::cbrt(std::pow(most, 3) + std::pow(p.latency_us, 3) + std::pow(p.dram_us, 3)) +
         p.tail_us + p.reduction_us;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The number after `name` in a line of explain; 0: it is not there.
double term(const std::string& line, const std::string& name) {
  std::smatch found;
  return std::regex_search(line, found, std::regex(name + " ([0-9.]+) us")) ? std::stod(found[1])
                                                                            : 0;
}

Counts gemm_counts() {
  Counts counts;
  counts.units = 200;
  counts.units_per_sm = 2;
  counts.persistent = true;
  counts.k_tiles = 64;
  counts.stages = 4;
  counts.mma_flop = 2.0 * 128 * 256 * 64;
  counts.smem_clocks = 400;
  counts.l2_bytes = 48 * 1024;
  counts.accumulators = 128 * 256;
  return counts;
}

double us_of(const Counts& counts) {
  const Target h200 = llvm::cantFail(find_target("h200"));
  return predict(counts, h200, 1 << 26, 1e12, 989, 0).us;
}

}  // namespace

TEST_CASE("the terms of every planned kernel add up to its prediction") {
  int kernels = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CATENARY_SOURCE_DIR "/examples")) {
    if (entry.path().extension() != ".chain") continue;
    const VerifiedChain chain =
        llvm::cantFail(verify(llvm::cantFail(parse(text_of(entry.path())))));
    for (const Target& target : all_targets()) {
      Expected<Plan> plan = make_plan(chain, target);
      if (!plan) {  // quantised weights have kernels for sm_90a only
        CHECK(take_report(plan.takeError()).code == ErrorCode::kUnsupported);
        CHECK(target.arch != "sm_90a");
        continue;
      }
      for (const PlanBucket& bucket : plan->buckets) {
        for (const KernelPlan& kernel : bucket.kernels) {
          if (kernel.predicted.us == 0) continue;  // counted in the kernel before
          ++kernels;
          CAPTURE(kernel.symbol);
          CHECK(kernel.predicted.us == doctest::Approx(sum_of(kernel.predicted)).epsilon(1e-9));
        }
      }
    }
  }
  CHECK(kernels > 50);
}

TEST_CASE("the arithmetic that the golden plans print is true") {
  int lines = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(CATENARY_SOURCE_DIR "/tests/golden")) {
    if (entry.path().extension() != ".plan") continue;
    // A wrapped line goes on after 14 blanks.
    const std::string text =
        std::regex_replace(text_of(entry.path()), std::regex("\n {14}(?=\\S)"), " ");
    std::istringstream rows(text);
    for (std::string line; std::getline(rows, line);) {
      if (line.rfind("  predicted", 0) != 0 || line.find(" = start") == std::string::npos) continue;
      ++lines;
      Prediction p;
      p.start_us = term(line, "start");
      p.sm_us = term(line, "sm");
      p.l2_us = term(line, "l2");
      p.power_us = term(line, "power");
      p.latency_us = term(line, "latency");
      p.dram_us = term(line, "dram");
      p.tail_us = term(line, "tail");
      p.reduction_us = term(line, "reduction");
      CAPTURE(entry.path().filename().string());
      CAPTURE(line);
      // Terms are printed with two decimals, or one from 100 us on.
      const double printed = term(line, "predicted  ");
      // Each of up to six terms is rounded to 0.01.
      CHECK(std::fabs(printed - sum_of(p)) < 0.004 * printed + 0.02);
    }
  }
  CHECK(lines > 20);
}

TEST_CASE("more of anything is never faster") {
  const double base = us_of(gemm_counts());
  const auto changed = [&](auto change) {
    Counts counts = gemm_counts();
    change(counts);
    return us_of(counts);
  };
  CHECK(changed([](Counts& c) { c.units_per_sm = 3; }) > base);
  CHECK(changed([](Counts& c) { c.k_tiles = 65; }) > base);
  CHECK(changed([](Counts& c) { c.mma_flop *= 1.1; }) > base);
  CHECK(changed([](Counts& c) { c.stages = 3; }) > base);
  CHECK(changed([](Counts& c) { c.partial_bytes = 1e6; }) > base);
  CHECK(changed([](Counts& c) { c.exchange_bytes = 1e5; }) > base);
  CHECK(changed([](Counts& c) { c.register_bytes = 1e5; }) > base);
  CHECK(changed([](Counts& c) { c.cluster_waits = 1; }) > base);
  CHECK(changed([](Counts& c) { c.mma_sync = true; }) > base);
  CHECK(changed([](Counts& c) { c.math_share = 0.5; }) > base);
  CHECK(changed([](Counts& c) { c.persistent = false; }) > base);
  CHECK(changed([](Counts& c) { c.early_weights = true; }) < base);
  CHECK(changed([](Counts& c) { c.ping_pong = true; }) < base);
}

TEST_CASE("CTAs that share an SM take their k-tiles from L2 one after the other") {
  // 64x64 tiles with K divided by two CTAs: 4 x 16 x 2 of them, 24 k-tiles of 16 KiB each.
  const VerifiedChain chain = llvm::cantFail(
      verify(llvm::cantFail(parse("chain c(input x: bf16[210, 3072], weight w: bf16[976, 3072]) {\n"
                                  "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16\n}\n"))));
  for (const char* name : {"h100", "h200"}) {
    const Target target = llvm::cantFail(find_target(name));
    const auto sm_us = [&](const char* tile) {
      PlanOptions options;
      options.force_tile = tile;
      return llvm::cantFail(make_plan(chain, target, options))
          .buckets[0]
          .kernels[0]
          .predicted.sm_us;
    };
    const double of_sm = rates_of(target).l2 / target.sm_count;
    CAPTURE(name);
    CHECK(sm_us("64x64x64g1s6k2") == doctest::Approx(24 * 16384 / (1.02 * of_sm)));
    // With an SM to itself a one-tile CTA is a weight stream. Shared memory moves
    // 128 bytes a clock. 2 x 4 wgmma read 4 KiB of A and 4 KiB of B each. TMA writes 24 KiB.
    CHECK(sm_us("128x64x64g2s8k2w") == doctest::Approx(24 * 448 / (target.clock_ghz * 1e3)));
  }
}

TEST_CASE("every target has rates, in proportion to what is published of it") {
  for (const Target& target : all_targets()) {
    const Rates rates = rates_of(target);
    CAPTURE(target.name);
    CHECK(rates.dram < target.dram_gbs * 1e3);
    CHECK(rates.dram > target.dram_gbs * 500);
    CHECK(rates.power < target.tensor_tflops * 1e6);
    CHECK(rates.mma * target.sm_count < target.tensor_tflops * 1e6);
    CHECK(rates.l2 > rates.dram);
    CHECK(rates.latency_us > 0);
  }
}

TEST_CASE("rows that do not start on a line touch two") {
  CHECK(line_share(256) == 1.0);
  CHECK(line_share(0) == 1.0);
  CHECK(line_share(64) == 1.5);
  CHECK(line_share(2) > 1.98);
}

TEST_CASE("M-grouped row tiles: as many as the rows fill, and at most one more per group") {
  CHECK(grouped_row_tiles(0, 8, 128) == 0);
  CHECK(grouped_row_tiles(8, 8, 128) == doctest::Approx(8));
  const double many = grouped_row_tiles(8192, 8, 128);
  CHECK(many > 64);
  CHECK(many < 72);
}
