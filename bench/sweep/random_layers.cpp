// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/random_layers.h"

#include <algorithm>

#include "ir/random/random.h"

namespace catenary::bench {
namespace {

using Epilogue = Layer::Epilogue;

constexpr const char* kKinds[] = {"dense", "small_m", "grouped", "dual", "experts", "int4", "int8"};
constexpr size_t kPlainKinds = 5;

// Log-uniform in [lo, hi]: an octave above `lo`, then uniform in it. In integers, so that results
// do not depend on a machine's log().
i64 log_uniform(Random& random, i64 lo, i64 hi) {
  int octaves = 1;
  while ((lo << octaves) < hi) ++octaves;
  for (;;) {
    const i64 base = lo << random.range(0, octaves - 1);
    const i64 value = base + random.range(0, base);
    if (value <= hi) return value;
  }
}

// The same, rounded to a multiple of 8, 16 or 64 in [lo, hi].
i64 size(Random& random, i64 lo, i64 hi) {
  constexpr i64 kGranules[] = {8, 16, 64, 64};
  const i64 granule = random.pick(llvm::ArrayRef(kGranules));
  const i64 value = (log_uniform(random, lo, hi) + granule / 2) / granule * granule;
  return std::clamp(value, lo, hi);
}

// M: one of five is any number.
i64 row_count(Random& random, i64 lo, i64 hi) {
  return random.chance(20) ? log_uniform(random, lo, hi) : size(random, lo, hi);
}

Epilogue draw_epilogue(Random& random) {
  constexpr Epilogue kEpilogues[] = {Epilogue::kNone, Epilogue::kNone, Epilogue::kBias,
                                     Epilogue::kBiasSilu, Epilogue::kBiasGelu};
  return random.pick(llvm::ArrayRef(kEpilogues));
}

// Some groups are empty; the sizes of the others differ by a factor of up to 16.
void draw_rows(Random& random, Layer& l) {
  const i64 most = log_uniform(random, 1, 4096);
  const int empty = static_cast<int>(random.range(0, 30));
  l.rows.clear();
  l.m = 0;
  for (i64 e = 0; e < l.groups; ++e) {
    const i64 rows =
        random.chance(empty) ? 0 : log_uniform(random, std::max<i64>(most / 16, 1), most);
    l.rows.push_back(rows);
    l.m += rows;
  }
  if (l.m == 0) l.m = l.rows[0] = most;
}

Layer draw(Random& random, const std::string& kind) {
  Layer l;
  l.group = kind;
  l.dtype = random.chance(80) ? DType::kBF16 : DType::kF16;
  if (kind == "int4" || kind == "int8") {
    l.packed = kind == "int4" ? DType::kI4 : DType::kI8;
    l.epilogue = random.chance(30) ? Epilogue::kSwiglu : draw_epilogue(random);
    if (l.epilogue == Epilogue::kSwiglu) l.kind = Layer::Kind::kDual;
    l.m = log_uniform(random, 1, 256);
    l.n = size(random, 512, 32768);
    l.k = size(random, 512, 32768);
    l.k = ceil_div(l.k, 128) * 128;
  } else if (kind == "small_m") {
    l.epilogue = draw_epilogue(random);
    l.m = log_uniform(random, 1, 64);
    l.n = size(random, 512, 32768);
    l.k = size(random, 512, 32768);
  } else if (kind == "grouped") {
    l.kind = Layer::Kind::kGrouped;
    l.epilogue = draw_epilogue(random);
    l.groups = log_uniform(random, 2, 64);
    l.rows_first = random.chance(50);
    l.m = row_count(random, 64, 8192);
    l.n = size(random, 128, 8192);
    l.k = size(random, 128, 8192);
  } else if (kind == "experts") {
    l.kind = Layer::Kind::kExperts;
    l.epilogue = random.chance(30) ? Epilogue::kSwiglu : Epilogue::kNone;
    l.groups = log_uniform(random, 4, 128);
    draw_rows(random, l);
    l.n = size(random, 512, 8192);
    l.k = size(random, 512, 8192);
  } else {
    l.kind = kind == "dual" ? Layer::Kind::kDual : Layer::Kind::kDense;
    l.epilogue = kind == "dual" ? Epilogue::kSwiglu : draw_epilogue(random);
    l.m = row_count(random, 128, 16384);
    l.n = size(random, 256, 32768);
    l.k = size(random, 256, 32768);
  }
  return l;
}

}  // namespace

llvm::ArrayRef<const char*> random_kinds() { return kKinds; }

llvm::ArrayRef<const char*> default_random_kinds() {
  return random_kinds().take_front(kPlainKinds);
}

std::vector<Layer> random_layers(u64 seed, int count, llvm::ArrayRef<std::string> kinds) {
  std::vector<Layer> layers;
  for (int i = 0; i < count; ++i) {
    Random random(mix64(seed + 1) ^ static_cast<u64>(i));
    // Rotated from round to round, so that every shard has all kinds.
    const size_t turn = static_cast<size_t>(i) + static_cast<size_t>(i) / kinds.size();
    const std::string& kind = kinds[turn % kinds.size()];
    Layer layer = draw(random, kind);
    while (layer_bytes(layer) > kMostLayerBytes || layer_flops(layer) > kMostLayerFlops) {
      layer = draw(random, kind);
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace catenary::bench
