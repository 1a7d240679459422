// SPDX-License-Identifier: Apache-2.0
// A run as data: what was measured, where, when, with which seed; as JSON for report.py and as a
// table for people. Measures nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/measure/ceilings.h"
#include "llvm/Support/JSON.h"

namespace catenary::bench {

// One gemm tile tried by hand.
struct TileRow {
  std::string tile;
  int split_k = 1;
  double predicted_us = 0;
  std::optional<double> us;  // none: `note` says why
  int registers = 0;
  bool chosen = false;  // by the cost model
  std::string note;
};

// One case. What was not measured is absent, and null in JSON.
struct Row {
  std::string name, group, family, dtype, shape, config, note, error;
  double bytes = 0;  // inputs, weights (of experts with rows) and output, each once
  double flops = 0;  // of the contractions
  int kernels = 0;
  int copies = 0;
  bool graph = false;  // timed as CUDA graphs of 100 launches
  bool verified = false;
  std::optional<double> worst_error_ratio;
  std::optional<Spread> us;
  std::optional<double> of_ceiling;  // the ceiling's time over ours
  std::string ceiling;               // "copy" or "gemm"
  std::string peer;
  std::optional<Spread> peer_us;
  std::string second_peer;  // another way of the peer, where there is one
  std::optional<Spread> second_peer_us;
  std::optional<double> ratio;  // the faster peer's time / us: above 1 we are faster
  std::string peer_config, peer_note, second_peer_config;
  std::optional<Spread> unfused_us;
  int unfused_kernels = 0;
  std::optional<Spread> plain_us;    // the chain without its epilogue
  std::optional<Spread> overlap_us;  // programmatic on every edge
  std::optional<Spread> plain_overlap_us;
  std::optional<double> copy_share, overlap_copy_share;  // bytes/s over those of the copy
  std::optional<double> overlap_ratio;                   // the faster peer's / overlap_us
  std::vector<TileRow> tiles;
};

// A bf16 linear layer of the sweep.
struct SweepShape {
  i64 m = 0, n = 0, k = 0;
};

// Times in microseconds, medians.
struct SweepRow {
  SweepShape shape;
  std::string config;  // family and tile
  bool verified = false;
  std::optional<double> us, overlap_us, peer_us;
  std::string peer_config, note;
};

// A bf16 contraction of the sweep of large ones.
struct GemmShape {
  i64 batch = 1, m = 0, n = 0, k = 0;
  bool gated = false;
};

struct GemmSweepRow {
  GemmShape shape;
  bool verified = false;       // the chosen tile
  std::vector<TileRow> tiles;  // those that were tried
  std::string note;
};

// One candidate of a layer. Times in microseconds, medians.
struct CandidateRow {
  std::string family, tile;
  int split_k = 1;
  double predicted_us = 0;
  std::optional<double> us;      // none: `note` says why
  std::optional<double> pdl_us;  // by PDL launches, where they are measured
  int registers = 0;
  bool chosen = false;  // by the cost model
  std::string note;
};

// A layer of the sweeps over models and random shapes.
struct LayerRow {
  std::string kind;  // the summary that it counts in
  std::string shape, dtype, epilogue;
  bool verified = false;                 // the first candidate
  std::vector<CandidateRow> candidates;  // the cost model's choice first
  std::string peer, peer_config;         // of the fastest peer
  std::optional<double> peer_us;
  std::string note;
};

// Host time of one launch, nanoseconds.
struct LaunchRow {
  std::string kernel;
  double executable_ns = 0;
  double bare_ns = 0;
};

// Compiling one chain, no device needed. NVRTC's is the mean over the chain's kernels.
struct CompileRow {
  std::string chain, family, target;
  int kernels = 0;
  double frontend_us = 0;  // parse, verify, plan
  double emit_us = 0;
  std::optional<double> nvrtc_ms;  // per kernel
  std::optional<double> cache_hit_us;
};

// One rate or latency of the device.
struct CalibrationRow {
  std::string name, unit;
  std::optional<double> value;  // none: `note` says why
  std::string note;
};

struct Record {
  std::string device, gpu, driver, cuda, commit, date, compiler, cublaslt;
  u64 seed = 0;
  bool quick = false;
  bool tuning = false;  // tiles or splits were forced: not for the tables
  Ceilings ceilings;
  std::vector<Row> rows;
  std::vector<LaunchRow> launch;
  std::vector<CompileRow> compile;
  std::vector<SweepRow> sweep;
  std::vector<GemmSweepRow> gemm_sweep;
  std::vector<LayerRow> layers;
  std::vector<CalibrationRow> calibration;
};

llvm::json::Value to_json(const Record& record);

// Writes the JSON to `path` by rename, making its folder; sweeps without white space. kIo.
Error write_record(const Record& record, const std::string& path);

std::string table_head();
std::string table_line(const Row& row);
std::string tile_table(const Row& row);
std::string launch_table(llvm::ArrayRef<LaunchRow> rows);
std::string sweep_line(const SweepRow& row);
std::string gemm_sweep_line(const GemmSweepRow& row);
std::string layer_line(const LayerRow& row);
std::string calibration_table(llvm::ArrayRef<CalibrationRow> rows);
std::string compile_table(llvm::ArrayRef<CompileRow> rows);

// Now, in UTC: "2026-11-21T01:28:04Z".
std::string utc_date();

}  // namespace catenary::bench
