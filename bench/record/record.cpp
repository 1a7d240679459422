// SPDX-License-Identifier: Apache-2.0
#include "bench/record/record.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "bench/record/summary.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace catenary::bench {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

// Four to five significant digits say all that a measurement does.
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

Value tile_json(const TileRow& tile) {
  return Object{{"tile", text(tile.tile)},
                {"split_k", tile.split_k},
                {"predicted_us", number(tile.predicted_us)},
                {"us", number(tile.us)},
                {"registers", tile.registers},
                {"chosen", tile.chosen},
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
                {"plain_us", middle(row.plain_us)},
                {"overlap_us", middle(row.overlap_us)},
                {"overlap_spread", ends(row.overlap_us)},
                {"overlap_ratio", number(row.overlap_ratio)},
                {"plain_overlap_us", middle(row.plain_overlap_us)},
                {"copy_share", number(row.copy_share)},
                {"overlap_copy_share", number(row.overlap_copy_share)},
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
    for (const TileRow& tile : row.tiles) tiles.push_back(tile_json(tile));
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
                {"ratio", spread(summary.plain)},
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

// Rows as arrays below the names of their columns. `config` is a number among `configs`, which are
// few.
Value sweep_json(llvm::ArrayRef<SweepRow> rows) {
  std::vector<std::string> configs;
  Array lines;
  for (const SweepRow& row : rows) {
    auto found = std::find(configs.begin(), configs.end(), row.config);
    if (found == configs.end()) found = configs.insert(found, row.config);
    lines.push_back(Array{row.shape.m, row.shape.n, row.shape.k, row.verified, number(row.us),
                          number(row.overlap_us), number(row.peer_us), found - configs.begin(),
                          text(row.peer_config), text(row.note)});
  }
  return Object{{"columns", Array{"m", "n", "k", "verified", "us", "overlap_us", "peer_us",
                                  "config", "peer_config", "note"}},
                {"configs", array(configs, text)},
                {"rows", std::move(lines)}};
}

// A row per shape; `tiles` are arrays below the names in "tile_columns".
Value gemm_sweep_json(llvm::ArrayRef<GemmSweepRow> rows) {
  Array lines;
  for (const GemmSweepRow& row : rows) {
    Array tiles;
    for (const TileRow& tile : row.tiles) {
      tiles.push_back(Array{text(tile.tile), tile.split_k, number(tile.predicted_us),
                            number(tile.us), tile.chosen, tile.registers, text(tile.note)});
    }
    const GemmShape& s = row.shape;
    lines.push_back(
        Array{s.batch, s.m, s.n, s.k, s.gated, row.verified, std::move(tiles), text(row.note)});
  }
  return Object{{"columns", Array{"batch", "m", "n", "k", "gated", "verified", "tiles", "note"}},
                {"tile_columns",
                 Array{"tile", "split_k", "predicted_us", "us", "chosen", "registers", "note"}},
                {"rows", std::move(lines)}};
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
                          number(first.pdl_us), number(row.peer_us), number(plain_ratio(row)),
                          number(best_ratio(row)), text(row.peer), text(row.peer_config),
                          std::move(candidates), text(row.note)});
  }
  return Object{{"columns", Array{"kind", "shape", "dtype", "epilogue", "verified", "predicted_us",
                                  "us", "pdl_us", "peer_us", "ratio", "best_ratio", "peer",
                                  "peer_config", "candidates", "note"}},
                {"candidate_columns", Array{"family", "tile", "split_k", "predicted_us", "us",
                                            "pdl_us", "chosen", "registers", "note"}},
                {"rows", std::move(lines)}};
}

std::string time_text(const std::optional<Spread>& us) {
  if (!us) return "-";
  return us->median < 100 ? fmt::format("{:.2f}", us->median) : fmt::format("{:.1f}", us->median);
}

// What the row's ceiling counts: TFLOP/s or TB/s.
std::string rate_text(const Row& row) {
  if (!row.us) return "-";
  if (row.ceiling == "gemm") return fmt::format("{:.0f} TF/s", row.flops / row.us->median * 1e-6);
  return fmt::format("{:.2f} TB/s", row.bytes / row.us->median * 1e-6);
}

// "  overlapped 4.41 (90.3% of copy, ratio 1.95)".
std::string overlap_text(const Row& row) {
  if (!row.overlap_us) return "";
  std::string text = fmt::format("  overlapped {}", time_text(row.overlap_us));
  if (row.overlap_copy_share) {
    text += fmt::format(" ({:.1f}% of copy{})", *row.overlap_copy_share * 100,
                        row.overlap_ratio ? fmt::format(", ratio {:.3f}", *row.overlap_ratio) : "");
  }
  return text;
}

// "  loop of 12 cuBLASLt best: 270.1".
std::string second_peer_text(const Row& row) {
  if (!row.second_peer_us) return "";
  return fmt::format("  {}: {}", row.second_peer, time_text(row.second_peer_us));
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
  if (!record.sweep.empty()) object["sweep"] = sweep_json(record.sweep);
  if (!record.gemm_sweep.empty()) object["gemm_sweep"] = gemm_sweep_json(record.gemm_sweep);
  if (!record.calibration.empty()) {
    object["calibration"] = array(record.calibration, calibration_json);
  }
  if (!record.layers.empty()) {
    object["layers"] = layers_json(record.layers);
    object["summary"] = array(summarize(record.layers), summary_json);
  }
  return object;
}

Error write_record(const Record& record, const std::string& path) {
  const auto failed = [&](const std::error_code& code) {
    return make_error(ErrorCode::kIo, "cannot write {}: {}", path, code.message());
  };
  const llvm::StringRef folder = llvm::sys::path::parent_path(path);
  if (!folder.empty()) {
    if (const std::error_code code = llvm::sys::fs::create_directories(folder)) return failed(code);
  }
  const std::string draft = fmt::format("{}.{}.tmp", path, ::getpid());
  {
    std::error_code code;
    llvm::raw_fd_ostream out(draft, code);
    if (code) return failed(code);
    const bool large =
        !record.sweep.empty() || !record.gemm_sweep.empty() || !record.layers.empty();
    out << llvm::formatv(large ? "{0}\n" : "{0:2}\n", to_json(record));
    out.close();
    if (out.has_error()) {
      const std::error_code problem = out.error();
      out.clear_error();
      llvm::sys::fs::remove(draft);
      return failed(problem);
    }
  }
  if (const std::error_code code = llvm::sys::fs::rename(draft, path)) return failed(code);
  return Error::success();
}

std::string table_head() {
  return fmt::format("{:<36} {:>9} {:>9} {:>10} {:>9} {:>6} {:>9} {:>9} {:>8}\n", "case", "us",
                     "of bound", "rate", "peer us", "ratio", "unfused", "plain", "error");
}

std::string table_line(const Row& row) {
  if (!row.error.empty()) return fmt::format("{:<36} failed: {}\n", row.name, row.error);
  if (!row.verified) return fmt::format("{:<36} WRONG: {}\n", row.name, row.note);
  const auto percent = [](const std::optional<double>& part) {
    return part ? fmt::format("{:.1f}%", *part * 100) : std::string("-");
  };
  return fmt::format("{:<36} {:>9} {:>9} {:>10} {:>9} {:>6} {:>9} {:>9} {:>8}{}{}{}\n", row.name,
                     time_text(row.us), percent(row.of_ceiling), rate_text(row),
                     time_text(row.peer_us), row.ratio ? fmt::format("{:.3f}", *row.ratio) : "-",
                     time_text(row.unfused_us), time_text(row.plain_us),
                     row.worst_error_ratio ? fmt::format("{:.2f}", *row.worst_error_ratio) : "-",
                     overlap_text(row), second_peer_text(row),
                     row.peer_note.empty() ? "" : fmt::format("  [peer: {}]", row.peer_note));
}

std::string tile_table(const Row& row) {
  std::string text = fmt::format("  {:<24} {:>5} {:>10} {:>10} {:>5}\n", "tile", "split",
                                 "predicted", "us", "regs");
  for (const TileRow& tile : row.tiles) {
    text += fmt::format("  {:<24} {:>5} {:>10.1f} {:>10} {:>5}{}{}\n", tile.tile, tile.split_k,
                        tile.predicted_us, tile.us ? fmt::format("{:.2f}", *tile.us) : "-",
                        tile.registers, tile.chosen ? "  <- cost model" : "",
                        tile.note.empty() ? "" : "  " + tile.note);
  }
  return text;
}

std::string sweep_line(const SweepRow& row) {
  const auto time = [](const std::optional<double>& us) {
    return us ? fmt::format("{:.2f}", *us) : std::string("-");
  };
  const auto ratio = [&](const std::optional<double>& us) {
    return us && row.peer_us ? fmt::format("{:.3f}", *row.peer_us / *us) : std::string("-");
  };
  return fmt::format("{:>3} {:>6} {:>6} {:>8} {:>8} {:>8} {:>7} {:>7}  {}{}\n", row.shape.m,
                     row.shape.n, row.shape.k, time(row.us), time(row.overlap_us),
                     time(row.peer_us), ratio(row.us), ratio(row.overlap_us), row.config,
                     row.note.empty() ? "" : "  " + row.note);
}

std::string gemm_sweep_line(const GemmSweepRow& row) {
  const GemmShape& s = row.shape;
  std::string line = fmt::format("{:>3} {:>6} {:>6} {:>6}{} ", s.batch, s.m, s.n, s.k,
                                 s.gated ? " gated" : "      ");
  const TileRow* chosen = nullptr;
  const TileRow* best = nullptr;
  std::string notes = row.note;
  for (const TileRow& tile : row.tiles) {
    if (tile.chosen) chosen = &tile;
    if (tile.us && (best == nullptr || *tile.us < *best->us)) best = &tile;
    if (!tile.note.empty()) notes += fmt::format("  [{}: {}]", tile.tile, tile.note);
  }
  if (chosen == nullptr || !chosen->us) return line + "  not timed  " + notes + "\n";
  return line + fmt::format("{:>9.2f} {:>9.2f} {:>6.3f}  {} predicted {:.2f}, best {}{}  {}\n",
                            *chosen->us, *best->us, *best->us / *chosen->us, chosen->tile,
                            chosen->predicted_us, best->tile,
                            best->split_k > 1 ? fmt::format(" split {}", best->split_k) : "",
                            notes);
}

std::string layer_line(const LayerRow& row) {
  const auto time = [](const std::optional<double>& us) {
    return us ? fmt::format("{:.2f}", *us) : std::string("-");
  };
  const auto ratio = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.3f}", *value) : std::string("-");
  };
  std::string line =
      fmt::format("{:<8} {:<22} {:<4} {:<9}", row.kind, row.shape, row.dtype, row.epilogue);
  if (row.candidates.empty()) return line + "  not timed  " + row.note + "\n";
  const CandidateRow& first = row.candidates[0];
  line += fmt::format(" {:>9.2f} {:>9} {:>9} {:>9} {:>6} {:>6}  {} {}{}", first.predicted_us,
                      time(first.us), time(first.pdl_us), time(row.peer_us),
                      ratio(plain_ratio(row)), ratio(best_ratio(row)), first.family, first.tile,
                      first.split_k > 1 ? fmt::format(" split {}", first.split_k) : "");
  const CandidateRow* best = &first;
  std::string notes = row.note;
  for (const CandidateRow& one : row.candidates) {
    const auto faster = [](const std::optional<double>& a, const std::optional<double>& b) {
      return a && (!b || *a < *b);
    };
    if (faster(candidate_us(one), candidate_us(*best))) best = &one;
    if (!one.note.empty()) notes += fmt::format("  [{}: {}]", one.tile, one.note);
  }
  if (best != &first) {
    line += fmt::format("  best {} {}{} {}", best->family, best->tile,
                        best->split_k > 1 ? fmt::format(" split {}", best->split_k) : "",
                        time(candidate_us(*best)));
  }
  return line + (notes.empty() ? "" : "  " + notes) + "\n";
}

std::string launch_table(llvm::ArrayRef<LaunchRow> rows) {
  std::string text = fmt::format("{:<36} {:>14} {:>12} {:>9}\n", "host time per launch",
                                 "Executable, ns", "bare, ns", "over, ns");
  for (const LaunchRow& row : rows) {
    text += fmt::format("{:<36} {:>14.0f} {:>12.0f} {:>9.0f}\n", row.kernel, row.executable_ns,
                        row.bare_ns, row.executable_ns - row.bare_ns);
  }
  return text;
}

std::string calibration_table(llvm::ArrayRef<CalibrationRow> rows) {
  std::string text;
  for (const CalibrationRow& row : rows) {
    text += fmt::format("{:<28} {:>10} {:<8} {}\n", row.name,
                        row.value ? fmt::format("{:.3f}", *row.value) : "-", row.unit, row.note);
  }
  return text;
}

std::string compile_table(llvm::ArrayRef<CompileRow> rows) {
  std::string text =
      fmt::format("{:<20} {:<11} {:>7} {:>13} {:>9} {:>15} {:>13}\n", "chain", "family", "kernels",
                  "front end, us", "emit, us", "NVRTC ms/kernel", "cache hit, us");
  const auto optional = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.1f}", *value) : std::string("-");
  };
  for (const CompileRow& row : rows) {
    text += fmt::format("{:<20} {:<11} {:>7} {:>13.1f} {:>9.1f} {:>15} {:>13}\n", row.chain,
                        row.family, row.kernels, row.frontend_us, row.emit_us,
                        optional(row.nvrtc_ms), optional(row.cache_hit_us));
  }
  return text;
}

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace catenary::bench
