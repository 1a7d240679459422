// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/gemm_layers.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace catenary::bench {
namespace {

// Larger shapes take milliseconds per launch, and are multiples of smaller ones.
constexpr double kMostFlops = 1.2e12;

struct GemmShape {
  i64 batch = 1, m = 0, n = 0, k = 0;
  bool dual = false;
};

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
    // Sizes that are no multiple of a tile.
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
    // Dual GEMMs.
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

// Candidates in addition to the choice.
constexpr int kFastest = 6;

// Tiles that are timed whatever their prediction: block_m x block_n (of both halves of a dual
// GEMM), ping-pong or cooperative.
struct FixedTile {
  int block_m, block_n;
  bool ping_pong;
};
constexpr FixedTile kFixed[] = {{128, 256, false}, {128, 128, true}, {64, 128, true}};

double flops(const GemmShape& s) {
  return (s.dual ? 4.0 : 2.0) * static_cast<double>(s.batch) * s.m * s.n * s.k;
}

Layer gemm_layer(const GemmShape& s) {
  Layer layer;
  layer.group = s.batch > 1 ? "batched" : s.dual ? "dual" : "dense";
  if (s.dual) {
    layer.kind = Layer::Kind::kDual;
    layer.epilogue = Layer::Epilogue::kSwiglu;
  }
  if (s.batch > 1) layer.kind = Layer::Kind::kGrouped;
  layer.groups = s.batch;
  layer.m = s.m;
  layer.n = s.n;
  layer.k = s.k;
  return layer;
}

}  // namespace

std::vector<Layer> gemm_layers() {
  constexpr i64 kRows[] = {64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
  constexpr i64 kSizes[] = {256, 512, 1024, 2048, 4096, 8192, 16384};
  std::vector<Layer> layers;
  for (size_t m = 0; m < std::size(kRows); ++m) {
    for (size_t n = 0; n < std::size(kSizes); ++n) {
      for (size_t k = 0; k < std::size(kSizes); ++k) {
        const GemmShape shape{1, kRows[m], kSizes[n], kSizes[k]};
        // A third of each plane, along diagonals.
        if ((m + n + 2 * k) % 3 == 0 && flops(shape) <= kMostFlops) {
          layers.push_back(gemm_layer(shape));
        }
      }
    }
  }
  for (const GemmShape& shape : kOthers) layers.push_back(gemm_layer(shape));
  return layers;
}

std::vector<Candidate> gemm_candidates(llvm::ArrayRef<Candidate> candidates, bool dual) {
  std::vector<Candidate> timed = fastest_candidates(candidates, kFastest);
  for (const FixedTile& fixed : kFixed) {
    const std::string prefix = fmt::format(
        "{}x{}x64{}", fixed.block_m, fixed.block_n / (dual ? 2 : 1), fixed.ping_pong ? "p" : "g");
    const auto is_fixed = [&](const Candidate& candidate) {
      return candidate.rejected.empty() && candidate.split_k == 1 &&
             llvm::StringRef(candidate.tile).startswith(prefix);
    };
    if (llvm::any_of(timed, is_fixed)) continue;
    const auto found = llvm::find_if(candidates, is_fixed);
    if (found != candidates.end()) timed.push_back(*found);
  }
  return timed;
}

}  // namespace catenary::bench
