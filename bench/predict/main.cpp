// SPDX-License-Identifier: Apache-2.0
// What the cost model predicts for layers, for `bench/scripts/first_choices.py`; needs no GPU.
//
// A line of standard input is a layer: target, kind (dense, dual, grouped, experts), rows first (0
// or 1), dtype (bf16; i4xbf16 and i8xbf16 of packed weights), epilogue, groups, M, N, K. A line of
// output is a JSON array of its candidates, best first, [family, tile, split-K, microseconds];
// empty if there is no plan. measured.def is not asked. Exit codes: 0 done, 2 a line is not a
// layer.
#include <cstdio>
#include <iostream>
#include <sstream>

#include "bench/cases/layer.h"
#include "compiler/plan.h"
#include "ir/json.h"
#include "ir/text/text.h"
#include "llvm/ADT/StringRef.h"

namespace {

using namespace catenary;
using bench::Layer;

struct Request {
  Target target;
  Layer layer;
};

constexpr i64 kMostGroups = 1 << 20;  // of a chain's ragged label

// Experts get equal rows: predictions depend on their sum only.
void divide_rows(Layer& layer) {
  for (i64 e = 0; e < layer.groups; ++e)
    layer.rows.push_back(layer.m / layer.groups + (e < layer.m % layer.groups ? 1 : 0));
}

template <class T, size_t N>
std::optional<T> named(const std::pair<const char*, T> (&all)[N], const std::string& name) {
  for (const auto& [text, value] : all) {
    if (name == text) return value;
  }
  return std::nullopt;
}

std::optional<Request> read_request(const std::string& line) {
  constexpr std::pair<const char*, Layer::Kind> kKinds[] = {{"dense", Layer::Kind::kDense},
                                                            {"dual", Layer::Kind::kDual},
                                                            {"grouped", Layer::Kind::kGrouped},
                                                            {"experts", Layer::Kind::kExperts}};
  constexpr std::pair<const char*, Layer::Epilogue> kEpilogues[] = {
      {"none", Layer::Epilogue::kNone},
      {"bias", Layer::Epilogue::kBias},
      {"bias_silu", Layer::Epilogue::kBiasSilu},
      {"bias_gelu", Layer::Epilogue::kBiasGelu},
      {"swiglu", Layer::Epilogue::kSwiglu}};
  std::istringstream in(line);
  std::string target_name, kind_name, dtype_name, epilogue_name;
  Layer layer;
  in >> target_name >> kind_name >> layer.rows_first >> dtype_name >> epilogue_name >>
      layer.groups >> layer.m >> layer.n >> layer.k;
  const auto kind = named(kKinds, kind_name);
  const auto [packed_name, rows_name] = llvm::StringRef(dtype_name).rsplit('x');
  const auto dtype = find_dtype(rows_name.empty() ? packed_name : rows_name);
  if (!rows_name.empty()) layer.packed = find_dtype(packed_name);
  const auto epilogue = named(kEpilogues, epilogue_name);
  const bool sizes = layer.groups > 0 && layer.m > 0 && layer.n > 0 && layer.k > 0;
  auto target = find_target(target_name);
  if (!target) {
    llvm::consumeError(target.takeError());
    return std::nullopt;
  }
  if (!in || !kind || !dtype || !epilogue || !sizes) return std::nullopt;
  layer.kind = *kind;
  layer.dtype = *dtype;
  layer.epilogue = *epilogue;
  if (layer.packed ? layer.k % bench::scaled_columns(layer) != 0 : !rows_name.empty()) {
    return std::nullopt;
  }
  if (layer.groups > kMostGroups) return std::nullopt;
  if (layer.kind == Layer::Kind::kExperts) divide_rows(layer);
  return Request{std::move(*target), std::move(layer)};
}

// Errors: those of a chain that is none, such as one of a dtype that has no products.
Expected<llvm::json::Array> predictions(const Request& request) {
  PlanOptions options;
  options.measured = {};
  auto parsed = parse(bench::layer_case(request.layer).chain);
  if (!parsed) return parsed.takeError();
  auto chain = verify(std::move(*parsed));
  if (!chain) return chain.takeError();
  llvm::json::Array all;
  auto plan = make_plan(*chain, request.target, options);
  if (!plan) {
    llvm::consumeError(plan.takeError());
    return all;
  }
  for (const CandidateSummary& candidate : plan->buckets.front().kernels.front().candidates) {
    if (!candidate.rejected.empty()) continue;
    all.push_back(llvm::json::Array{candidate.id.family, candidate.id.tile, candidate.id.split_k,
                                    candidate.us});
  }
  return all;
}

int refuse(const std::string& line, const std::string& why) {
  std::fprintf(stderr, "'%s' is no layer: %s\n", line.c_str(), why.c_str());
  return 2;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const auto request = read_request(line);
    if (!request) {
      return refuse(line, "write target, kind, rows first, dtype, epilogue, groups, M, N, K");
    }
    auto found = predictions(*request);
    if (!found) return refuse(line, take_report(found.takeError()).message);
    std::puts(json_text(std::move(*found), 0).c_str());
  }
  return 0;
}
