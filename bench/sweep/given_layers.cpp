// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/given_layers.h"

#include <fmt/ranges.h>

#include "bench/sweep/random_layers.h"
#include "llvm/ADT/StringRef.h"

namespace catenary::bench {
namespace {

constexpr Layer::Epilogue kEpilogues[] = {Layer::Epilogue::kNone, Layer::Epilogue::kBias,
                                          Layer::Epilogue::kBiasSilu, Layer::Epilogue::kBiasGelu,
                                          Layer::Epilogue::kSwiglu};

Expected<Layer::Epilogue> epilogue_of(llvm::StringRef text) {
  if (text.empty()) return Layer::Epilogue::kNone;
  std::vector<std::string_view> names;
  for (const Layer::Epilogue one : kEpilogues) {
    if (epilogue_text(one) == std::string_view(text)) return one;
    names.push_back(epilogue_text(one));
  }
  return make_error(ErrorCode::kInvalidArgument, "'{}' is no epilogue of a layer: choose among {}",
                    text.str(), fmt::join(names, ", "));
}

Expected<std::vector<i64>> sizes_of(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 4> parts;
  text.split(parts, 'x');
  std::vector<i64> sizes;
  for (const llvm::StringRef part : parts) {
    i64 size = 0;
    if (part.getAsInteger(10, size) || size < 1) break;
    sizes.push_back(size);
  }
  const bool whole = sizes.size() == parts.size() && (sizes.size() == 3 || sizes.size() == 4);
  if (whole) return sizes;
  return make_error(ErrorCode::kInvalidArgument,
                    "'{}' is no layer: write MxNxK or GxMxNxK, sizes from 1, and :epilogue",
                    text.str());
}

Expected<Layer> given_layer(llvm::StringRef text) {
  const auto [size_text, epilogue_name] = text.trim().split(':');
  auto sizes = sizes_of(size_text);
  if (!sizes) return sizes.takeError();
  auto epilogue = epilogue_of(epilogue_name);
  if (!epilogue) return epilogue.takeError();
  Layer layer;
  layer.epilogue = *epilogue;
  if (*epilogue == Layer::Epilogue::kSwiglu) layer.kind = Layer::Kind::kDual;
  if (sizes->size() == 4) {
    layer.kind = Layer::Kind::kGrouped;
    layer.groups = sizes->front();
  }
  layer.group = layer.kind == Layer::Kind::kGrouped ? "grouped"
                : layer.kind == Layer::Kind::kDual  ? "dual"
                                                    : "dense";
  const size_t at = sizes->size() - 3;
  layer.m = (*sizes)[at];
  layer.n = (*sizes)[at + 1];
  layer.k = (*sizes)[at + 2];
  if (layer_bytes(layer) > kMostLayerBytes || layer_flops(layer) > kMostLayerFlops) {
    return make_error(ErrorCode::kInvalidArgument,
                      "'{}' is too large: a layer has up to {:.0f} GiB and {:.0f} TFLOP",
                      text.str(), kMostLayerBytes / (i64{1} << 30), kMostLayerFlops / 1e12);
  }
  return layer;
}

}  // namespace

Expected<std::vector<Layer>> given_layers(const std::string& list) {
  llvm::SmallVector<llvm::StringRef, 8> parts;
  llvm::StringRef(list).split(parts, ',', -1, false);
  if (parts.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--sweep layers has no layers: name them by --layers MxNxK,...");
  }
  std::vector<Layer> layers;
  for (const llvm::StringRef part : parts) {
    auto layer = given_layer(part);
    if (!layer) return layer.takeError();
    layers.push_back(std::move(*layer));
  }
  return layers;
}

}  // namespace catenary::bench
