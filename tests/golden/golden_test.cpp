// SPDX-License-Identifier: Apache-2.0
// Plans and sources of the examples against files that were reviewed: a change of the planner or
// of emission shows as a diff. CATENARY_UPDATE_GOLDEN=1 rewrites the files.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/emit/emit.h"
#include "compiler/explain.h"
#include "ir/text/text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

using namespace catenary;

namespace {

const std::string kRoot = CATENARY_SOURCE_DIR;
const std::string kGolden = kRoot + "/tests/golden/";
constexpr const char* kExamples[] = {"geglu_mlp",  "grouped_linear", "moe_bias",
                                     "moe_linear", "pseudo_linear",  "small_batch"};
// Whole files for these; digests for every target.
constexpr const char* kShown[] = {"h200", "a100"};

std::string examples(const char* name) { return fmt::format("examples/{}", name); }

bool updating() { return std::getenv("CATENARY_UPDATE_GOLDEN") != nullptr; }

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Texts {
  std::string plan;
  std::string sources;  // every kernel of every bucket
};

// `path`: of the chain's text, from the repository's root and without its suffix.
Texts texts_of(const std::string& path, const Target& target) {
  Expected<Chain> chain = parse(read(kRoot + "/" + path + ".chain"));
  REQUIRE(static_cast<bool>(chain));
  Expected<VerifiedChain> verified = verify(std::move(*chain));
  REQUIRE(static_cast<bool>(verified));
  Expected<Plan> plan = make_plan(*verified, target);
  REQUIRE(static_cast<bool>(plan));
  Texts texts;
  texts.plan = explain_text(*verified, *plan);
  for (const PlanBucket& bucket : plan->buckets) {
    for (const KernelPlan& kernel : bucket.kernels) {
      texts.sources += emit(*verified, *plan, kernel).text() + "\n";
    }
  }
  return texts;
}

// The first line that differs, for a failure that says something.
void check_equal(const std::string& path, const std::string& got) {
  const std::string want = read(path);
  INFO(path, " differs; CATENARY_UPDATE_GOLDEN=1 rewrites it");
  std::istringstream want_lines(want);
  std::istringstream got_lines(got);
  std::string want_line, got_line;
  for (int number = 1; want != got; ++number) {
    const bool more = static_cast<bool>(std::getline(want_lines, want_line));
    const bool more_got = static_cast<bool>(std::getline(got_lines, got_line));
    if (!more) want_line = "<end of file>";
    if (!more_got) got_line = "<end of text>";
    if (want_line == got_line && more && more_got) continue;
    INFO("line ", number);
    CHECK(got_line == want_line);
    break;
  }
  CHECK(want == got);
}

void check_or_write(const std::string& name, const std::string& text) {
  const std::string path = kGolden + name;
  if (!updating()) return check_equal(path, text);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  REQUIRE(file.good());
}

}  // namespace

TEST_CASE("plans and sources of the examples") {
  for (const char* example : kExamples) {
    for (const char* name : kShown) {
      const Texts texts = texts_of(examples(example), *find_target(name));
      check_or_write(fmt::format("{}.{}.plan", example, name), texts.plan);
      check_or_write(fmt::format("{}.{}.cu", example, name), texts.sources);
    }
  }
}

TEST_CASE(
    "plans and sources of chains of tf32, with an odd K, of fp8, also with scales per block, with "
    "reductions, with three weights, with a norm inside, with rows reduced in the epilogue") {
  for (const char* name : {"tf32_linear", "odd_linear", "fp8_linear", "fp8_blocks", "softmax",
                           "three_weights", "layer_norm", "row_scales"}) {
    const Texts texts = texts_of(fmt::format("tests/chains/{}", name), *find_target("h200"));
    check_or_write(fmt::format("{}.h200.plan", name), texts.plan);
    check_or_write(fmt::format("{}.h200.cu", name), texts.sources);
  }
}

TEST_CASE("the plan of norms that keep their own kernels, and why") {
  const Texts texts = texts_of("tests/chains/layer_norm_apart", *find_target("h200"));
  check_or_write("layer_norm_apart.h200.plan", texts.plan);
}

TEST_CASE("quantised weights: a pair, three in one launch, experts, a matrix for each group") {
  for (const char* path : {"examples/int4_decode", "tests/chains/int4_three_weights",
                           "tests/chains/int4_experts", "tests/chains/int8_grouped"}) {
    const Texts texts = texts_of(path, *find_target("h200"));
    const std::string name = std::filesystem::path(path).filename().string();
    check_or_write(fmt::format("{}.h200.plan", name), texts.plan);
    check_or_write(fmt::format("{}.h200.cu", name), texts.sources);
  }
}

TEST_CASE("weights that may be rounded: packed for small M, rounded for large M, and on an A100") {
  for (const char* name : {"h100", "a100"}) {
    const Texts texts = texts_of("tests/chains/int4_rounded", *find_target(name));
    check_or_write(fmt::format("int4_rounded.{}.plan", name), texts.plan);
    check_or_write(fmt::format("int4_rounded.{}.cu", name), texts.sources);
  }
}

TEST_CASE("the backward of a gated MLP: several outputs, and one accumulator for dx") {
  for (const char* name : kShown) {
    const Texts texts = texts_of("tests/chains/gated_mlp_dgrad", *find_target(name));
    check_or_write(fmt::format("gated_mlp_dgrad.{}.plan", name), texts.plan);
    check_or_write(fmt::format("gated_mlp_dgrad.{}.cu", name), texts.sources);
  }
}

TEST_CASE("the plan of a small batch where shared memory is small, and where launches overlap") {
  for (const char* name : {"l4", "b200"}) {
    const Texts texts = texts_of(examples("small_batch"), *find_target(name));
    check_or_write(fmt::format("small_batch.{}.plan", name), texts.plan);
    check_or_write(fmt::format("small_batch.{}.cu", name), texts.sources);
  }
}

TEST_CASE("digests of the examples for every target") {
  std::string digests;
  for (const char* example : kExamples) {
    for (const Target& target : all_targets()) {
      const Texts texts = texts_of(examples(example), target);
      llvm::SHA256 hash;
      hash.update(texts.plan);
      hash.update(texts.sources);
      digests += fmt::format("{}  {} {}\n", llvm::toHex(hash.final(), /*LowerCase=*/true), example,
                             target.name);
    }
  }
  check_or_write("digests.txt", digests);
}
