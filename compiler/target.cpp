// SPDX-License-Identifier: Apache-2.0
#include "compiler/target.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "ir/names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace catenary {
namespace {

constexpr llvm::StringLiteral kDefaultTarget = "h200";

const std::vector<Target>& table() {
  static const std::vector<Target> rows = {
#define CATENARY_TARGET(name, arch, sms, ghz, smem_sm, smem_cta, l2, dram, tensor, tf32, f32)     \
  Target{                                                                                         \
      #name, #arch,  sms,  ghz, i64{smem_sm} * 1024, i64{smem_cta} * 1024, i64{l2} * 1024 * 1024, \
      dram,  tensor, tf32, f32},
#include "compiler/targets.def"
#undef CATENARY_TARGET
  };
  return rows;
}

// "sm_90a" -> 90; 0 when it is not an arch.
int parse_arch(std::string_view arch) {
  if (arch.substr(0, 3) != "sm_") return 0;
  return std::atoi(std::string(arch.substr(3)).c_str());
}

// " (did you mean 'h200'?)" for another spelling of a row: "NVIDIA H200", "H-200"; "90", "sm90",
// "9.0", "compute_90" for an arch. Else the nearest word, or "".
std::string meant(std::string_view text) {
  std::string letters;
  std::string digits;
  for (const char c : llvm::StringRef(text.data(), text.size()).lower()) {
    if (is_digit(c)) digits += c;
    if (is_letter(c) || is_digit(c)) letters += c;
  }
  const Target* named = nullptr;
  for (const Target& row : table()) {
    const bool longer = named == nullptr || row.name.size() > named->name.size();
    if (letters.find(row.name) != std::string::npos && longer) named = &row;
  }
  if (named != nullptr) return fmt::format(" (did you mean '{}'?)", named->name);
  // "v100" has the digits of an arch and names none.
  const llvm::StringRef word = llvm::StringRef(letters).rtrim("abcdef").rtrim("0123456789");
  const llvm::StringRef arch_words[] = {"", "sm", "compute", "cc"};
  const bool names_arch = llvm::is_contained(arch_words, word);
  std::vector<std::string_view> words;
  for (const Target& row : table()) {
    if (names_arch && std::to_string(row.compute_capability()) == digits) {
      return fmt::format(" (did you mean '{}'?)", row.arch);
    }
    words.insert(words.end(), {row.name, row.arch});
  }
  return suggestion(text, words);
}

}  // namespace

int Target::compute_capability() const { return parse_arch(arch); }

i64 Target::ctas_at_once(int cluster, int per_sm) const {
  constexpr i64 kFullGpc = 18, kSmallerGpc = 16;
  if (cluster <= 1) return i64{sm_count} * per_sm;
  const auto clusters = [&](i64 sms) { return sms * per_sm / cluster; };
  const i64 full = std::max<i64>(sm_count / kFullGpc - 1, 0);
  const i64 rest = sm_count - full * kFullGpc;
  const i64 smaller = std::min(rest, kSmallerGpc);
  const i64 all = full * clusters(kFullGpc) + clusters(smaller) + clusters(rest - smaller);
  return cluster * std::max<i64>(all, 1);
}

llvm::ArrayRef<Target> all_targets() { return table(); }

const Target& default_target() {
  static const Target& row =
      *llvm::find_if(table(), [](const Target& target) { return target.name == kDefaultTarget; });
  return row;
}

Expected<Target> find_target(std::string_view text) {
  for (const Target& row : table()) {
    if (row.name == text) return row;
  }
  // "sm_90" means its architecture-specific form.
  const auto has_arch = [&](const Target& row) {
    return row.arch == text || row.arch == fmt::format("{}a", text);
  };
  if (has_arch(default_target())) return default_target();
  if (const auto row = llvm::find_if(table(), has_arch); row != table().end()) return *row;
  std::string names;
  for (const Target& row : table()) {
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", row.name, row.arch);
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "unknown target {}{}: give a GPU's name or an arch; known are {}", quoted(text),
                    meant(text), names);
}

bool arch_runs_on(std::string_view arch, int cc) {
  const int built = parse_arch(arch);
  if (built == 0) return false;
  const char suffix = arch.back();
  if (suffix == 'a') return built == cc;
  return built / 10 == cc / 10 && built % 10 <= cc % 10;
}

}  // namespace catenary
