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
  return make_error(ErrorCode::kInvalidArgument,
                    "'{}' is not an epilogue of a layer: choose among {}", text.str(),
                    fmt::join(names, ", "));
}

// Integers take the place of the weights of one product, or of a pair.
Error set_packed(llvm::StringRef text, llvm::StringRef format, Layer& layer) {
  if (format != "int4" && format != "int8") {
    return make_error(ErrorCode::kInvalidArgument,
                      "'{}' is no format of weights: write int4, int8 or none", format.str());
  }
  layer.packed = format == "int4" ? DType::kI4 : DType::kI8;
  layer.group = format.str();
  const bool one = layer.kind == Layer::Kind::kDense || layer.kind == Layer::Kind::kDual;
  if (one && layer.k % scaled_columns(layer) == 0) return Error::success();
  return make_error(ErrorCode::kInvalidArgument,
                    "'{}' has packed weights: write MxNxK, for int4 with K a multiple of 32",
                    text.str());
}

Error no_layer(llvm::StringRef text) {
  return make_error(ErrorCode::kInvalidArgument,
                    "'{}' is no layer: write MxNxK, GxMxNxK or, for G experts that share M rows, "
                    "GeMxNxK; sizes from 1; then :epilogue, and :int4 or :int8",
                    text.str());
}

// Empty unless every part is a whole number from 1.
std::vector<i64> sizes_of(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 4> parts;
  text.split(parts, 'x');
  std::vector<i64> sizes;
  for (const llvm::StringRef part : parts) {
    i64 size = 0;
    if (part.getAsInteger(10, size) || size < 1) return {};
    sizes.push_back(size);
  }
  return sizes;
}

// Kind, groups and sizes.
Expected<Layer> shape_of(llvm::StringRef text) {
  const auto [experts, shared] = text.split('e');
  Layer layer;
  std::vector<i64> sizes = sizes_of(shared.empty() ? text : shared);
  if (!shared.empty()) {
    const std::vector<i64> groups = sizes_of(experts);
    if (groups.size() != 1 || sizes.size() != 3) return no_layer(text);
    layer.kind = Layer::Kind::kExperts;
    layer.groups = groups[0];
  } else if (sizes.size() == 4) {
    layer.kind = Layer::Kind::kGrouped;
    layer.groups = sizes[0];
    sizes.erase(sizes.begin());
  }
  if (sizes.size() != 3) return no_layer(text);
  layer.m = sizes[0];
  layer.n = sizes[1];
  layer.k = sizes[2];
  return layer;
}

// Experts get equal rows, the first ones one more where M does not divide.
void divide_rows(Layer& layer) {
  for (i64 e = 0; e < layer.groups; ++e) {
    layer.rows.push_back(layer.m / layer.groups + (e < layer.m % layer.groups ? 1 : 0));
  }
}

Expected<Layer> given_layer(llvm::StringRef text) {
  const auto [size_text, words] = text.trim().split(':');
  auto layer = shape_of(size_text);
  if (!layer) return layer.takeError();
  auto [epilogue_name, format] = words.rsplit(':');
  if (format.empty() && epilogue_name.startswith("int")) std::swap(epilogue_name, format);
  auto epilogue = epilogue_of(epilogue_name);
  if (!epilogue) return epilogue.takeError();
  layer->epilogue = *epilogue;
  if (layer->kind == Layer::Kind::kDense && *epilogue == Layer::Epilogue::kSwiglu) {
    layer->kind = Layer::Kind::kDual;
  }
  constexpr const char* kGroups[] = {"dense", "dual", "grouped", "experts"};
  layer->group = kGroups[static_cast<int>(layer->kind)];
  if (layer->kind == Layer::Kind::kExperts) {
    if (*epilogue != Layer::Epilogue::kNone && *epilogue != Layer::Epilogue::kSwiglu) {
      return make_error(ErrorCode::kInvalidArgument,
                        "'{}' has a bias, and the peer of experts has none: write no epilogue, or "
                        ":swiglu",
                        text.str());
    }
  }
  if (!format.empty()) {
    if (Error error = set_packed(text, format, *layer)) return error;
  }
  if (layer_bytes(*layer) > kMostLayerBytes || layer_flops(*layer) > kMostLayerFlops) {
    return make_error(ErrorCode::kInvalidArgument,
                      "'{}' is too large: a layer has up to {:.0f} GiB and {:.0f} TFLOP",
                      text.str(), kMostLayerBytes / (i64{1} << 30), kMostLayerFlops / 1e12);
  }
  if (layer->kind == Layer::Kind::kExperts) divide_rows(*layer);
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
