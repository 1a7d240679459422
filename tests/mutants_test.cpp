// SPDX-License-Identifier: Apache-2.0
// The simulator finds the bugs it is for: every mutant of a template is caught within 20 seeds,
// under a name that says what is wrong; the templates as they are pass under all of them.
// CATENARY_MUTANT_REPORT=<path> writes what caught which as a table (tests/mutants/REPORT.md).
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "compiler/templates.h"
#include "ir/parallel.h"
#include "llvm/ADT/StringExtras.h"
#include "tests/mutants/bases.h"
#include "tests/mutants/elementwise_mutants.h"
#include "tests/mutants/gemm_mutants.h"
#include "tests/support/sim_chain.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

constexpr u64 kSeeds = 20;

const MutantBase* find_base(llvm::StringRef name) {
  const auto* it = llvm::find_if(kMutantBases, [&](const MutantBase& b) { return name == b.name; });
  return it == std::end(kMutantBases) ? nullptr : it;
}

std::vector<Mutant> all_mutants() {
  std::vector<Mutant> all(std::begin(kGemmMutants), std::end(kGemmMutants));
  all.insert(all.end(), std::begin(kElementwiseMutants), std::end(kElementwiseMutants));
  return all;
}

const char* template_text(llvm::StringRef name) {
  for (const EmbeddedTemplate& header : embedded_templates()) {
    if (name == header.name) return header.text;
  }
  return nullptr;
}

// The template with the fault in it; empty if the text does not stand there as the row says.
std::string mutate(const Mutant& mutant) {
  const char* original = template_text(mutant.file);
  if (original == nullptr) return "";
  std::string text = original;
  size_t at = std::string::npos;
  int count = 0;
  for (size_t from = text.find(mutant.text); from != std::string::npos;
       from = text.find(mutant.text, from + 1)) {
    if (++count == std::max(mutant.occurrence, 1)) at = from;
  }
  if (at == std::string::npos || (mutant.occurrence == 0 && count != 1)) return "";
  return text.replace(at, llvm::StringRef(mutant.text).size(), mutant.in_place);
}

Expected<SimulatedChain> make_base(const MutantBase& base, const HostCompiler* compiler) {
  SimulatedChainOptions options;
  options.plan.force_tile = base.tile;
  options.plan.split_k = base.split_k;
  options.symbol = base.symbol;
  options.ends = base.ends.vec();
  options.compiler = compiler;
  return SimulatedChain::make(base.chain, options);
}

// The first seed under which something is wrong.
struct Caught {
  u64 seed = 0;  // 0: none of them
  SimulatedOutcome outcome;
};

Caught run_seeds(const SimulatedChain& chain) {
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    SimulatedOutcome outcome = chain.run(seed);
    if (!outcome.name.empty()) return {seed, std::move(outcome)};
  }
  return {};
}

// Writes the mutant below `folder`, compiles its base over it, runs it.
Caught run_mutant(const Mutant& mutant, const HostCompiler& compiler, const std::string& folder) {
  const std::filesystem::path path = folder + "/" + mutant.file;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "#line 1 \"" << mutant.file << "\"\n" << mutate(mutant);
  const HostCompiler over = compiler.over(folder);
  auto chain = make_base(*find_base(mutant.base), &over);
  if (!chain) return {1, outcome_of(chain.takeError())};
  return run_seeds(*chain);
}

bool is_expected(const Mutant& mutant, const std::string& name) {
  llvm::SmallVector<llvm::StringRef, 4> names;
  llvm::SplitString(mutant.faults, names);
  return llvm::is_contained(names, name);
}

// A message without the rule behind it or the second example, fit for a table.
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
  file << "# What the simulator says of each mutant\n\n"
          "Generated; do not edit. A mutant is a template with one planted fault (the rows of "
          "`*_mutants.h`), run with seeds 1, 2, ... until something is wrong. To write this "
          "table again:\n\n"
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
  TEST_CASE("every row names a base, a template and a text that stands there") {
    std::set<std::string> names;
    for (const Mutant& mutant : all_mutants()) {
      CAPTURE(mutant.name);
      CHECK(names.insert(mutant.name).second);
      CHECK(find_base(mutant.base) != nullptr);
      const std::string text = mutate(mutant);
      CHECK(!text.empty());
      CHECK(text != template_text(mutant.file));
    }
    CHECK(names.size() >= 24);
  }

  TEST_CASE("templates as they are pass under every seed") {
    const HostCompiler& host = compiler();
    std::vector<Caught> caught(std::size(kMutantBases));
    parallel_for(static_cast<i64>(caught.size()), 0, [&](i64 i) {
      auto chain = make_base(kMutantBases[i], &host);
      caught[i] = chain ? run_seeds(*chain) : Caught{1, outcome_of(chain.takeError())};
    });
    for (size_t i = 0; i < caught.size(); ++i) {
      const std::string text = fmt::format("{}, seed {}: {}", kMutantBases[i].name, caught[i].seed,
                                           caught[i].outcome.message);
      CHECK_MESSAGE(caught[i].outcome.name == "", text);
    }
  }

  TEST_CASE("every mutant is caught by name") {
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
          fmt::format("{} is to be caught by {}; seed {} gives '{}': {}", mutants[i].name,
                      mutants[i].faults, caught[i].seed, outcome.name, outcome.message);
      CHECK_MESSAGE(is_expected(mutants[i], outcome.name), text);
    }
    if (const char* path = std::getenv("CATENARY_MUTANT_REPORT")) {
      write_report(path, mutants, caught);
    }
  }
}
