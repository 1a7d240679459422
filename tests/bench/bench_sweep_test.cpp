// SPDX-License-Identifier: Apache-2.0
// The sweeps: which layers, which candidates, the summary; and a whole sweep in the simulator,
// which keeps no time.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "bench/record/summary.h"
#include "bench/sweep/case_arenas.h"
#include "bench/sweep/gemm_layers.h"
#include "bench/sweep/given_layers.h"
#include "bench/sweep/model_layers.h"
#include "bench/sweep/random_layers.h"
#include "bench/sweep/small_layers.h"
#include "bench/sweep/sweeps.h"
#include "compiler/kernel_family.h"
#include "tests/support/bench_session.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using namespace catenary::bench;
using test::planned;
using test::shortest;
using test::simulated_session;
using test::verified;

namespace {

const std::vector<std::string> kAllKinds(random_kinds().begin(), random_kinds().end());
const std::vector<std::string> kPlainKinds(default_random_kinds().begin(),
                                           default_random_kinds().end());

Candidate candidate(const char* family, const char* tile, double us, bool chosen = false) {
  Candidate one;
  one.family = family;
  one.tile = tile;
  one.predicted_us = us;
  one.chosen = chosen;
  return one;
}

std::vector<std::string> tiles(const std::vector<Candidate>& candidates) {
  std::vector<std::string> names;
  for (const Candidate& one : candidates) names.push_back(one.tile);
  return names;
}

LayerRow timed(const char* kind, double peer_us, double us, std::optional<double> pdl_us) {
  LayerRow row;
  row.kind = kind;
  row.peer_us = peer_us;
  row.candidates.emplace_back();
  row.candidates[0].us = us;
  row.candidates[0].pdl_us = pdl_us;
  return row;
}

}  // namespace

TEST_CASE("random layers are the same from one seed, whatever their number") {
  const std::vector<Layer> all = random_layers(7, 60, kPlainKinds);
  REQUIRE(all.size() == 60);
  const std::vector<Layer> fewer = random_layers(7, 20, kPlainKinds);
  for (size_t i = 0; i < 20; ++i) CHECK(layer_case(fewer[i]).name == layer_case(all[i]).name);
  CHECK(layer_case(random_layers(8, 1, kPlainKinds)[0]).name != layer_case(all[0]).name);
  // Pinned, so that every machine draws these.
  CHECK(layer_case(all[0]).name == "dense/912x496x5320/bf16/bias");
  CHECK(layer_case(all[4]).name == "experts/62e4502x832x1744/bf16/swiglu");
}

TEST_CASE("random layers are within bounds, and the planner takes them all") {
  std::set<std::string> epilogues;
  std::set<i64> granules;
  int empty_groups = 0;
  int odd_groups = 0;
  for (const Layer& l : random_layers(1, 250, kAllKinds)) {
    const Case c = layer_case(l);
    INFO(c.name);
    CHECK(layer_bytes(l) <= kMostLayerBytes);
    CHECK(layer_flops(l) <= kMostLayerFlops);
    CHECK(l.k % 8 == 0);
    CHECK(l.n % 8 == 0);
    granules.insert(l.n % 64 == 0 ? 64 : l.n % 16 == 0 ? 16 : 8);
    epilogues.insert(c.epilogue);
    if (l.kind == Layer::Kind::kExperts) {
      CHECK(static_cast<i64>(c.ends.size()) == l.groups);
      CHECK(c.ends.back() == l.m);
      for (const i64 rows : l.rows) empty_groups += rows == 0;
    }
    if (l.kind == Layer::Kind::kGrouped) odd_groups += l.groups % 2;
    if (l.group == "small_m") CHECK(l.m <= 64);
    if (l.packed) CHECK(l.k % scaled_columns(l) == 0);
    if (l.group == "dense") CHECK((l.m >= 128 && l.m <= 16384));
    const VerifiedChain chain = verified(c.chain);
    CHECK(contraction_kernel(planned(chain)) != nullptr);
    CHECK(rotation_of(chain, 0, i64{60} << 20, 256) >= 2);
    double flops = 0;
    for (const PeerStep& step : c.peer.steps) {
      if (const auto* product = std::get_if<PeerGemm>(&step)) {
        const LtProblem& p = product->problem;
        flops += 2.0 * p.batch * p.m * p.n * p.k;
      }
    }
    CHECK(flops == doctest::Approx(c.flops));
  }
  CHECK(epilogues.size() == 5);
  CHECK(granules.size() == 3);
  CHECK(empty_groups > 0);
  CHECK(odd_groups > 0);
}

TEST_CASE("the table of models' layers: each layer once with every M") {
  CHECK(model_layers().size() == 47);
  for (const ModelLayer& layer : model_layers()) {
    CHECK(layer.k % 8 == 0);
    CHECK(layer.n % 8 == 0);
  }
  const std::vector<Layer> all = model_sweep_layers();
  CHECK(all.size() == 450);  // Mixtral shares two with Llama
  std::set<std::string> names;
  for (const Layer& layer : all) CHECK(names.insert(layer_case(layer).name).second);
}

TEST_CASE("the sweep of large contractions: the planner takes every layer, and has candidates") {
  const std::vector<Layer> all = gemm_layers();
  CHECK(all.size() > 150);
  CHECK(all.size() < 250);
  std::set<std::string> names;
  for (const Layer& layer : all) {
    const Case spec = layer_case(layer);
    INFO(spec.name);
    CHECK(names.insert(spec.name).second);
    const Plan plan = planned(verified(spec.chain));
    const std::vector<Candidate> timed =
        gemm_candidates(list_candidates(*contraction_kernel(plan)), spec.epilogue == "swiglu");
    REQUIRE(timed.size() >= 2);
    CHECK(timed.size() <= 10);
    CHECK(timed[0].chosen);
    std::set<std::pair<std::string, int>> tiles;
    for (const Candidate& one : timed) {
      CHECK(one.rejected.empty());
      CHECK(tiles.insert({one.tile, one.split_k}).second);
    }
  }
}

TEST_CASE("shards share out the layers of a sweep, all M of a matrix together") {
  for (const std::string& name : sweep_names()) {
    INFO(name);
    SweepRequest request;
    request.name = name;
    request.count = 31;
    request.layers = "64x512x512,8x64x512x256:bias,3x512x512:swiglu,64x512x1024";
    std::set<std::string> names;
    auto all = sweep_spec(request);
    REQUIRE(all);
    for (const Case& spec : all->cases) CHECK(names.insert(spec.name).second);
    CHECK(all->peer == (name != "gemm"));
    CHECK(static_cast<bool>(all->options.select) == (name == "gemm"));
    for (int shard = 1; shard <= 3; ++shard) {
      request.shard = {shard, 3};
      auto part = sweep_spec(request);
      REQUIRE(part);
      for (size_t i = 0; i < part->cases.size(); ++i) {
        CHECK(names.erase(part->cases[i].name) == 1);
        if (name != "small" && name != "models") continue;
        const Case& first = part->cases[i - i % 10];
        CHECK(part->cases[i].n == first.n);
        CHECK(part->cases[i].k == first.k);
      }
    }
    CHECK(names.empty());
  }
  SweepRequest wrong;
  wrong.name = "random";
  wrong.kinds = "dense,thin";
  auto refused = sweep_spec(wrong);
  REQUIRE_FALSE(refused);
  CHECK(take_report(refused.takeError()).message.find("'thin'") != std::string::npos);
}

TEST_CASE("layers that the user names") {
  auto layers =
      given_layers("331x2208x7816:bias_gelu, 8x64x512x256,64x512x1024:swiglu,3e200x512x256:swiglu");
  REQUIRE(layers);
  REQUIRE(layers->size() == 4);
  CHECK((*layers)[0].m == 331);
  CHECK((*layers)[0].n == 2208);
  CHECK((*layers)[0].k == 7816);
  CHECK((*layers)[0].epilogue == Layer::Epilogue::kBiasGelu);
  CHECK((*layers)[1].groups == 8);
  CHECK((*layers)[1].kind == Layer::Kind::kGrouped);
  CHECK((*layers)[2].kind == Layer::Kind::kDual);
  CHECK((*layers)[3].kind == Layer::Kind::kExperts);
  CHECK((*layers)[3].m == 200);
  CHECK((*layers)[3].rows == std::vector<i64>{67, 67, 66});
  auto packed = given_layers("16x512x1024:int4,8x512x1024:swiglu:int4,8x48x72:bias:int8");
  REQUIRE(packed);
  CHECK((*packed)[0].packed == DType::kI4);
  CHECK((*packed)[0].kind == Layer::Kind::kDense);
  CHECK((*packed)[1].kind == Layer::Kind::kDual);
  CHECK((*packed)[2].packed == DType::kI8);
  CHECK((*packed)[2].epilogue == Layer::Epilogue::kBias);
  // Half a byte for a value, and two bytes for each 128 of them.
  CHECK(layer_bytes((*packed)[0]) == 2.0 * 16 * 1536 + 512 * 512 + 2.0 * 512 * 8);
  for (const auto& [text, columns] :
       {std::pair{"1x64x2880:int4", 64}, {"1x64x2848:int4", 32}, {"1x64x2944:int4", 128}}) {
    auto divided = given_layers(text);
    REQUIRE(divided);
    CHECK(scaled_columns((*divided)[0]) == columns);
    CHECK(contraction_kernel(planned(verified(layer_case((*divided)[0]).chain))) != nullptr);
  }
  const std::pair<const char*, const char*> wrong[] = {{"", "--layers"},
                                                       {"8x512x80:int4", "multiple of 32"},
                                                       {"2x8x512x128:int8", "MxNxK"},
                                                       {"8x512x128:int5", "'int5'"},
                                                       {"8x512x128:bias:e4m3", "'e4m3'"},
                                                       {"64x512", "'64x512'"},
                                                       {"64x0x512", "'64x0x512'"},
                                                       {"64x512x5a", "'64x512x5a'"},
                                                       {"1x2x3x4x5", "GxMxNxK"},
                                                       {"e64x512x512", "GeMxNxK"},
                                                       {"3x8e64x512x512", "GeMxNxK"},
                                                       {"8e2x64x512x512", "GeMxNxK"},
                                                       {"8e64x512x512:bias", "swiglu"},
                                                       {"8e", "'8e'"},
                                                       {"64x512x512:tanh", "bias_silu"},
                                                       {"1048576x65536x65536", "too large"},
                                                       {"100000000000e1x1x1", "too large"}};
  for (const auto& [text, part] : wrong) {
    CAPTURE(text);
    auto refused = given_layers(text);
    REQUIRE_FALSE(refused);
    CHECK(take_report(refused.takeError()).message.find(part) != std::string::npos);
  }
}

TEST_CASE("small layers rotate through more than twice the L2, in bounded memory") {
  const i64 l2 = (*find_target("h200")).l2_bytes;
  for (const Layer& layer : small_layers()) {
    const VerifiedChain chain = verified(layer_case(layer).chain);
    const int copies = rotation_of(chain, 0, l2, SweepOptions().max_copies);
    CHECK(copies >= 2);
    CHECK(copies * input_bytes(chain) > 2 * l2);
    CHECK(copies * set_bytes(chain) <= i64{4} << 30);
  }
}

TEST_CASE("candidates to time: the choice, the best of every family, and more over the list") {
  std::vector<Candidate> all = {candidate("a", "a1", 1), candidate("a", "a2", 2, true),
                                candidate("a", "a3", 3), candidate("a", "a4", 4),
                                candidate("b", "b1", 9), candidate("b", "b2", 8),
                                candidate("b", "b3", 7)};
  all[2].rejected = "too large";
  CHECK(tiles(select_candidates(all, 1, 0)) == std::vector<std::string>{"a2", "b3"});
  CHECK(tiles(select_candidates(all, 2, 0)) == std::vector<std::string>{"a2", "a1", "b3", "b2"});
  CHECK(tiles(select_candidates(all, 1, 2)) == std::vector<std::string>{"a2", "b3", "a1", "b2"});
  CHECK(select_candidates(all, 0, 0).size() == 6);
  CHECK(tiles(fastest_candidates(all, 2)) == std::vector<std::string>{"a2", "a1", "a4"});
}

TEST_CASE("a plan's candidates have the families of their names, and each can be forced") {
  const VerifiedChain chain = verified(
      "chain c(input x: bf16[16, 4096], weight w: bf16[2048, 4096]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16\n}\n");
  const Plan plan = planned(chain);
  const KernelPlan* kernel = contraction_kernel(plan);
  REQUIRE(kernel != nullptr);
  std::set<std::string> families;
  int chosen = 0;
  for (const Candidate& one : list_candidates(*kernel)) {
    chosen += one.chosen;
    families.insert(one.family);
    if (!one.rejected.empty()) continue;
    INFO(one.tile << " split " << one.split_k);
    const Plan again = planned(chain, forced({}, one));
    CHECK(family_name(again.buckets[0].kernels[0]) == one.family);
  }
  CHECK(chosen == 1);
  CHECK(families == std::set<std::string>{"gemm_sm80", "gemm_sm90", "skinny"});
}

TEST_CASE("a summary's ratios: geometric mean, tenth percentile, worst, by PDL where measured") {
  const RatioSpread spread = ratio_spread({4, 1, 0.25});
  CHECK(spread.geomean == doctest::Approx(1));
  CHECK(spread.worst == 0.25);
  CHECK(spread.p10 == doctest::Approx(0.25 + 0.2 * 0.75));
  CHECK(ratio_spread({}).geomean == 0);
  std::vector<LayerRow> rows = {timed("dense", 10, 5, std::nullopt), timed("small", 10, 10, 5),
                                timed("dense", 10, 20, std::nullopt)};
  rows.push_back(rows[0]);
  rows.back().peer_us.reset();
  rows.emplace_back().kind = "small";  // not timed
  CHECK(*no_pdl_ratio(rows[1]) == 1);
  CHECK(*best_ratio(rows[1]) == 2);
  const std::vector<KindSummary> summaries = summarize(rows);
  REQUIRE(summaries.size() == 3);
  CHECK(summaries[0].kind == "dense");
  CHECK(summaries[0].layers == 3);
  CHECK(summaries[0].timed == 2);
  CHECK(summaries[0].best.geomean == doctest::Approx(1));
  CHECK(summaries[0].worst == std::vector<size_t>{2, 0});
  CHECK(summaries[1].layers == 2);
  CHECK(summaries[1].no_pdl.geomean == doctest::Approx(1));
  CHECK(summaries[1].best.geomean == doctest::Approx(2));
  CHECK(summaries[2].kind == "all");
  CHECK(summaries[2].timed == 3);
  CHECK(summary_table(rows).find("worst of dense") != std::string::npos);
}

TEST_CASE("a sweep verifies every kind and its candidates, without and with PDL") {
  const std::unique_ptr<Session> session = simulated_session();
  if (!session) return;
  const test::TempDir folder;
  const test::ScopedEnv cache("CATENARY_CACHE_DIR", (folder / "cache").c_str());
  std::vector<Layer> layers(7);
  using Kind = Layer::Kind;
  using Epilogue = Layer::Epilogue;
  layers[0] = {Kind::kDense, "dense", DType::kF16, Epilogue::kBiasGelu, 72, 64, 64};
  layers[1] = {Kind::kDense, "small_m", DType::kBF16, Epilogue::kBiasSilu, 3, 64, 128};
  layers[2] = {Kind::kGrouped, "grouped", DType::kBF16, Epilogue::kBias, 24, 32, 64, 3, true};
  layers[3] = {Kind::kDual, "dual", DType::kBF16, Epilogue::kSwiglu, 72, 64, 64};
  layers[4] = {Kind::kExperts, "experts", DType::kBF16, Epilogue::kNone, 9, 64, 64, 3,
               false,          {8, 0, 1}};
  layers[5] = {Kind::kGrouped, "batched", DType::kBF16, Epilogue::kSwiglu, 8, 32, 64, 2};
  layers[6] = {Kind::kDense, "int4", DType::kBF16, Epilogue::kBias, 4, 32, 256};
  layers[6].packed = DType::kI4;
  std::vector<Case> cases;
  for (const Layer& layer : layers) cases.push_back(layer_case(layer));
  RandomPool pool(3);
  SweepOptions options;
  options.timing = shortest();
  options.max_copies = 3;
  options.select = [](const Case&, llvm::ArrayRef<Candidate> candidates) {
    return select_candidates(candidates, 1, 0);
  };
  Record record;
  size_t compiled = 0;
  Error error = run_sweep(
      *session, nullptr, pool, cases, options,
      [&](i64, i64 all) { compiled = static_cast<size_t>(all); },
      [&](LayerRow row) {
        CAPTURE(layer_line(row));
        CHECK(row.verified);
        CHECK(row.note.empty());
        CHECK(row.candidates.size() >= 2);
        CHECK(row.candidates[0].chosen);
        for (const CandidateRow& one : row.candidates) {
          CHECK(one.us.has_value());
          CHECK(one.pdl_us.has_value());
          CHECK_FALSE(one.tile.empty());
          CHECK_FALSE(one.family.empty());
        }
        record.layers.push_back(std::move(row));
        return Error::success();
      });
  CHECK_MESSAGE(!error, take_report(std::move(error)).message);
  REQUIRE(record.layers.size() == 7);
  size_t rows = 0;
  for (const LayerRow& row : record.layers) rows += row.candidates.size();
  CHECK(compiled == rows);
  const llvm::json::Value json = to_json(record);
  const llvm::json::Object& object = *json.getAsObject()->getObject("layers");
  const llvm::json::Array& row = *(*object.getArray("rows"))[0].getAsArray();
  CHECK(row.size() == object.getArray("columns")->size());
  const llvm::json::Array& first = *(*row[13].getAsArray())[0].getAsArray();
  CHECK(first.size() == object.getArray("candidate_columns")->size());
}
