// SPDX-License-Identifier: Apache-2.0
// A run as data: what was measured, where, when, and with which seed; as JSON for report.py and as
// tables for people. Measures nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/measure/ceilings.h"
#include "ir/json.h"

namespace catenary::bench {

// One candidate of a contraction. Times in microseconds, medians.
struct CandidateRow {
  std::string family, tile;
  int split_k = 1;
  double predicted_us = 0;
  std::optional<double> us;      // without PDL; none: `note` says why
  std::optional<double> pdl_us;  // with PDL, where that is measured
  int registers = 0;
  bool chosen = false;  // by the cost model
  std::string note;
};
CandidateRow candidate_row(const Entrant& entrant);

// One case. What was not measured is absent, and null in JSON. Times are without PDL unless they
// are called pdl.
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
  std::string second_peer;  // another implementation by the peer, if there is one
  std::optional<Spread> second_peer_us;
  std::optional<double> ratio;  // the faster peer's time / us: above 1 ours is faster
  std::string peer_config, peer_note, second_peer_config;
  std::optional<Spread> unfused_us;
  int unfused_kernels = 0;
  std::optional<Spread> pdl_us;
  std::optional<Spread> no_epilogue_us, no_epilogue_pdl_us;  // the chain without its epilogue
  std::optional<double> copy_share, pdl_copy_share;          // bytes/s over those of the copy
  std::optional<double> pdl_ratio;                           // the faster peer's time / pdl_us
  std::vector<CandidateRow> tiles;
};

// A layer of a sweep.
struct LayerRow {
  std::string kind;  // the summary that counts it
  std::string shape, dtype, epilogue;
  i64 batch = 1, m = 0, n = 0, k = 0;
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

// Compile time of one chain; needs no device.
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

// Machine code of a pack; a blob counts once in each part that has it.
struct PackPart {
  std::string name;  // a family, or an architecture
  i64 kernels = 0;
  i64 bytes = 0;
};

// The entries of a pack for one GPU. Medians over its entries, and the slowest entry's time.
struct PackTarget {
  std::string target, arch;
  i64 entries = 0;
  double find_us = 0;  // chain -> what a load takes, read and checked
  double find_worst_us = 0;
  double prepare_us = 0;  // find, and all of a load but the driver's part
  double prepare_worst_us = 0;
  double all_ms = 0;           // every entry prepared, one after the other
  double all_parallel_ms = 0;  // by as many threads as the host has cores
};

// A pack; needs no device.
struct PackCost {
  std::string name;
  i64 bytes = 0;
  i64 entries = 0;
  i64 kernels = 0;     // over all entries
  i64 code_bytes = 0;  // each blob once
  std::vector<PackPart> families, archs;
  double map_us = 0;   // to map the file and read its first page, for comparison
  double open_us = 0;  // to open the pack
  int threads = 0;     // of all_parallel_ms
  std::vector<PackTarget> targets;
};

struct Record {
  std::string device, gpu, driver, cuda, commit, date, compiler, cublaslt;
  u64 seed = 0;
  bool quick = false;
  bool tuning = false;  // a tile or split-K was forced: report.py leaves the record out
  Ceilings ceilings;
  std::vector<Row> rows;
  std::vector<LaunchRow> launch;
  std::vector<CompileRow> compile;
  std::string sweep;  // which sweep the layers are of
  std::vector<LayerRow> layers;
  std::vector<CalibrationRow> calibration;
  std::optional<PackCost> pack;
};

llvm::json::Value to_json(const Record& record);

// Creates the folder of `path` and checks that a record can be written there: for the start of a
// run. kIo.
Error check_record(const std::string& path);

// Writes the JSON to `path` by rename and creates its folder; sweeps have no white space. kIo.
Error write_record(const Record& record, const std::string& path);

// tables.cpp.
std::string table_head();
std::string table_line(const Row& row);
std::string tile_table(const Row& row);
std::string launch_table(llvm::ArrayRef<LaunchRow> rows);
std::string layer_line(const LayerRow& row);
std::string calibration_table(llvm::ArrayRef<CalibrationRow> rows);
std::string compile_table(llvm::ArrayRef<CompileRow> rows);
std::string pack_table(const PackCost& pack);

}  // namespace catenary::bench
