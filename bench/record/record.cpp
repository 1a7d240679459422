// SPDX-License-Identifier: Apache-2.0
#include "bench/record/record.h"

#include <algorithm>
#include <cmath>

#include "bench/record/summary.h"
#include "ir/json.h"
#include "ir/names.h"
#include "ir/output_file.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace catenary::bench {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

// Five significant digits: more than a measurement has.
Value number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == 0) return 0;
  const double scale = std::pow(10, 4 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * scale) / scale;
}

Value number(const std::optional<double>& value) { return value ? number(*value) : nullptr; }

Value middle(const std::optional<Spread>& value) { return value ? number(value->median) : nullptr; }

Value ends(const std::optional<Spread>& value) {
  if (!value) return nullptr;
  return Array{number(value->p10), number(value->p90)};
}

Value text(const std::string& value) {
  if (value.empty()) return nullptr;
  return llvm::json::fixUTF8(value);
}

template <typename Rows, typename ToJson>
Array array(const Rows& rows, const ToJson& to_json) {
  Array result;
  for (const auto& row : rows) result.push_back(to_json(row));
  return result;
}

Value tile_json(const CandidateRow& tile) {
  return Object{{"family", text(tile.family)}, {"tile", text(tile.tile)},
                {"split_k", tile.split_k},     {"predicted_us", number(tile.predicted_us)},
                {"us", number(tile.us)},       {"pdl_us", number(tile.pdl_us)},
                {"registers", tile.registers}, {"chosen", tile.chosen},
                {"note", text(tile.note)}};
}

Value row_json(const Row& row) {
  Object object{{"case", text(row.name)},
                {"family", text(row.family)},
                {"dtype", text(row.dtype)},
                {"shape", text(row.shape)},
                {"us", middle(row.us)},
                {"of_ceiling", number(row.of_ceiling)},
                {"peer", text(row.peer)},
                {"peer_us", middle(row.peer_us)},
                {"ratio", number(row.ratio)},
                {"verified", row.verified},
                {"worst_error_ratio", number(row.worst_error_ratio)},
                {"group", text(row.group)},
                {"ceiling", text(row.ceiling)},
                {"spread", ends(row.us)},
                {"peer_spread", ends(row.peer_us)},
                {"unfused_us", middle(row.unfused_us)},
                {"unfused_kernels", row.unfused_kernels},
                {"no_epilogue_us", middle(row.no_epilogue_us)},
                {"pdl_us", middle(row.pdl_us)},
                {"pdl_spread", ends(row.pdl_us)},
                {"pdl_ratio", number(row.pdl_ratio)},
                {"no_epilogue_pdl_us", middle(row.no_epilogue_pdl_us)},
                {"copy_share", number(row.copy_share)},
                {"pdl_copy_share", number(row.pdl_copy_share)},
                {"kernels", row.kernels},
                {"config", text(row.config)},
                {"peer_config", text(row.peer_config)},
                {"bytes", row.bytes},
                {"flops", row.flops},
                {"copies", row.copies},
                {"graph", row.graph},
                {"note", text(row.note)},
                {"peer_note", text(row.peer_note)},
                {"error", text(row.error)}};
  if (!row.second_peer.empty()) {
    object["second_peer"] = text(row.second_peer);
    object["second_peer_us"] = middle(row.second_peer_us);
    object["second_peer_config"] = text(row.second_peer_config);
  }
  if (!row.tiles.empty()) {
    Array tiles;
    for (const CandidateRow& tile : row.tiles) tiles.push_back(tile_json(tile));
    object["tiles"] = std::move(tiles);
  }
  return object;
}

Value summary_json(const KindSummary& summary) {
  const auto spread = [](const RatioSpread& ratios) -> Value {
    return Object{{"geomean", number(ratios.geomean)},
                  {"p10", number(ratios.p10)},
                  {"worst", number(ratios.worst)}};
  };
  return Object{{"kind", text(summary.kind)},
                {"layers", summary.layers},
                {"timed", summary.timed},
                {"ratio", spread(summary.no_pdl)},
                {"best_ratio", spread(summary.best)}};
}

Value launch_json(const LaunchRow& row) {
  return Object{{"kernel", text(row.kernel)},
                {"executable_ns", number(row.executable_ns)},
                {"bare_ns", number(row.bare_ns)},
                {"over_ns", number(row.executable_ns - row.bare_ns)}};
}

Value calibration_json(const CalibrationRow& row) {
  return Object{{"name", text(row.name)},
                {"value", number(row.value)},
                {"unit", text(row.unit)},
                {"note", text(row.note)}};
}

Value compile_json(const CompileRow& row) {
  return Object{{"chain", text(row.chain)},
                {"family", text(row.family)},
                {"target", text(row.target)},
                {"kernels", row.kernels},
                {"frontend_us", number(row.frontend_us)},
                {"emit_us", number(row.emit_us)},
                {"nvrtc_ms", number(row.nvrtc_ms)},
                {"cache_hit_us", number(row.cache_hit_us)}};
}

// A row per layer; `candidates` are arrays below the names in "candidate_columns". The times of the
// first candidate are repeated as the layer's.
Value layers_json(llvm::ArrayRef<LayerRow> rows) {
  Array lines;
  for (const LayerRow& row : rows) {
    Array candidates;
    for (const CandidateRow& c : row.candidates) {
      candidates.push_back(Array{text(c.family), text(c.tile), c.split_k, number(c.predicted_us),
                                 number(c.us), number(c.pdl_us), c.chosen, c.registers,
                                 text(c.note)});
    }
    const CandidateRow first = row.candidates.empty() ? CandidateRow() : row.candidates[0];
    lines.push_back(Array{text(row.kind), text(row.shape), text(row.dtype), text(row.epilogue),
                          row.verified, number(first.predicted_us), number(first.us),
                          number(first.pdl_us), number(row.peer_us), number(no_pdl_ratio(row)),
                          number(best_ratio(row)), text(row.peer), text(row.peer_config),
                          std::move(candidates), text(row.note), row.batch, row.m, row.n, row.k});
  }
  return Object{{"columns", Array{"kind", "shape", "dtype", "epilogue", "verified", "predicted_us",
                                  "us", "pdl_us", "peer_us", "ratio", "best_ratio", "peer",
                                  "peer_config", "candidates", "note", "batch", "m", "n", "k"}},
                {"candidate_columns", Array{"family", "tile", "split_k", "predicted_us", "us",
                                            "pdl_us", "chosen", "registers", "note"}},
                {"rows", std::move(lines)}};
}

Error make_record_folder(const std::string& path) {
  const llvm::StringRef folder = llvm::sys::path::parent_path(path);
  if (folder.empty()) return Error::success();
  const std::error_code code = llvm::sys::fs::create_directories(folder);
  if (!code) return Error::success();
  return make_error(ErrorCode::kIo,
                    "{} cannot be written: its folder could not be created ({}), choose another "
                    "one by --out",
                    quoted(path), code.message());
}

}  // namespace

CandidateRow candidate_row(const Entrant& entrant) {
  CandidateRow row;
  row.family = entrant.candidate.family;
  row.tile = entrant.candidate.tile;
  row.split_k = entrant.candidate.split_k;
  row.predicted_us = entrant.candidate.predicted_us;
  if (entrant.us) row.us = entrant.us->median;
  if (entrant.pdl_us) row.pdl_us = entrant.pdl_us->median;
  row.registers = entrant.registers;
  row.chosen = entrant.candidate.chosen;
  row.note = entrant.note;
  return row;
}

namespace {

Value part_json(const PackPart& part) {
  return Object{{"name", text(part.name)}, {"kernels", part.kernels}, {"bytes", part.bytes}};
}

Value pack_target_json(const PackTarget& target) {
  return Object{{"target", text(target.target)},
                {"arch", text(target.arch)},
                {"entries", target.entries},
                {"find_us", number(target.find_us)},
                {"find_worst_us", number(target.find_worst_us)},
                {"prepare_us", number(target.prepare_us)},
                {"prepare_worst_us", number(target.prepare_worst_us)},
                {"all_ms", number(target.all_ms)},
                {"all_parallel_ms", number(target.all_parallel_ms)}};
}

Value pack_json(const PackCost& pack) {
  return Object{{"name", text(pack.name)},
                {"bytes", pack.bytes},
                {"entries", pack.entries},
                {"kernels", pack.kernels},
                {"code_bytes", pack.code_bytes},
                {"families", array(pack.families, part_json)},
                {"archs", array(pack.archs, part_json)},
                {"map_us", number(pack.map_us)},
                {"open_us", number(pack.open_us)},
                {"threads", pack.threads},
                {"targets", array(pack.targets, pack_target_json)}};
}

}  // namespace

Value to_json(const Record& record) {
  Object object{{"device", text(record.device)},
                {"driver", text(record.driver)},
                {"cuda", text(record.cuda)},
                {"commit", text(record.commit)},
                {"date", text(record.date)},
                {"seed", static_cast<i64>(record.seed)},
                {"ceilings", Object{{"copy_tbs", number(record.ceilings.copy_tbs)},
                                    {"gemm_tflops", number(record.ceilings.gemm_tflops)}}},
                {"rows", array(record.rows, row_json)},
                {"gpu", text(record.gpu)},
                {"compiler", text(record.compiler)},
                {"cublaslt", text(record.cublaslt)},
                {"quick", record.quick},
                {"tuning", record.tuning}};
  if (!record.launch.empty()) object["launch"] = array(record.launch, launch_json);
  if (!record.compile.empty()) object["compile"] = array(record.compile, compile_json);
  if (!record.calibration.empty()) {
    object["calibration"] = array(record.calibration, calibration_json);
  }
  if (record.pack) object["pack"] = pack_json(*record.pack);
  if (!record.layers.empty()) {
    object["sweep_name"] = text(record.sweep);
    object["layers"] = layers_json(record.layers);
    object["summary"] = array(summarize(record.layers), summary_json);
  }
  return object;
}

Error check_record(const std::string& path) {
  if (Error error = make_record_folder(path)) return error;
  return OutputFile::check(path);
}

Error write_record(const Record& record, const std::string& path) {
  if (Error error = make_record_folder(path)) return error;
  return write_output(path, json_text(to_json(record), record.layers.empty() ? 2 : 0) + "\n");
}

}  // namespace catenary::bench
