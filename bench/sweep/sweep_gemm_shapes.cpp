// SPDX-License-Identifier: Apache-2.0
// Which shapes the sweep of large contractions times, and which tiles of each.
#include <algorithm>

#include "bench/cases/cases.h"
#include "bench/sweep/sweep_gemm.h"

namespace catenary::bench {
namespace {

// Above this a shape is a multiple of one below it, and takes milliseconds per launch.
constexpr double kMostFlops = 1.2e12;

constexpr GemmShape kOthers[] = {
    // Layers of models, most of them narrow in one dimension.
    {1, 8192, 3072, 768},
    {1, 512, 11008, 4096},
    {1, 256, 14336, 4096},
    {1, 128, 28672, 4096},
    {1, 2048, 5120, 5120},
    {1, 4096, 13824, 5120},
    {1, 1024, 7168, 7168},
    {1, 8192, 2304, 768},
    {1, 16384, 768, 3072},
    {1, 384, 6144, 6144},
    {1, 1536, 2048, 11008},
    {1, 96, 8192, 28672},
    {1, 192, 4096, 14336},
    {1, 320, 8192, 8192},
    {1, 640, 3584, 18944},
    {1, 768, 5120, 13824},
    {1, 2048, 2560, 9728},
    {1, 4096, 1536, 8960},
    {1, 6144, 4096, 4096},
    {1, 12288, 1024, 4096},
    // Sizes that fit no tile.
    {1, 100, 4096, 4096},
    {1, 300, 5120, 1536},
    {1, 777, 2056, 1000},
    {1, 1111, 4104, 2504},
    {1, 2049, 2048, 2048},
    {1, 4097, 4096, 512},
    {1, 5000, 1000, 3000},
    {1, 129, 16384, 512},
    {1, 65, 8200, 8200},
    {1, 8193, 264, 4096},
    {1, 3333, 3336, 3336},
    {1, 1920, 1080, 1024},
    // Batches.
    {12, 2560, 3072, 1024},
    {8, 512, 512, 512},
    {32, 128, 1024, 1024},
    {64, 256, 256, 128},
    {4, 4096, 4096, 1024},
    {16, 1024, 1024, 64},
    {3, 1000, 2000, 4000},
    {96, 64, 768, 3072},
    {24, 512, 2048, 2048},
    {8, 2048, 768, 768},
    {48, 384, 640, 1280},
    {6, 4096, 512, 4096},
    // Gated pairs.
    {1, 8192, 4096, 4096, true},
    {1, 8192, 3072, 768, true},
    {1, 512, 11008, 4096, true},
    {1, 256, 14336, 4096, true},
    {1, 128, 14336, 4096, true},
    {1, 64, 11008, 4096, true},
    {1, 1024, 5632, 2048, true},
    {1, 4096, 2816, 1024, true},
    {1, 2048, 8192, 2048, true},
    {1, 1000, 3000, 1000, true},
    {12, 2560, 3072, 1024, true},
    {1, 192, 8192, 3584, true},
    {1, 3072, 6144, 2048, true},
    {4, 1024, 2816, 1024, true},
};

// Tiles that are timed whatever is predicted of them: block_m x block_n (of both halves of a gated
// pair), ping-pong or cooperative.
struct FixedTile {
  int block_m, block_n;
  bool ping_pong;
};
constexpr FixedTile kFixed[] = {{128, 256, false}, {128, 128, true}, {64, 128, true}};

double flops(const GemmShape& s) {
  return (s.gated ? 4.0 : 2.0) * static_cast<double>(s.batch) * s.m * s.n * s.k;
}

}  // namespace

GemmSweepOptions quick_gemm_sweep() {
  GemmSweepOptions options;
  options.timing.rounds = 3;
  options.timing.batch_us = 300;
  return options;
}

std::vector<GemmShape> gemm_sweep_shapes(int shard, int shards) {
  constexpr i64 kRows[] = {64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
  constexpr i64 kSizes[] = {256, 512, 1024, 2048, 4096, 8192, 16384};
  std::vector<GemmShape> all;
  for (size_t m = 0; m < std::size(kRows); ++m) {
    for (size_t n = 0; n < std::size(kSizes); ++n) {
      for (size_t k = 0; k < std::size(kSizes); ++k) {
        const GemmShape shape{1, kRows[m], kSizes[n], kSizes[k]};
        // A third of each plane, along diagonals.
        if ((m + n + 2 * k) % 3 == 0 && flops(shape) <= kMostFlops) all.push_back(shape);
      }
    }
  }
  all.insert(all.end(), std::begin(kOthers), std::end(kOthers));
  std::vector<GemmShape> part;
  for (size_t i = 0; i < all.size(); ++i) {
    if (static_cast<int>(i) % shards == shard - 1) part.push_back(all[i]);
  }
  return part;
}

std::string gemm_shape_text(const GemmShape& s) {
  const std::string batch = s.batch > 1 ? fmt::format("{}, ", s.batch) : "";
  const std::string x = fmt::format("input x: bf16[{}{}, {}]", batch, s.m, s.k);
  const std::string w = fmt::format("bf16[{}{}, {}]", batch, s.n, s.k);
  const char* equation = s.batch > 1 ? "bmk,bnk->bmn" : "mk,nk->mn";
  if (!s.gated) {
    return fmt::format(
        "chain gemm({}, weight w: {}) {{\n  y = contract \"{}\"(x, w)\n  return y: bf16\n}}\n", x,
        w, equation);
  }
  return fmt::format(
      "chain gated({0}, weight wg: {1}, weight wu: {1}) {{\n  g = contract \"{2}\"(x, wg)\n"
      "  u = contract \"{2}\"(x, wu)\n  y = mul(silu(g), u)\n  return y: bf16\n}}\n",
      x, w, equation);
}

Case gemm_shape_case(const GemmShape& s) {
  Case c;
  c.group = "gemm";
  c.dtype = "bf16";
  c.epilogue = s.gated ? "swiglu" : "none";
  c.shape =
      fmt::format("{}{}x{}x{}", s.batch > 1 ? fmt::format("b{}x", s.batch) : "", s.m, s.n, s.k);
  c.name = fmt::format("gemm/{}/{}", c.shape, c.epilogue);
  c.chain = gemm_shape_text(s);
  c.flops = flops(s);
  if (s.batch == 1 && !s.gated) c.rows = s.m;
  return c;
}

std::vector<TileOption> tiles_to_time(llvm::ArrayRef<TileOption> tiles, const GemmShape& shape,
                                      const GemmSweepOptions& options) {
  std::vector<TileOption> ranked;
  for (const TileOption& tile : tiles) {
    // gemm_sm90 lists its rivals of gemm_sm80 again.
    const bool known = llvm::any_of(ranked, [&](const TileOption& other) {
      return other.name == tile.name && other.split_k == tile.split_k;
    });
    if (tile.rejected.empty() && !known) ranked.push_back(tile);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const TileOption& a, const TileOption& b) {
    return a.chosen != b.chosen ? a.chosen : a.us < b.us;
  });
  const size_t first = std::min(ranked.size(), static_cast<size_t>(options.top) + 1);
  std::vector<TileOption> timed(ranked.begin(),
                                ranked.begin() + static_cast<std::ptrdiff_t>(first));
  if (!options.fixed) return timed;
  for (const FixedTile& fixed : kFixed) {
    const std::string prefix =
        fmt::format("{}x{}x64{}", fixed.block_m, fixed.block_n / (shape.gated ? 2 : 1),
                    fixed.ping_pong ? "p" : "g");
    const auto is_fixed = [&](const TileOption& tile) {
      return tile.split_k == 1 && llvm::StringRef(tile.name).startswith(prefix);
    };
    if (llvm::any_of(timed, is_fixed)) continue;
    const auto found = llvm::find_if(ranked, is_fixed);
    if (found != ranked.end()) timed.push_back(*found);
  }
  return timed;
}

}  // namespace catenary::bench
