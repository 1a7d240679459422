// SPDX-License-Identifier: Apache-2.0
#include "compiler/rates.h"

#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

struct MeasuredRates {
  const char* target;
  Rates rates;
};

constexpr MeasuredRates kMeasured[] = {
#define CATENARY_RATES(name, dram, l2, registers, latency, mma, power, mma_sync, cluster, start,   \
                       reduction, epilogue, dsmem)                                                 \
  {#name,                                                                                          \
   {dram, l2, registers, latency, mma, (power)*1e6, mma_sync, cluster, start, reduction, epilogue, \
    dsmem}},
#include "compiler/rates.def"
#undef CATENARY_RATES
};

// Before sm_90 there is no wgmma: `mma` is then the rate of mma.sync, 0.85 of the published one.
constexpr double kMmaSyncOfPeak = 0.85;

Rates scaled(const Target& target, const Rates& known, const Target& of) {
  const double clock = target.clock_ghz / of.clock_ghz;
  const double sms = static_cast<double>(target.sm_count) / of.sm_count;
  const double tensor = target.tensor_tflops / of.tensor_tflops;
  Rates rates = known;
  rates.dram *= target.dram_gbs / of.dram_gbs;
  rates.l2 *= clock * sms;
  rates.register_fill *= clock;
  rates.mma *= tensor / sms;
  rates.power *= tensor;
  rates.epilogue *= clock;
  rates.dsmem *= clock;
  if (target.compute_capability() != of.compute_capability()) {
    rates.mma = target.tensor_tflops * 1e6 / target.sm_count * kMmaSyncOfPeak;
    rates.power = target.tensor_tflops * 1e6 * kMmaSyncOfPeak;
    rates.mma_sync = 1;
  }
  return rates;
}

}  // namespace

Rates rates_of(const Target& target) {
  for (const MeasuredRates& row : kMeasured) {
    const auto known =
        llvm::find_if(all_targets(), [&](const Target& t) { return t.name == row.target; });
    if (known != all_targets().end() && known->name == target.name &&
        known->sm_count == target.sm_count) {
      return row.rates;
    }
  }
  const auto h200 =
      llvm::find_if(all_targets(), [](const Target& t) { return t.name == kMeasured[0].target; });
  return scaled(target, kMeasured[0].rates, *h200);
}

}  // namespace catenary
