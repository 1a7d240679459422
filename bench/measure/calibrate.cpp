// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/calibrate.h"

#include <algorithm>
#include <limits>

#include "bench/cases/layer.h"
#include "bench/measure/probe_kernel.h"
#include "bench/sweep/sweep.h"
#include "bench/tuner.h"

namespace catenary::bench {
namespace {

constexpr int kThreads = 512;
constexpr int kCtasPerSm = 3;
constexpr i64 kWordBytes = 16;

double gbs(double bytes, double us) { return us > 0 ? bytes / (us * 1e3) : 0; }

// Medians of launches that are long enough to need no graph.
Expected<double> median_us(const Session& session, const Contender& contender,
                           TimingOptions timing) {
  timing.copies = 1;
  timing.graph_below_us = 0;
  auto timings = time_contenders(session, contender, timing);
  if (!timings) return timings.takeError();
  return timings->front().us.median;
}

std::string relu_text(i64 elements) {
  return fmt::format("chain launch(input x: f32[{}]) {{\n  y = relu(x)\n  return y: f32\n}}\n",
                     elements);
}

Layer square_layer(DType dtype, i64 size) {
  Layer layer;
  layer.group = "gemm";
  layer.dtype = dtype;
  layer.m = layer.n = layer.k = size;
  return layer;
}

}  // namespace

Expected<double> copy_rate(const Session& session, const CalibrateOptions& options) {
  Expected<DeviceCopy> copy = DeviceCopy::make(session, options.stream_bytes);
  if (!copy) return copy.takeError();
  Expected<double> us = median_us(session, copy->contender(), options.timing);
  if (!us) return us.takeError();
  return 1e3 * copy->tbs(*us);
}

Expected<double> read_rate(const Session& session, i64 bytes, bool from_l2,
                           const CalibrateOptions& options) {
  Expected<ProbeKernel> probe = ProbeKernel::make(session, from_l2 ? kL2ReadProbe : kDramReadProbe);
  if (!probe) return probe.takeError();
  Expected<cuda::DeviceBuffer> data = cuda::DeviceBuffer::allocate(bytes);
  if (!data) return data.takeError();
  Expected<cuda::DeviceBuffer> out = cuda::DeviceBuffer::allocate(256);
  if (!out) return out.takeError();
  if (Error error = data->fill(0x5a)) return error;
  if (Error error = session.synchronize_context()) return error;
  const int ctas = kCtasPerSm * session.info().target.sm_count;
  const Contender read{"read", [&](int) {
                         return probe->launch(
                             ctas, kThreads,
                             {data->get(), static_cast<u64>(bytes / kWordBytes), out->get()});
                       }};
  Expected<double> us = median_us(session, read, options.timing);
  if (!us) return us.takeError();
  return gbs(static_cast<double>(bytes) * (from_l2 ? ctas : 1), *us);
}

Expected<LaunchPair> graph_launch_cost(const Session& session, RandomPool& pool, i64 elements,
                                       const CalibrateOptions& options) {
  Expected<VerifiedChain> verified = verified_chain(relu_text(elements));
  if (!verified) return verified.takeError();
  Expected<Tensors> tensors = make_tensors(session, pool, *verified, {}, 1);
  if (!tensors) return tensors.takeError();
  auto bound = BoundChain::make(session, *verified, {}, *tensors, 1);
  if (!bound) return bound.takeError();
  TimingOptions timing = options.timing;
  timing.graph_below_us = std::numeric_limits<double>::infinity();
  auto timings = time_contenders(
      session, {contender("no PDL", *bound), contender("PDL", *bound, true)}, timing);
  if (!timings) return timings.takeError();
  return LaunchPair{(*timings)[0].us.median, (*timings)[1].us.median};
}

Expected<GemmRates> gemm_rates(const Session& session, const CublasLt* lt, RandomPool& pool,
                               DType dtype, const CalibrateOptions& options) {
  const Case spec = layer_case(square_layer(dtype, options.gemm_size));
  SweepOptions sweep;
  sweep.timing = options.timing;
  sweep.algorithms = 32;
  sweep.select = [best = options.candidates](const Case&, llvm::ArrayRef<Candidate> candidates) {
    return select_candidates(candidates, best, 0);
  };
  LayerRow result;
  if (Error error = run_sweep(
          session, lt, pool, spec, sweep, [](i64, i64) {},
          [&](LayerRow row) {
            result = std::move(row);
            return Error::success();
          })) {
    return error;
  }
  double best_us = std::numeric_limits<double>::infinity();
  for (const CandidateRow& one : result.candidates) {
    if (one.us) best_us = std::min(best_us, *one.us);
  }
  if (!(best_us < std::numeric_limits<double>::infinity())) {
    return make_error(ErrorCode::kInternal, "no candidate could be timed: {}", result.note);
  }
  GemmRates rates;
  rates.ours = spec.flops / (best_us * 1e6);
  if (result.peer_us) rates.peer = spec.flops / (*result.peer_us * 1e6);
  return rates;
}

Expected<Latency> dram_latency(const Session& session, bool loaded,
                               const CalibrateOptions& options) {
  constexpr i64 kCycleBytes = i64{256} << 20;
  constexpr u64 kLines = kCycleBytes / 128;
  constexpr u64 kSteps = 4096;
  Expected<ProbeKernel> fill = ProbeKernel::make(session, kCycleProbe);
  if (!fill) return fill.takeError();
  Expected<ProbeKernel> chase = ProbeKernel::make(session, kChaseProbe);
  if (!chase) return chase.takeError();
  Expected<cuda::DeviceBuffer> cycle = cuda::DeviceBuffer::allocate(kCycleBytes);
  if (!cycle) return cycle.takeError();
  Expected<cuda::DeviceBuffer> load = cuda::DeviceBuffer::allocate(options.stream_bytes);
  if (!load) return load.takeError();
  Expected<cuda::DeviceBuffer> result = cuda::DeviceBuffer::allocate(256);
  if (!result) return result.takeError();
  if (Error error = fill->launch(1024, 256, {cycle->get(), kLines})) return error;
  std::vector<double> ns;
  std::vector<double> rates;
  const int ctas = loaded ? kCtasPerSm * session.info().target.sm_count : 1;
  for (int repeat = 0; repeat < 7; ++repeat) {
    // Evicts the cycle from the L2.
    if (Error error = session.synchronize()) return error;
    if (Error error = load->fill(static_cast<u8>(repeat))) return error;
    if (Error error = result->fill(0)) return error;
    if (Error error = session.synchronize_context()) return error;
    if (Error error =
            chase->launch(ctas, kThreads,
                          {cycle->get(), kSteps, load->get(),
                           static_cast<u64>(options.stream_bytes / kWordBytes), result->get()})) {
      return error;
    }
    if (Error error = session.synchronize()) return error;
    u64 values[2] = {};
    if (Error error = result->download(values, sizeof values)) return error;
    ns.push_back(static_cast<double>(values[0]) / kSteps);
    rates.push_back(static_cast<double>(values[1]) /
                    static_cast<double>(std::max<u64>(values[0], 1)));
  }
  return Latency{median(ns), median(rates)};
}

Expected<double> clock_after(const Session& session, const Contender& work) {
  constexpr double kWorkUs = 5e5;
  constexpr u64 kSpinNs = 200000;
  Expected<ProbeKernel> probe = ProbeKernel::make(session, kClockProbe);
  if (!probe) return probe.takeError();
  Expected<cuda::DeviceBuffer> result = cuda::DeviceBuffer::allocate(256);
  if (!result) return result.takeError();
  TimingOptions timing;
  timing.rounds = 1;
  Expected<double> us = median_us(session, work, timing);
  if (!us) return us.takeError();
  const i64 launches = batch_units(kWorkUs, *us, 1);
  for (i64 i = 0; i < launches; ++i) {
    if (Error error = work.launch(0)) return error;
  }
  if (Error error = probe->launch(1, 1, {kSpinNs, result->get()})) return error;
  if (Error error = session.synchronize()) return error;
  u64 values[2] = {};
  if (Error error = result->download(values, sizeof values)) return error;
  return static_cast<double>(values[0]) / static_cast<double>(std::max<u64>(values[1], 1));
}

namespace {

// The work of clock_after(): our GEMM, and a copy.
Expected<double> clock_under_gemm(const Session& session, RandomPool& pool, i64 size) {
  Expected<VerifiedChain> verified =
      verified_chain(layer_case(square_layer(DType::kBF16, size)).chain);
  if (!verified) return verified.takeError();
  Expected<Tensors> tensors = make_tensors(session, pool, *verified, {}, 1);
  if (!tensors) return tensors.takeError();
  auto bound = BoundChain::make(session, *verified, {}, *tensors, 1);
  if (!bound) return bound.takeError();
  return clock_after(session, contender("gemm", *bound));
}

Expected<double> clock_under_copy(const Session& session, i64 bytes) {
  Expected<DeviceCopy> copy = DeviceCopy::make(session, bytes);
  if (!copy) return copy.takeError();
  return clock_after(session, copy->contender());
}

class Rows {
 public:
  // An error becomes the row's note.
  void add(const char* name, const char* unit, Expected<double> value) {
    CalibrationRow row{name, unit, std::nullopt, ""};
    if (value) {
      row.value = *value;
    } else {
      const ErrorReport report = take_report(value.takeError());
      row.note = report.message;
      if (report.code == ErrorCode::kContextPoisoned) broken_ = report.message;
    }
    rows_.push_back(std::move(row));
  }
  template <typename Pair>
  void add(const char* first, double Pair::*a, const char* second, double Pair::*b,
           const char* unit, Expected<Pair> pair) {
    if (pair) {
      add(first, unit, (*pair).*a);
      if ((*pair).*b > 0) add(second, unit, (*pair).*b);
      return;
    }
    add(first, unit, pair.takeError());
  }
  void add_latency(const char* name, Expected<Latency> latency) {
    if (!latency) return add(name, "ns", latency.takeError());
    add(name, "ns", latency->ns);
    if (latency->load_gbs > 0) add("dram_read_in_latency_test", "GB/s", latency->load_gbs);
  }
  const std::string& broken() const { return broken_; }
  std::vector<CalibrationRow> take() { return std::move(rows_); }

 private:
  std::vector<CalibrationRow> rows_;
  std::string broken_;  // why the context is lost; empty: it is not
};

}  // namespace

Expected<std::vector<CalibrationRow>> calibrate(const Session& session, const CublasLt* lt,
                                                RandomPool& pool, const CalibrateOptions& options) {
  constexpr i64 kMiB = i64{1} << 20;
  Rows rows;
  rows.add("dram_copy", "GB/s", copy_rate(session, options));
  rows.add("dram_read", "GB/s", read_rate(session, options.stream_bytes, false, options));
  rows.add("l2_read_4mib", "GB/s", read_rate(session, 4 * kMiB, true, options));
  rows.add("l2_read_16mib", "GB/s", read_rate(session, 16 * kMiB, true, options));
  rows.add("l2_read_24mib", "GB/s", read_rate(session, 24 * kMiB, true, options));
  const i64 sms = session.info().target.sm_count;
  rows.add("launch_1_cta", &LaunchPair::no_pdl_us, "launch_1_cta_pdl", &LaunchPair::pdl_us, "us",
           graph_launch_cost(session, pool, 1024, options));
  rows.add("launch_all_sms", &LaunchPair::no_pdl_us, "launch_all_sms_pdl", &LaunchPair::pdl_us,
           "us", graph_launch_cost(session, pool, 1024 * sms, options));
  rows.add_latency("dram_latency_idle", dram_latency(session, false, options));
  rows.add_latency("dram_latency_loaded", dram_latency(session, true, options));
  rows.add("gemm_bf16", &GemmRates::ours, "gemm_bf16_cublaslt", &GemmRates::peer, "TFLOP/s",
           gemm_rates(session, lt, pool, DType::kBF16, options));
  rows.add("gemm_tf32", &GemmRates::ours, "gemm_tf32_cublaslt", &GemmRates::peer, "TFLOP/s",
           gemm_rates(session, lt, pool, DType::kF32, options));
  rows.add("clock_after_gemm", "GHz", clock_under_gemm(session, pool, options.gemm_size));
  rows.add("clock_after_copy", "GHz", clock_under_copy(session, options.stream_bytes / 4));
  if (!rows.broken().empty()) return make_error_text(ErrorCode::kContextPoisoned, rows.broken());
  return rows.take();
}

}  // namespace catenary::bench
