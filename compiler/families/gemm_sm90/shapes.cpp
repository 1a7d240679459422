// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/gemm_sm90/shapes.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

// Large tiles first: ties go to the earlier one. At most 64 x 256 sums a warpgroup, or 128 x 192
// between them, fit its registers.
constexpr GemmSm90Shape kShapes[] = {
    {128, 256, 2, false, 2, 0},
    {256, 128, 2, false, 2, 0},
    {128, 128, 2, true, 2, 0},
    {128, 256, 2, false, 1, 0},
    {256, 128, 2, false, 1, 0},
    {128, 128, 2, true, 1, 0},
    {128, 192, 2, false, 2, 0},
    {128, 192, 2, false, 1, 0},
    {64, 256, 2, true, 2, 0},
    {64, 256, 2, true, 1, 0},
    {128, 128, 2, false, 1, 0},
    {64, 192, 2, true, 1, 0},
    {64, 128, 2, true, 1, 0},
    {128, 64, 2, true, 1, 0},
    // Three warpgroups: 528 rows are three tiles of 192, 576 rows, and five of 128, 640.
    {192, 192, 3, false, 1, 0},
    {192, 192, 3, false, 2, 0},
    {192, 160, 3, false, 1, 0},
    {192, 128, 3, false, 1, 0},
    {192, 192, 3, false, 1, 0, 1, 2},
    {64, 256, 1, false, 1, 0},
    {64, 128, 1, false, 1, 0},
    {64, 64, 1, false, 1, 0},
    // N clusters: A is loaded once for two column tiles.
    {256, 128, 2, false, 1, 0, 1, 2},
    {128, 256, 2, false, 1, 0, 1, 2},
    {128, 192, 2, false, 1, 0, 1, 2},
    {128, 128, 2, true, 1, 0, 1, 2},
    // Small M: two CTAs per SM, cluster split-K.
    {64, 128, 1, false, 1, 1, 2},
    {64, 128, 1, false, 1, 2, 2},
    {64, 128, 1, false, 1, 4, 2},
    {64, 128, 1, false, 1, 8, 2},
    {64, 64, 1, false, 1, 1, 2},
    {64, 64, 1, false, 1, 2, 2},
    {64, 64, 1, false, 1, 4, 2},
    {64, 64, 1, false, 1, 8, 2},
    {64, 32, 1, false, 1, 1, 2},
    {64, 32, 1, false, 1, 2, 2},
    {64, 32, 1, false, 1, 4, 2},
    {64, 32, 1, false, 1, 8, 2},
    // Medium M, deep K: one CTA to an SM, K divided over clusters (RESULTS model-2).
    {128, 128, 2, false, 1, 2, 1},
    {128, 64, 2, false, 1, 2, 1},
    {128, 96, 2, false, 1, 2, 1},
    {128, 160, 2, false, 1, 2, 1},
    {128, 128, 2, false, 1, 4, 1},
    {128, 64, 2, false, 1, 4, 1},
    {128, 96, 2, false, 1, 4, 1},
};

// Not of the staged epilogue, whose subtiles have 64 columns. A k-tile of 128 x 160 takes 58 of the
// 64 bytes a clock that an SM gets from L2, one of 128 x 128 all of them (RESULTS sm90-148).
// Tiles of 256 x 160 take 42 (RESULTS sm90-151).
constexpr GemmSm90Shape kRegisterShapes[] = {{128, 160, 2, true, 2, 0}, {128, 160, 2, true, 1, 0}};
constexpr GemmSm90Shape kOneResultShapes[] = {{256, 160, 2, false, 2, 0},
                                              {256, 160, 2, false, 1, 0}};

bool has_one_result(const GemmSm90Config& base, const ContractionProblem& problem) {
  return base.epilogue.matrices == 0 && problem.outputs.size() == 1 && !base.uses_cp_async();
}

// Clusters of four and eight CTAs that are not larger than D; where a tile is forced, all. Ragged
// groups have few row tiles, and wait for the weights of all of a cluster's tiles (RESULTS
// sm90-145).
std::vector<GemmSm90Shape> clustered_shapes(const GemmSm90Config& base,
                                            const ContractionProblem& problem, bool forced) {
  std::vector<GemmSm90Shape> shapes = gemm_sm90_clustered_shapes();
  if (forced) return shapes;
  if (base.ragged.kind != Ragged::kNone) return {};
  llvm::erase_if(shapes, [&](const GemmSm90Shape& shape) {
    return shape.cluster_m > ceil_div(problem.size.m, shape.block_m) ||
           shape.cluster_n > ceil_div(problem.size.n, shape.block_n);
  });
  return shapes;
}

// Each tile in clusters of each size, M x N.
std::vector<GemmSm90Shape> in_clusters(llvm::ArrayRef<GemmSm90Shape> tiles,
                                       llvm::ArrayRef<std::pair<int, int>> sizes) {
  std::vector<GemmSm90Shape> shapes;
  for (GemmSm90Shape shape : tiles) {
    for (const auto& [m, n] : sizes) {
      shape.cluster_m = m;
      shape.cluster_n = n;
      shapes.push_back(shape);
    }
  }
  return shapes;
}

// The widest tiles of two warpgroups whose accumulators fit a thread. Those of one result and its
// vectors, loaded by TMA, leave room for more. 256 rows of more than 160 columns leave shared
// memory for three stages only.
std::vector<GemmSm90Shape> widest_tiles(const GemmSm90Config& base,
                                        const ContractionProblem& problem) {
  if (!has_one_result(base, problem)) return {{256, 128, 2, false, 1}, {128, 160, 2, true, 1}};
  return {{256, 160, 2, false, 1}, {128, 176, 2, true, 1}};
}

// Whether a cluster of more than two CTAs shares much of a transposed product: its columns, rows of
// D, are few tiles, and each row tile of the weight would load all of B (RESULTS sm90-160).
bool fits_large_cluster(const GemmSm90Shape& shape, const GemmSm90Config& base,
                        const ContractionProblem& problem) {
  constexpr i64 kMostTiles = 4;
  return base.ragged.kind == Ragged::kNone &&
         shape.cluster_m <= ceil_div(problem.size.m, shape.block_m) &&
         problem.size.n <= kMostTiles * shape.block_n;
}

// block_n: the most columns. Where a tile is forced, in clusters of any size.
std::vector<GemmSm90Shape> transposed_bases(const GemmSm90Config& base,
                                            const ContractionProblem& problem, bool forced) {
  std::vector<GemmSm90Shape> tiles = {{128, 256, 2, false, 1},
                                      {64, 256, 2, true, 1},
                                      {192, 192, 3, false, 1},
                                      {64, 256, 1, false, 1}};
  llvm::append_range(tiles, widest_tiles(base, problem));
  constexpr std::pair<int, int> kClusters[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2},
                                               {4, 1}, {4, 2}, {2, 4}};
  std::vector<GemmSm90Shape> shapes = in_clusters(tiles, kClusters);
  llvm::erase_if(shapes, [&](const GemmSm90Shape& shape) {
    return !forced && shape.cluster_m * shape.cluster_n > 2 &&
           !fits_large_cluster(shape, base, problem);
  });
  return shapes;
}

// Every width that a forced name may have.
std::vector<GemmSm90Shape> with_all_widths(llvm::ArrayRef<GemmSm90Shape> bases) {
  std::vector<GemmSm90Shape> shapes;
  for (GemmSm90Shape shape : bases) {
    for (int width = shape.block_n; width > 0; width -= 8) {
      shape.block_n = width;
      shapes.push_back(shape);
    }
  }
  return shapes;
}

// The narrowest tile, in steps of `step`, with which n columns are `tiles` tiles.
i64 even_width(i64 n, i64 tiles, i64 step) { return ceil_div(ceil_div(n, tiles), step) * step; }

// Widths of `shape`, narrower than its own, that fill one to four waves of the chip: 11008 columns
// by 512 rows leave a third of the last wave idle with 128 x 128 tiles; 128 x 168 are two waves.
void add_fitted_widths(GemmSm90Shape shape, const GemmSm90Config& base,
                       const ContractionProblem& problem, const Target& target, int min_width,
                       std::vector<GemmSm90Shape>& shapes) {
  constexpr int kMaxWaves = 4;
  // 8 columns, as wgmma takes them, for each CTA and each sum.
  const int step = (base.dual ? 16 : 8) * shape.cluster_m;
  const i64 rows =
      problem.size.batch * ceil_div(problem.size.m, i64{shape.block_m} * shape.cluster_m);
  const int ctas = shape.cluster_m * shape.cluster_n;
  const i64 clusters = target.ctas_at_once(ctas, 1) / ctas;
  const i64 n = base.dual ? 2 * problem.size.n : problem.size.n;
  for (int waves = 1; waves <= kMaxWaves; ++waves) {
    const i64 columns = waves * clusters / std::max<i64>(rows, 1) * shape.cluster_n;
    if (columns == 0) continue;
    const i64 width = even_width(n, columns, step);
    if (width >= shape.block_n || width < min_width) continue;
    shape.block_n = static_cast<int>(width);
    // Shapes of 256 and of 192 columns may have one width; gemm_sm90_shapes() has some as well.
    if (!llvm::is_contained(shapes, shape)) shapes.push_back(shape);
  }
}

// Widths of `shape` that divide the columns evenly over as many tiles as its own width takes: 704
// columns are four tiles of 176, or of 192 with a twelfth of the work wasted.
void add_even_width(GemmSm90Shape shape, const GemmSm90Config& base,
                    const ContractionProblem& problem, int min_width,
                    std::vector<GemmSm90Shape>& shapes) {
  const int step = (base.dual ? 16 : 8) * shape.cluster_m;
  const i64 n = base.dual ? 2 * problem.size.n : problem.size.n;
  const i64 tiles = ceil_div(n, i64{shape.block_n} * shape.cluster_n) * shape.cluster_n;
  const i64 width = even_width(n, tiles, step);
  // Small M takes the time of the weights' bytes.
  const bool fills = problem.size.m / std::max<i64>(base.ragged.num_groups, 1) >= shape.block_m;
  if (!fills || width >= shape.block_n || width < min_width) return;
  shape.block_n = static_cast<int>(width);
  if (!llvm::is_contained(shapes, shape)) shapes.push_back(shape);
}

// Tiles that widths are fitted to, beside those in large clusters.
std::vector<GemmSm90Shape> wide_bases(const GemmSm90Config& base,
                                      const ContractionProblem& problem) {
  std::vector<GemmSm90Shape> shapes = {{128, 256, 2, false, 1, 0},      {128, 256, 2, false, 2, 0},
                                       {192, 192, 3, false, 1, 0},      {192, 192, 3, false, 2, 0},
                                       {64, 256, 2, true, 1, 0},        {64, 256, 2, true, 2, 0},
                                       {128, 256, 2, false, 1, 0, 1, 2}};
  constexpr std::pair<int, int> kClusters[] = {{1, 1}, {2, 1}, {1, 2}};
  for (GemmSm90Shape tile : widest_tiles(base, problem)) {
    tile.block_n += 8;  // fitted widths are narrower
    llvm::append_range(shapes, in_clusters(tile, kClusters));
  }
  return shapes;
}

std::vector<GemmSm90Shape> fitted_shapes(const GemmSm90Config& base,
                                         const ContractionProblem& problem, const Target& target,
                                         llvm::ArrayRef<GemmSm90Shape> clustered) {
  constexpr int kMinWidth = 96;
  if (!base.epilogue.in_registers || !base.b.k_major) return {};
  std::vector<GemmSm90Shape> fitted;
  const std::vector<GemmSm90Shape> wide = wide_bases(base, problem);
  for (const llvm::ArrayRef<GemmSm90Shape> bases : {llvm::makeArrayRef(wide), clustered}) {
    for (const GemmSm90Shape& shape : bases) {
      add_fitted_widths(shape, base, problem, target, kMinWidth, fitted);
      add_even_width(shape, base, problem, kMinWidth, fitted);
    }
  }
  llvm::erase_if(fitted, [](const GemmSm90Shape& shape) { return shape.block_n % 64 == 0; });
  return fitted;
}

// Tiles of a transposed problem. Their columns are rows of D. Some widths divide the rows evenly,
// others fill whole waves.
std::vector<GemmSm90Shape> transposed_shapes(const GemmSm90Config& base,
                                             const ContractionProblem& problem,
                                             const Target& target) {
  constexpr int kMinWidth = 64;
  constexpr i64 kMostTiles = 12;  // of more, one tile more or less changes little
  std::vector<GemmSm90Shape> shapes;
  const auto add = [&](GemmSm90Shape shape, i64 tiles) {
    if (tiles < shape.cluster_n) return;
    // CTAs of larger clusters load boxes in turns: 8 columns for each would widen the tile much.
    const i64 step = shape.cluster_m > 2 ? 8 : 8 * shape.cluster_m;
    const i64 width = even_width(problem.size.n, tiles, step);
    if (width < kMinWidth || width > shape.block_n) return;
    if (tiles > kMostTiles && width == shape.block_n)
      return;  // as good as one that is not transposed
    shape.block_n = static_cast<int>(width);
    if (!llvm::is_contained(shapes, shape)) shapes.push_back(shape);
  };
  for (const GemmSm90Shape& shape : transposed_bases(base, problem, false)) {
    for (i64 tiles = 1; tiles <= kMostTiles; ++tiles) add(shape, tiles);
    const i64 fewest =
        ceil_div(problem.size.n, i64{shape.block_n} * shape.cluster_n) * shape.cluster_n;
    add(shape, fewest);
    add(shape, fewest + shape.cluster_n);
    add_fitted_widths(shape, base, problem, target, kMinWidth, shapes);
  }
  return shapes;
}

// Weight streams, M up to 128: a width that gives every SM a tile, and so the same share of W, or
// every two SMs one that they share along K. Clusters of four with one CTA to an SM do not fit the
// GPCs at once (RESULTS hw-100 ff.).
std::vector<GemmSm90Shape> stream_shapes(const GemmSm90Config& base,
                                         const ContractionProblem& problem, const Target& target) {
  constexpr i64 kMostRowsOfStream = 128;
  constexpr int kMinWidth = 48;
  // Without setmaxnreg 384 threads have 168 registers each: 96 for accumulators.
  const int max_width = problem.size.m > 64 ? 192 : 256;
  if (!base.b.k_major || base.ragged.kind != Ragged::kNone || problem.size.m > kMostRowsOfStream) {
    return {};
  }
  const i64 sums = base.dual ? 2 : 1;
  const i64 n = sums * problem.size.n;
  const int block_m = problem.size.m > 64 ? 128 : 64;
  std::vector<GemmSm90Shape> shapes;
  for (const int cluster_k : {1, 2}) {
    const i64 columns = target.sm_count / cluster_k / std::max<i64>(problem.size.batch, 1) -
                        (problem.num_parts() - 1);  // last tiles that are not full
    if (columns <= 0) continue;
    const i64 step = 8 * sums;  // as wgmma takes them
    const i64 width = even_width(n, columns, step);
    if (width < kMinWidth || width > max_width) continue;
    shapes.push_back({block_m, static_cast<int>(width), block_m / 64, false, 1, cluster_k, 1});
  }
  return shapes;
}

}  // namespace

llvm::ArrayRef<GemmSm90Shape> gemm_sm90_shapes() { return kShapes; }

std::vector<GemmSm90Shape> gemm_sm90_clustered_shapes() {
  constexpr GemmSm90Shape kTiles[] = {
      {128, 256, 2, false, 1}, {256, 128, 2, false, 1}, {128, 192, 2, false, 1},
      {128, 128, 2, true, 1},  {192, 192, 3, false, 1}, {192, 128, 3, false, 1},
      {64, 256, 2, true, 1},   {64, 128, 2, true, 1},   {128, 64, 2, true, 1},
      {64, 128, 1, false, 1},  {64, 64, 1, false, 1}};
  constexpr std::pair<int, int> kClusters[] = {{2, 2}, {4, 1}, {1, 4}, {4, 2}, {2, 4}};
  return in_clusters(kTiles, kClusters);
}

std::vector<GemmSm90Shape> gemm_sm90_shapes_of(const GemmSm90Config& base,
                                               const ContractionProblem& problem,
                                               const Target& target, bool forced) {
  if (problem.transposed)
    return forced ? with_all_widths(transposed_bases(base, problem, true))
                  : transposed_shapes(base, problem, target);
  std::vector<GemmSm90Shape> shapes(std::begin(kShapes), std::end(kShapes));
  if (base.epilogue.in_registers) {
    llvm::append_range(shapes, llvm::makeArrayRef(kRegisterShapes));
    if (has_one_result(base, problem))
      llvm::append_range(shapes, llvm::makeArrayRef(kOneResultShapes));
  }
  const std::vector<GemmSm90Shape> clustered = clustered_shapes(base, problem, forced);
  llvm::append_range(shapes, clustered);
  const auto add_new = [&](llvm::ArrayRef<GemmSm90Shape> more) {
    for (const GemmSm90Shape& shape : more)
      if (!llvm::is_contained(shapes, shape)) shapes.push_back(shape);
  };
  add_new(fitted_shapes(base, problem, target, clustered));
  if (forced && base.epilogue.in_registers && base.b.k_major)
    add_new(with_all_widths(wide_bases(base, problem)));
  llvm::append_range(shapes, stream_shapes(base, problem, target));
  return shapes;
}

}  // namespace catenary
