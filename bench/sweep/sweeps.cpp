// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/sweeps.h"

#include <fmt/ranges.h>

#include <limits>

#include "bench/sweep/gemm_layers.h"
#include "bench/sweep/given_layers.h"
#include "bench/sweep/model_layers.h"
#include "bench/sweep/random_layers.h"
#include "bench/sweep/small_layers.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace catenary::bench {
namespace {

// Rows up to which a layer is a weight stream.
constexpr i64 kStreamRows = 64;

// Every `shards`-th run of `together` layers.
std::vector<Layer> shard_of(const std::vector<Layer>& layers, std::pair<int, int> shard,
                            size_t together) {
  std::vector<Layer> part;
  for (size_t i = 0; i < layers.size(); ++i) {
    const size_t turn = i / together % static_cast<size_t>(shard.second);
    if (turn == static_cast<size_t>(shard.first) - 1) part.push_back(layers[i]);
  }
  return part;
}

Expected<std::vector<std::string>> kinds_of(const std::string& list) {
  std::vector<std::string> kinds;
  llvm::SmallVector<llvm::StringRef, 5> parts;
  llvm::StringRef(list).split(parts, ',', -1, false);
  for (const llvm::StringRef part : parts) {
    if (!llvm::is_contained(random_kinds(), part)) {
      return make_error(ErrorCode::kInvalidArgument, "'{}' is not a kind of layer: choose among {}",
                        part.str(), fmt::join(random_kinds(), ", "));
    }
    kinds.push_back(part.str());
  }
  if (kinds.empty()) {
    kinds.assign(default_random_kinds().begin(), default_random_kinds().end());
  }
  return kinds;
}

Expected<std::vector<Layer>> layers_of(const SweepRequest& request) {
  if (request.name == "small") {
    return shard_of(small_layers(), request.shard, kSmallLayerRows);
  }
  if (request.name == "gemm") return shard_of(gemm_layers(), request.shard, 1);
  if (request.name == "models") {
    return shard_of(model_sweep_layers(), request.shard, kModelLayerRows);
  }
  if (request.name == "layers") {
    auto layers = given_layers(request.layers);
    if (!layers) return layers.takeError();
    return shard_of(*layers, request.shard, 1);
  }
  if (request.name != "random") {
    return make_error(ErrorCode::kInvalidArgument, "'{}' is no sweep: choose among {}",
                      request.name, fmt::join(sweep_names(), ", "));
  }
  auto kinds = kinds_of(request.kinds);
  if (!kinds) return kinds.takeError();
  return shard_of(random_layers(request.seed, request.count, *kinds), request.shard, 1);
}

SweepOptions options_of(const SweepRequest& request) {
  SweepOptions options;
  options.seed = request.seed;
  options.timing.rounds = 5;
  options.timing.batch_us = 500;
  if (request.name == "small") {
    options.timing.batch_us = 700;
    options.pdl_below_us = std::numeric_limits<double>::infinity();
  }
  if (request.name == "gemm") {
    options.timing.rounds = 3;
    options.timing.batch_us = 300;
    if (request.candidates < 0) options.pdl_below_us = 0;
    options.select = [](const Case& spec, llvm::ArrayRef<Candidate> candidates) {
      return gemm_candidates(candidates, spec.epilogue == "swiglu");
    };
  }
  if (request.candidates >= 0) {
    options.select = [best = request.candidates](const Case& spec,
                                                 llvm::ArrayRef<Candidate> candidates) {
      const bool stream = spec.batch == 1 && spec.m <= kStreamRows;
      return select_candidates(candidates, best, stream ? best : 0);
    };
  }
  return options;
}

}  // namespace

std::vector<std::string> sweep_names() { return {"small", "gemm", "models", "random", "layers"}; }

Expected<SweepSpec> sweep_spec(const SweepRequest& request) {
  auto layers = layers_of(request);
  if (!layers) return layers.takeError();
  SweepSpec spec;
  for (const Layer& layer : *layers) spec.cases.push_back(layer_case(layer));
  spec.options = options_of(request);
  // Candidates of large contractions are compared with each other.
  spec.peer = request.name != "gemm";
  return spec;
}

}  // namespace catenary::bench
