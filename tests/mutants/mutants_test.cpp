// SPDX-License-Identifier: Apache-2.0
// Mutation test of the simulator: every mutant of a template is caught within 20 seeds, with a
// fault name that fits; the original templates pass under all seeds. CATENARY_MUTANT_REPORT=<path>
// writes the table tests/mutants/REPORT.md.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <set>

#include "compiler/compile/templates.h"
#include "ir/parallel.h"
#include "llvm/ADT/StringExtras.h"
#include "tests/mutants/bases.h"
#include "tests/mutants/beside_mutants.h"
#include "tests/mutants/cluster_mutants.h"
#include "tests/mutants/column_sums_mutants.h"
#include "tests/mutants/cp_async_mutants.h"
#include "tests/mutants/dequantise_mutants.h"
#include "tests/mutants/elementwise_mutants.h"
#include "tests/mutants/formed_mutants.h"
#include "tests/mutants/fp8_blocks_mutants.h"
#include "tests/mutants/fp8_mutants.h"
#include "tests/mutants/gain_mutants.h"
#include "tests/mutants/gemm_dequant_mutants.h"
#include "tests/mutants/gemm_dequant_sums_mutants.h"
#include "tests/mutants/gemm_mutants.h"
#include "tests/mutants/gemm_sm90_mutants.h"
#include "tests/mutants/group_ends_mutants.h"
#include "tests/mutants/group_operand_mutants.h"
#include "tests/mutants/hopper_mutants.h"
#include "tests/mutants/matrix_operands_mutants.h"
#include "tests/mutants/quantised_bases.h"
#include "tests/mutants/ragged_mutants.h"
#include "tests/mutants/row_reductions_mutants.h"
#include "tests/mutants/skinny_dequant_groups_mutants.h"
#include "tests/mutants/skinny_dequant_mutants.h"
#include "tests/mutants/skinny_mutants.h"
#include "tests/mutants/skinny_ragged_mutants.h"
#include "tests/mutants/skinny_shares_mutants.h"
#include "tests/mutants/squares_mutants.h"
#include "tests/mutants/sum_mutants.h"
#include "tests/mutants/transposed_mutants.h"
#include "tests/support/sim_chain.h"
#include "tests/support/sim_hopper_gemm.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

constexpr u64 kSeeds = 20;

// Runs a base, or a mutant of it, with one seed.
using Program = std::function<SimulatedOutcome(u64 seed)>;

llvm::ArrayRef<MutantBase> mutant_bases() {
  static const std::vector<MutantBase> all = [] {
    std::vector<MutantBase> bases(std::begin(kMutantBases), std::end(kMutantBases));
    bases.insert(bases.end(), std::begin(kQuantisedMutantBases), std::end(kQuantisedMutantBases));
    bases.insert(bases.end(), std::begin(kRowReductionsBases), std::end(kRowReductionsBases));
    bases.insert(bases.end(), std::begin(kDequantiseBases), std::end(kDequantiseBases));
    return bases;
  }();
  return all;
}

std::vector<std::string> all_bases() {
  std::vector<std::string> names = {kHopper, kHopperCluster};
  for (const MutantBase& base : mutant_bases()) names.push_back(base.name);
  return names;
}

std::vector<Mutant> all_mutants() {
  std::vector<Mutant> all(std::begin(kGemmMutants), std::end(kGemmMutants));
  all.insert(all.end(), std::begin(kGemmSm90Mutants), std::end(kGemmSm90Mutants));
  all.insert(all.end(), std::begin(kFp8Mutants), std::end(kFp8Mutants));
  all.insert(all.end(), std::begin(kFp8BlocksMutants), std::end(kFp8BlocksMutants));
  all.insert(all.end(), std::begin(kCpAsyncMutants), std::end(kCpAsyncMutants));
  all.insert(all.end(), std::begin(kRaggedMutants), std::end(kRaggedMutants));
  all.insert(all.end(), std::begin(kSumMutants), std::end(kSumMutants));
  all.insert(all.end(), std::begin(kColumnSumsMutants), std::end(kColumnSumsMutants));
  all.insert(all.end(), std::begin(kRowReductionsMutants), std::end(kRowReductionsMutants));
  all.insert(all.end(), std::begin(kMatrixOperandsMutants), std::end(kMatrixOperandsMutants));
  all.insert(all.end(), std::begin(kClusterMutants), std::end(kClusterMutants));
  all.insert(all.end(), std::begin(kTransposedMutants), std::end(kTransposedMutants));
  all.insert(all.end(), std::begin(kElementwiseMutants), std::end(kElementwiseMutants));
  all.insert(all.end(), std::begin(kHopperMutants), std::end(kHopperMutants));
  all.insert(all.end(), std::begin(kSquaresMutants), std::end(kSquaresMutants));
  all.insert(all.end(), std::begin(kFormedMutants), std::end(kFormedMutants));
  all.insert(all.end(), std::begin(kGainMutants), std::end(kGainMutants));
  all.insert(all.end(), std::begin(kSkinnyMutants), std::end(kSkinnyMutants));
  all.insert(all.end(), std::begin(kSkinnyDequantMutants), std::end(kSkinnyDequantMutants));
  all.insert(all.end(), std::begin(kDequantGroupsMutants), std::end(kDequantGroupsMutants));
  all.insert(all.end(), std::begin(kGemmDequantMutants), std::end(kGemmDequantMutants));
  all.insert(all.end(), std::begin(kGemmDequantSumsMutants), std::end(kGemmDequantSumsMutants));
  all.insert(all.end(), std::begin(kDequantiseMutants), std::end(kDequantiseMutants));
  all.insert(all.end(), std::begin(kSkinnyRaggedMutants), std::end(kSkinnyRaggedMutants));
  all.insert(all.end(), std::begin(kSkinnySharesMutants), std::end(kSkinnySharesMutants));
  all.insert(all.end(), std::begin(kGroupOperandMutants), std::end(kGroupOperandMutants));
  all.insert(all.end(), std::begin(kGroupEndsMutants), std::end(kGroupEndsMutants));
  all.insert(all.end(), std::begin(kBesideMutants), std::end(kBesideMutants));
  return all;
}

std::string original_text(llvm::StringRef file) {
  if (file == kHopperFile) return hopper_gemm_text();
  for (const EmbeddedTemplate& header : embedded_templates()) {
    if (file == header.name) return header.text;
  }
  return "";
}

// The first occurrence of `wanted` in `text` from `from` on, as [begin, end); npos: none. White
// space is ignored, so that reformatting a template does not change its mutants.
std::pair<size_t, size_t> find_code(llvm::StringRef text, llvm::StringRef wanted, size_t from) {
  const auto skip = [](llvm::StringRef s, size_t at) {
    while (at < s.size() && llvm::isSpace(s[at])) ++at;
    return at;
  };
  const size_t first = skip(wanted, 0);
  for (size_t begin = from; begin < text.size(); ++begin) {
    size_t at = begin;
    size_t w = first;
    while (w < wanted.size() && at < text.size() && text[at] == wanted[w]) {
      w = skip(wanted, w + 1);
      ++at;
      if (w < wanted.size()) at = skip(text, at);
    }
    if (w == wanted.size()) return {begin, at};
  }
  return {std::string::npos, 0};
}

// The file with the fault planted; empty if the original text does not occur as the row says.
std::string mutate(const Mutant& mutant) {
  std::string text = original_text(mutant.file);
  std::pair<size_t, size_t> place = {std::string::npos, 0};
  int count = 0;
  for (auto next = find_code(text, mutant.text, 0); next.first != std::string::npos;
       next = find_code(text, mutant.text, next.first + 1)) {
    if (++count == std::max(mutant.occurrence, 1)) place = next;
  }
  if (place.first == std::string::npos || (mutant.occurrence == 0 && count != 1)) return "";
  return text.replace(place.first, place.second - place.first, mutant.in_place);
}

Expected<Program> chain_program(const MutantBase& base, const HostCompiler& compiler) {
  SimulatedChainOptions options;
  options.plan.prefer_inside = true;
  options.plan.force_tile = base.tile;
  options.plan.split_k = base.split_k;
  options.symbol = base.symbol;
  options.ends = base.ends.vec();
  options.sm_count = base.sm_count;
  options.nan_rows = base.nan_rows.vec();
  options.fill = base.fill;
  if (!base.nan_rows.empty()) options.fill = FillKind::kNormal;
  options.compiler = &compiler;
  auto made = SimulatedChain::make(base.chain, options);
  if (!made) return made.takeError();
  auto chain = std::make_shared<SimulatedChain>(std::move(*made));
  return Program([chain](u64 seed) { return chain->run(seed); });
}

Expected<Program> hopper_program(const std::string& text, bool cluster,
                                 const HostCompiler& compiler) {
  HopperGemmOptions options;
  options.cluster = cluster;
  auto made = HopperGemm::make(text, options, compiler);
  if (!made) return made.takeError();
  auto gemm = std::make_shared<HopperGemm>(std::move(*made));
  return Program([gemm](u64 seed) { return gemm->run(seed); });
}

// The base of that name. `hopper`: the kernel's text for the bases that are not chains.
Expected<Program> make_program(llvm::StringRef base, const HostCompiler& compiler,
                               const std::string& hopper = hopper_gemm_text()) {
  if (base == kHopper || base == kHopperCluster) {
    return hopper_program(hopper, base == kHopperCluster, compiler);
  }
  const auto it =
      llvm::find_if(mutant_bases(), [&](const MutantBase& b) { return base == b.name; });
  return chain_program(*it, compiler);
}

// The first seed that gives a fault, and the fault.
struct Caught {
  u64 seed = 0;  // 0: none of them
  SimulatedOutcome outcome;
};

Caught run_seeds(Expected<Program> program) {
  if (!program) return {1, outcome_of(program.takeError())};
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    SimulatedOutcome outcome = (*program)(seed);
    if (!outcome.name.empty()) return {seed, std::move(outcome)};
  }
  return {};
}

// Writes the mutated template below `folder` and compiles its base with it.
Caught run_mutant(const Mutant& mutant, const HostCompiler& compiler, const std::string& folder) {
  const std::string text = mutate(mutant);
  if (llvm::StringRef(mutant.file) == kHopperFile) {
    return run_seeds(make_program(mutant.base, compiler, text));
  }
  const std::filesystem::path path = folder + "/" + mutant.file;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "#line 1 \"" << mutant.file << "\"\n" << text;
  const HostCompiler over = compiler.over(folder);
  return run_seeds(make_program(mutant.base, over));
}

bool is_expected(const Mutant& mutant, const std::string& name) {
  llvm::SmallVector<llvm::StringRef, 4> names;
  llvm::SplitString(mutant.faults, names);
  return llvm::is_contained(names, name);
}

// The message without its rule and second example, for a table.
std::string first_sentence(const SimulatedOutcome& outcome) {
  std::string text = outcome.message;
  for (const std::string& end : {" [" + outcome.name + ":", std::string("; worst")}) {
    text = text.substr(0, text.rfind(end));
  }
  return text;
}

void write_report(const std::string& path, const std::vector<Mutant>& mutants,
                  const std::vector<Caught>& caught) {
  std::ofstream file(path);
  file << "# Mutants and the faults that the simulator reports\n\n"
          "Generated; do not edit. A mutant is a kernel with one planted fault (the rows of "
          "`*_mutants.h`), run with seeds 1, 2, ... until a fault is reported. To regenerate this "
          "table:\n\n"
          "    CATENARY_MUTANT_REPORT=tests/mutants/REPORT.md build/tests/mutants_test\n\n"
          "| mutant | planted | run in | caught by | seed | message |\n"
          "|---|---|---|---|---|---|\n";
  for (size_t i = 0; i < mutants.size(); ++i) {
    const Mutant& m = mutants[i];
    file << "| `" << m.name << "` | " << m.planted << " | " << m.base << " | "
         << caught[i].outcome.name << " | " << caught[i].seed << " | "
         << first_sentence(caught[i].outcome) << " |\n";
  }
}

const HostCompiler& compiler() {
  auto found = HostCompiler::get();
  REQUIRE_MESSAGE(bool(found), "no host compiler");
  return **found;
}

}  // namespace

TEST_SUITE("mutants") {
  TEST_CASE("every row names a base, a template and a text that occurs in it") {
    const std::vector<std::string> bases = all_bases();
    std::set<std::string> names;
    for (const Mutant& mutant : all_mutants()) {
      INFO(std::string(mutant.name));
      CHECK(names.insert(mutant.name).second);
      CHECK(llvm::is_contained(bases, mutant.base));
      const std::string text = mutate(mutant);
      CHECK(!text.empty());
      CHECK(text != original_text(mutant.file));
    }
    CHECK(names.size() >= 24);
  }

  TEST_CASE("the report has a row for each mutant") {
    std::ifstream file(CATENARY_SOURCE_DIR "/tests/mutants/REPORT.md");
    std::set<std::string> rows;
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("| `", 0) == 0) rows.insert(line.substr(3, line.find('`', 3) - 3));
    }
    std::set<std::string> names;
    for (const Mutant& mutant : all_mutants()) names.insert(mutant.name);
    CHECK(rows == names);
  }

  TEST_CASE("the original templates pass under every seed") {
    const HostCompiler& host = compiler();
    const std::vector<std::string> bases = all_bases();
    std::vector<Caught> caught(bases.size());
    parallel_for(static_cast<i64>(bases.size()), 0,
                 [&](i64 i) { caught[i] = run_seeds(make_program(bases[i], host)); });
    for (size_t i = 0; i < caught.size(); ++i) {
      const std::string text =
          fmt::format("{}, seed {}: {}", bases[i], caught[i].seed, caught[i].outcome.message);
      CHECK_MESSAGE(caught[i].outcome.name == "", text);
    }
  }

  TEST_CASE("every mutant is caught with an expected fault name") {
    const HostCompiler& host = compiler();
    const std::vector<Mutant> mutants = all_mutants();
    const test::TempDir folder;
    std::vector<Caught> caught(mutants.size());
    parallel_for(static_cast<i64>(mutants.size()), 0, [&](i64 i) {
      caught[i] = run_mutant(mutants[i], host, folder / mutants[i].name);
    });
    for (size_t i = 0; i < mutants.size(); ++i) {
      const SimulatedOutcome& outcome = caught[i].outcome;
      const std::string text =
          fmt::format("{} is expected to be caught by {}; seed {} gives '{}': {}", mutants[i].name,
                      mutants[i].faults, caught[i].seed, outcome.name, outcome.message);
      CHECK_MESSAGE(is_expected(mutants[i], outcome.name), text);
    }
    if (const char* path = std::getenv("CATENARY_MUTANT_REPORT")) {
      write_report(path, mutants, caught);
    }
  }
}
