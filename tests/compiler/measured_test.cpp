// SPDX-License-Identifier: Apache-2.0
// The table of measured choices: which problems its rows name, when a row is taken, and that every
// shipped row names a candidate.
#include <doctest/doctest.h>

#include "compiler/families/problem.h"
#include "compiler/fusion/fuse.h"
#include "tests/support/gemm_sm90_plan.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

std::string layer(i64 m, i64 n, i64 k, bool dual = false) {
  const std::string head =
      fmt::format("chain a(input x: bf16[{0}, {2}], weight w: bf16[{1}, {2}]", m, n, k);
  const std::string product = "contract \"mk,nk->mn\"(x, w)";
  if (!dual) return head + ") {\n  y = relu(" + product + ")\n  return y: bf16 }";
  return head + fmt::format(", weight v: bf16[{}, {}]) {{\n", n, k) + "  g = " + product +
         "\n  u = contract \"mk,nk->mn\"(x, v)\n  y = mul(silu(g), u)\n  return y: bf16 }";
}

PlanOptions inside() {
  PlanOptions options;
  options.prefer_inside = true;
  return options;
}

// A candidate that the cost model does not choose, of the same family. Norms are inside.
CandidateId runner_up(const std::string& text) {
  const Plan plan = planned(text, inside());
  for (const CandidateSummary& candidate : first_kernel(plan).candidates) {
    if (candidate.rejected.empty() && !candidate.chosen) return candidate.id;
  }
  return {};
}

CandidateId chosen_by(const std::string& text, const std::vector<MeasuredRow>& rows,
                      const char* target = "h200") {
  PlanOptions options = inside();
  options.measured = rows;
  return first_kernel(planned(text, options, target)).candidate;
}

}  // namespace

TEST_CASE("a row of the shape is taken, whatever the epilogue") {
  const std::string text = layer(64, 4096, 512);
  const CandidateId other = runner_up(text);
  const std::vector<MeasuredRow> rows = {{"h200", "16-bit 64x4096x512", other, 3, 4}};
  CHECK(chosen_by(text, rows) == other);
  CHECK(chosen_by(text, {}) != other);
  PlanOptions options;
  options.measured = rows;
  const Plan plan = planned(text, options);
  CHECK(first_kernel(plan).tuned.find("3.00 us measured for 16-bit 64x4096x512 on h200") == 0);
  // The list for `explain` and for tuning is whole.
  CHECK(first_kernel(plan).candidates.size() > 10);
}

TEST_CASE("a layer with a norm or a gain inside is another one") {
  const std::string norm =
      "chain a(input x: bf16[16, 3328], weight w: bf16[3328, 3328]) {\n"
      "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.000279), 0.00001))\n"
      "  y = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n  return y: bf16 }";
  const std::string gain =
      "chain a(input x: bf16[16, 3328], weight g: bf16[3328], weight w: bf16[3328, 3328]) {\n"
      "  h = cast(mul(x @ \"mk\", g @ \"k\"), bf16)\n"
      "  y = contract \"mk,nk->mn\"(h, w)\n  return y: bf16 }";
  for (const std::string& text : {norm, gain}) {
    CAPTURE(text);
    REQUIRE(planned(text, inside()).buckets[0].kernels.size() == 1);
    const std::vector<MeasuredRow> rows = {{"h200", "16-bit 16x3328x3328", runner_up(text), 3, 4}};
    CHECK(chosen_by(text, rows) == chosen_by(text, {}));
  }
}

TEST_CASE("M counts in multiples of 8, but not up to 8") {
  const CandidateId other = runner_up(layer(64, 4096, 512));
  const std::vector<MeasuredRow> rows = {{"h200", "16-bit 64x4096x512", other, 3, 4}};
  CHECK(chosen_by(layer(57, 4096, 512), rows) == other);
  CHECK(chosen_by(layer(56, 4096, 512), rows) == chosen_by(layer(56, 4096, 512), {}));
  const CandidateId few = runner_up(layer(8, 4096, 512));
  const std::vector<MeasuredRow> eight = {{"h200", "16-bit 8x4096x512", few, 3, 4}};
  CHECK(chosen_by(layer(8, 4096, 512), eight) == few);
  CHECK(chosen_by(layer(7, 4096, 512), eight) == chosen_by(layer(7, 4096, 512), {}));
}

TEST_CASE("a row is not taken for another GPU, a rejected candidate, a forced tile or a record") {
  const std::string text = layer(64, 4096, 512);
  const CandidateId other = runner_up(text);
  const std::vector<MeasuredRow> rows = {{"h200", "16-bit 64x4096x512", other, 3, 4}};
  CHECK(chosen_by(text, rows, "h100") == chosen_by(text, {}, "h100"));
  Target part = llvm::cantFail(find_target("h200"));
  part.sm_count = 60;
  PlanOptions options;
  options.measured = rows;
  const Plan on_part = llvm::cantFail(make_plan(verified(text), part, options));
  CHECK(first_kernel(on_part).tuned.empty());
  const std::string signature = first_kernel(planned(text)).signature;
  options.rejected = {{signature, other}};
  CHECK(first_kernel(planned(text, options)).candidate != other);
  options.rejected = {};
  options.tuned = [&](const std::string&) {
    return TunedChoice{chosen_by(text, {}), "of this user"};
  };
  CHECK(first_kernel(planned(text, options)).tuned == "of this user");
  options.tuned = nullptr;
  options.force_tile = chosen_by(text, {}).tile;
  CHECK(first_kernel(planned(text, options)).tuned.empty());
}

TEST_CASE("layouts that no row names") {
  const std::string chains[] = {
      // A symbol; a batch; B as an input; B along N; rows of a wider tensor; two outputs.
      "chain a[M in 1..64](input x: bf16[M, 512], weight w: bf16[4096, 512]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
      "chain a(input x: bf16[2, 64, 512], weight w: bf16[2, 4096, 512]) {\n"
      "  y = contract \"bmk,bnk->bmn\"(x, w)\n  return y: bf16 }",
      "chain a(input x: bf16[64, 512], input w: bf16[4096, 512]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
      "chain a(input x: bf16[64, 512], weight w: bf16[512, 4096]) {\n"
      "  y = contract \"mk,kn->mn\"(x, w)\n  return y: bf16 }",
      "chain a(input x: bf16[64, 512] strides[1024, 1], weight w: bf16[4096, 512]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
      "chain a(input x: bf16[64, 512], weight w: bf16[4096, 512]) {\n"
      "  h = contract \"mk,nk->mn\"(x, w)\n  y = relu(h)\n  return y: bf16, h: bf16 }"};
  for (const std::string& text : chains) {
    CAPTURE(text);
    const Plan plan = planned(text);
    std::vector<MeasuredRow> rows;
    for (const std::string shape : {"16-bit 64x4096x512", "16-bit 128x4096x512"}) {
      for (const CandidateSummary& candidate : first_kernel(plan).candidates) {
        rows.push_back({"h200", shape, candidate.id, 3, 4});
      }
    }
    PlanOptions options;
    options.measured = rows;
    CHECK(first_kernel(planned(text, options)).tuned.empty());
  }
}

TEST_CASE("a dual GEMM and tf32 have rows of their own") {
  const std::string text = layer(64, 4096, 512, true);
  const CandidateId other = runner_up(text);
  CHECK(chosen_by(text, {{"h200", "16-bit 64x4096x512 dual", other, 3, 4}}) == other);
  CHECK(chosen_by(text, {{"h200", "16-bit 64x4096x512", other, 3, 4}}) != other);
  std::string tf32 = layer(64, 4096, 512);
  for (size_t at = 0; (at = tf32.find("bf16", at)) != std::string::npos;)
    tf32.replace(at, 4, "f32");
  const CandidateId narrow = runner_up(tf32);
  CHECK(chosen_by(tf32, {{"h200", "tf32 64x4096x512", narrow, 3, 4}}) == narrow);
}

// A row whose candidate the cost model does not list has no effect.
TEST_CASE("nearly every shipped row names a candidate of its shape that its GPU can run") {
  size_t unlisted = 0;
  for (const MeasuredRow& row : measured_rows()) {
    CAPTURE(row.shape);
    long m = 0, n = 0, k = 0;
    REQUIRE(std::sscanf(row.shape.c_str(), "16-bit %ldx%ldx%ld", &m, &n, &k) == 3);
    const bool dual = row.shape.find(" dual") != std::string::npos;
    const Plan plan = planned(layer(m, n, k, dual), {}, row.target.c_str());
    if (first_kernel(plan).candidate != row.id) ++unlisted;
    CHECK(row.us < row.model_us);
  }
  CHECK(unlisted * 50 < measured_rows().size());
}
