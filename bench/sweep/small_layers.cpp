// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/small_layers.h"

namespace catenary::bench {

std::vector<Layer> small_layers() {
  constexpr i64 kRows[] = {1, 2, 3, 4, 8, 16, 17, 32, 48, 64};
  constexpr i64 kSizes[] = {512, 1024, 2048, 4096, 7168, 8192, 14336, 28672};
  static_assert(std::size(kRows) == kSmallLayerRows);
  std::vector<Layer> layers;
  for (const i64 k : kSizes) {
    for (const i64 n : kSizes) {
      for (const i64 m : kRows) {
        Layer layer;
        layer.group = fmt::format("m{}", m);
        layer.m = m;
        layer.n = n;
        layer.k = k;
        layers.push_back(std::move(layer));
      }
    }
  }
  return layers;
}

}  // namespace catenary::bench
