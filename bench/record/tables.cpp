// SPDX-License-Identifier: Apache-2.0
// Records as text for people.
#include "bench/record/summary.h"
#include "ir/counted.h"

namespace catenary::bench {
namespace {

std::string time_text(const std::optional<Spread>& us) {
  if (!us) return "-";
  return us->median < 100 ? fmt::format("{:.2f}", us->median) : fmt::format("{:.1f}", us->median);
}

// In the unit of the row's ceiling: TFLOP/s or TB/s.
std::string rate_text(const Row& row) {
  if (!row.us) return "-";
  if (row.ceiling == "gemm") return fmt::format("{:.0f} TF/s", row.flops / row.us->median * 1e-6);
  return fmt::format("{:.2f} TB/s", row.bytes / row.us->median * 1e-6);
}

// "  PDL 4.41 (90.3% of copy, ratio 1.95)".
std::string pdl_text(const Row& row) {
  if (!row.pdl_us) return "";
  std::string text = fmt::format("  PDL {}", time_text(row.pdl_us));
  if (row.pdl_copy_share) {
    text += fmt::format(" ({:.1f}% of copy{})", *row.pdl_copy_share * 100,
                        row.pdl_ratio ? fmt::format(", ratio {:.3f}", *row.pdl_ratio) : "");
  }
  return text;
}

// "  loop of 12 cuBLASLt best: 270.1".
std::string second_peer_text(const Row& row) {
  if (!row.second_peer_us) return "";
  return fmt::format("  {}: {}", row.second_peer, time_text(row.second_peer_us));
}

std::string optional_text(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : std::string("-");
}

std::string tile_text(const CandidateRow& candidate) {
  return fmt::format("{} {}{}", candidate.family, candidate.tile,
                     candidate.split_k > 1 ? fmt::format(" split {}", candidate.split_k) : "");
}

// The fastest candidate, if it is not the first: "  best skinny 8x1... 4.21".
std::string best_text(const LayerRow& row) {
  const CandidateRow* best = &row.candidates[0];
  for (const CandidateRow& one : row.candidates) {
    const auto us = candidate_us(one);
    const auto best_us = candidate_us(*best);
    if (us && (!best_us || *us < *best_us)) best = &one;
  }
  if (best == &row.candidates[0]) return "";
  return fmt::format("  best {} {}", tile_text(*best), optional_text(candidate_us(*best), 2));
}

}  // namespace

std::string table_head() {
  return fmt::format("{:<36} {:>9} {:>9} {:>10} {:>9} {:>6} {:>9} {:>9} {:>8}\n", "case", "us",
                     "of bound", "rate", "peer us", "ratio", "unfused", "bare", "error");
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
                     time_text(row.unfused_us), time_text(row.no_epilogue_us),
                     row.worst_error_ratio ? fmt::format("{:.2f}", *row.worst_error_ratio) : "-",
                     pdl_text(row), second_peer_text(row),
                     row.peer_note.empty() ? "" : fmt::format("  [peer: {}]", row.peer_note));
}

std::string tile_table(const Row& row) {
  std::string text = fmt::format("  {:<24} {:>5} {:>10} {:>10} {:>10} {:>5}\n", "tile", "split",
                                 "predicted", "us", "PDL us", "regs");
  for (const CandidateRow& tile : row.tiles) {
    text += fmt::format(
        "  {:<24} {:>5} {:>10.1f} {:>10} {:>10} {:>5}{}{}\n", tile.tile, tile.split_k,
        tile.predicted_us, optional_text(tile.us, 2), optional_text(tile.pdl_us, 2), tile.registers,
        tile.chosen ? "  <- cost model" : "", tile.note.empty() ? "" : "  " + tile.note);
  }
  return text;
}

std::string layer_line(const LayerRow& row) {
  std::string line =
      fmt::format("{:<8} {:<22} {:<4} {:<9}", row.kind, row.shape, row.dtype, row.epilogue);
  if (row.candidates.empty()) return line + "  not timed  " + row.note + "\n";
  const CandidateRow& first = row.candidates[0];
  line += fmt::format(" {:>9.2f} {:>9} {:>9} {:>9} {:>6} {:>6}  {}{}", first.predicted_us,
                      optional_text(first.us, 2), optional_text(first.pdl_us, 2),
                      optional_text(row.peer_us, 2), optional_text(no_pdl_ratio(row), 3),
                      optional_text(best_ratio(row), 3), tile_text(first), best_text(row));
  if (!row.note.empty()) line += "  " + row.note;
  for (const CandidateRow& one : row.candidates) {
    if (!one.note.empty()) line += fmt::format("  [{}: {}]", one.tile, one.note);
  }
  return line + "\n";
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

std::string pack_table(const PackCost& pack) {
  const auto mib = [](i64 bytes) { return static_cast<double>(bytes) / (1 << 20); };
  std::string text = fmt::format(
      "{}: {}, {}, {:.1f} MiB, of it machine code {:.1f} MiB\n"
      "open {:.0f} us; to map the file {:.0f} us\n",
      pack.name, counted(pack.entries, "entry"), counted(pack.kernels, "kernel"), mib(pack.bytes),
      mib(pack.code_bytes), pack.open_us, pack.map_us);
  for (const std::vector<PackPart>* parts : {&pack.families, &pack.archs}) {
    for (const PackPart& part : *parts) {
      text += fmt::format("  {:<12} {:>6} kernels {:>8.1f} MiB\n", part.name, part.kernels,
                          mib(part.bytes));
    }
  }
  text += fmt::format("{:<10} {:>8} {:>9} {:>10} {:>12} {:>10} {:>9} {:>12}\n", "target", "entries",
                      "find, us", "worst, us", "prepare, us", "worst, us", "all, ms",
                      counted(pack.threads, "thread"));
  for (const PackTarget& one : pack.targets) {
    text += fmt::format("{:<10} {:>8} {:>9.0f} {:>10.0f} {:>12.0f} {:>10.0f} {:>9.1f} {:>12.1f}\n",
                        one.target, one.entries, one.find_us, one.find_worst_us, one.prepare_us,
                        one.prepare_worst_us, one.all_ms, one.all_parallel_ms);
  }
  return text;
}

}  // namespace catenary::bench
