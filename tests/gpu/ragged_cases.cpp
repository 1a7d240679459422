// SPDX-License-Identifier: Apache-2.0
// Handwritten ragged chains for `gemm_sm90`; see cases.h. Every kernel must be of that family.
// Groups are of equal size, empty, one with all rows, all empty, without the last rows, and with
// ends around the tile and the k-tile.
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {
namespace {

const std::vector<std::vector<i32>> kEnds4of600 = {
    {150, 300, 450, 600}, {0, 0, 600, 600},     {600, 600, 600, 600}, {0, 0, 0, 0},
    {1, 130, 131, 513},   {127, 255, 384, 593}, {128, 256, 384, 385}, {64, 127, 192, 257}};

// 256 groups over 600 rows: most have one to three rows, every fourth is empty.
std::vector<i32> many_ends() {
  std::vector<i32> ends;
  i32 end = 0;
  for (i32 group = 0; group < 256; ++group) {
    end += group % 4 == 1 ? 0 : group == 100 ? 140 : 1 + group % 3;
    ends.push_back(end < 590 ? end : 590);
  }
  return ends;
}

WrittenCase ragged(const char* name, std::string text, const char* tile,
                   std::vector<std::vector<i32>> ends = kEnds4of600) {
  return {name, std::move(text), {0}, std::move(ends), 0, tile, "gemm_sm90"};
}

std::string rows(const char* equation, const char* x, const char* w, int groups = 4) {
  return fmt::format(
      "chain a(input x: bf16[600, {}], weight w: bf16[{}, {}], weight b: bf16[264],\n"
      "        input e: i32[{}]) {{\n"
      "  y = contract \"{}\"(x, w) ragged m by e over e\n  z = relu(add(y, b))\n"
      "  return z: bf16 }}",
      x, groups, w, groups, equation);
}

std::string terms(const char* dtype, int groups = 4) {
  return fmt::format(
      "chain a(input d: {0}[600, 136], input x: {0}[600, 264], input e: i32[{1}]) {{\n"
      "  y = contract \"mn,mk->enk\"(d, x) ragged m by e over e\n  return y: f32 }}",
      dtype, groups);
}

std::string pair(const char* w) {
  return fmt::format(
      "chain a(input x: f16[600, 200], weight w: f16[4, {0}], weight v: f16[4, {0}],\n"
      "        input e: i32[4]) {{\n"
      "  g = contract \"{1}\"(x, w) ragged m by e over e\n"
      "  u = contract \"{1}\"(x, v) ragged m by e over e\n"
      "  h = mul(min(g, 1000), max(u, -1000))\n  return h: f32 }}",
      w, w[0] == '2' && w[1] == '0' ? "mk,ekn->mn" : "mk,enk->mn");
}

}  // namespace

std::vector<WrittenCase> ragged_cases_sm90() {
  const std::string forward = rows("mk,enk->mn", "200", "264, 200");
  const std::string backward = rows("mn,enk->mk", "136", "136, 264");
  const std::string two_loops =
      "chain a(input d: f16[3, 600, 72], input x: f16[3, 600, 136], input e: i32[4]) {\n"
      "  y = contract \"bmn,bmk->enk\"(d, x) ragged m by e over e\n  return y: f32 }";
  const std::string batch =
      "chain a(input x: bf16[3, 600, 72], weight w: bf16[3, 4, 136, 72], input e: i32[4]) {\n"
      "  y = contract \"bmk,benk->bmn\"(x, w) ragged m by e over e\n  return y: bf16 }";
  return {
      ragged("sm90 M-grouped, ping-pong in clusters", forward, "128x128x64p2s6c2"),
      ragged("sm90 M-grouped, cooperative in clusters", forward, "128x256x64g2s4c2"),
      ragged("sm90 M-grouped, one warpgroup", forward, "64x64x64g1s8"),
      ragged("sm90 M-grouped, weights along N", backward, "256x128x64g2s4c2"),
      ragged("sm90 M-grouped, 256 groups", rows("mk,enk->mn", "72", "264, 72", 256),
             "64x256x64p2s4", {many_ends()}),
      ragged("sm90 M-grouped in a batch", batch, "64x128x64p2s8"),
      ragged("sm90 ragged dual GEMM", pair("136, 200"), "128x64x64p2s6c2"),
      ragged("sm90 ragged dual GEMM, weights along N", pair("200, 136"), "128x128x64g2s4c2"),
      ragged("sm90 K-grouped, ping-pong in clusters", terms("bf16"), "128x128x64p2s6c2"),
      ragged("sm90 K-grouped, cooperative in clusters", terms("f16"), "128x256x64g2s4c2"),
      ragged("sm90 K-grouped, one warpgroup", terms("bf16"), "64x64x64g1s8"),
      ragged("sm90 K-grouped, 256 groups", terms("f16", 256), "64x256x64p2s4", {many_ends()}),
      ragged("sm90 K-grouped, two K loops", two_loops, "128x128x64g2s6"),
  };
}

}  // namespace catenary::gpu_suite
