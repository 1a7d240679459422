// SPDX-License-Identifier: Apache-2.0
// The benchmark's sweeps: their shapes, and in the simulator, which keeps no time, what leads up to
// the timing.
#include <doctest/doctest.h>

#include <set>
#include <tuple>

#include "bench/sweep/sweep.h"
#include "bench/sweep/sweep_gemm.h"
#include "tests/support/bench_session.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using namespace catenary::bench;
using test::planned;
using test::shortest;
using test::simulated_session;
using test::verified;

TEST_CASE("a sweep's shards share out its shapes, all M of a matrix together") {
  const std::vector<SweepShape> all = sweep_shapes(1, 1);
  CHECK(all.size() == 640);
  const auto key = [](const SweepShape& s) { return std::tuple(s.k, s.n, s.m); };
  std::set<std::tuple<i64, i64, i64>> seen;
  for (const SweepShape& s : all) CHECK(seen.insert(key(s)).second);
  for (int shard = 1; shard <= 3; ++shard) {
    const std::vector<SweepShape> part = sweep_shapes(shard, 3);
    CHECK(part.size() % 10 == 0);
    for (size_t i = 0; i < part.size(); ++i) {
      CHECK(seen.erase(key(part[i])) == 1);
      if (i % 10 > 0) CHECK(part[i].n == part[i - 1].n);
      if (i % 10 > 0) CHECK(part[i].k == part[i - 1].k);
    }
  }
  CHECK(seen.empty());
}

TEST_CASE("every shape of a sweep rotates through more than twice the L2, in bounded memory") {
  const std::vector<SweepShape> shapes = sweep_shapes(1, 1);
  const i64 l2 = (*find_target("h200")).l2_bytes;
  const int most = quick_sweep().max_copies;
  const i64 arena = sweep_arena_bytes(shapes, l2, most);
  CHECK(arena <= i64{4} << 30);
  for (const SweepShape& s : shapes) {
    const i64 bytes = 2 * s.n * s.k;
    const int copies = sweep_copies(bytes, arena, most);
    CHECK(copies >= 2);
    CHECK(copies * bytes <= arena);
    CHECK(copies * bytes > 2 * l2);
  }
}

TEST_CASE("a sweep verifies each shape, plain and overlapped") {
  const std::unique_ptr<Session> session = simulated_session();
  if (!session) return;
  const test::TempDir folder;
  const test::ScopedEnv cache("CATENARY_CACHE_DIR", (folder / "cache").c_str());
  RandomPool pool(3);
  SweepOptions options;
  options.timing = shortest();
  options.max_copies = 3;
  const std::vector<SweepShape> shapes = {{1, 64, 128}, {3, 64, 128}, {17, 72, 256}};
  Record record;
  Error error = run_sweep(*session, nullptr, pool, shapes, options, [&](SweepRow row) {
    CAPTURE(row.note);
    CHECK(row.verified);
    CHECK(row.note.empty());
    CHECK(row.us.has_value());
    CHECK(row.overlap_us.has_value());
    CHECK_FALSE(row.peer_us.has_value());
    CHECK_FALSE(row.config.empty());
    record.sweep.push_back(std::move(row));
    return Error::success();
  });
  CHECK_MESSAGE(!error, take_report(std::move(error)).message);
  REQUIRE(record.sweep.size() == 3);
  const llvm::json::Value json = to_json(record);
  const llvm::json::Object& sweep = *json.getAsObject()->getObject("sweep");
  const size_t columns = sweep.getArray("columns")->size();
  for (const llvm::json::Value& row : *sweep.getArray("rows")) {
    CHECK(row.getAsArray()->size() == columns);
  }
  CHECK(sweep.getArray("configs")->size() >= 1);
}

TEST_CASE("the sweep of large contractions plans every shape and shards them") {
  const std::vector<GemmShape> all = gemm_sweep_shapes(1, 1);
  CHECK(all.size() > 150);
  CHECK(all.size() < 250);
  size_t dealt = 0;
  for (int shard = 1; shard <= 5; ++shard) dealt += gemm_sweep_shapes(shard, 5).size();
  CHECK(dealt == all.size());
  std::set<std::string> texts;
  for (const GemmShape& shape : all) {
    const std::string text = gemm_shape_text(shape);
    CHECK_MESSAGE(texts.insert(text).second, text);
    const Plan plan = planned(verified(text));
    const std::vector<TileOption> timed =
        tiles_to_time(plan.buckets[0].kernels[0].tiles, shape, quick_gemm_sweep());
    REQUIRE(timed.size() >= 2);
    CHECK(timed.size() <= 10);
    CHECK(timed[0].chosen);
    std::set<std::pair<std::string, int>> names;
    for (const TileOption& tile : timed) {
      CHECK(tile.rejected.empty());
      CHECK(names.insert({tile.name, tile.split_k}).second);
    }
  }
}

TEST_CASE("the sweep of large contractions verifies and times candidates, gated and batched too") {
  const std::unique_ptr<Session> session = simulated_session();
  if (!session) return;
  const test::TempDir folder;
  const test::ScopedEnv cache("CATENARY_CACHE_DIR", (folder / "cache").c_str());
  RandomPool pool(3);
  GemmSweepOptions options;
  options.timing = shortest();
  options.max_copies = 2;
  options.top = 1;
  options.fixed = false;
  const std::vector<GemmShape> shapes = {{1, 72, 64, 128}, {2, 8, 16, 64}, {1, 65, 64, 64, true}};
  Record record;
  size_t compiled = 0;
  Error error = run_gemm_sweep(
      *session, pool, shapes, options, [&](size_t candidates) { compiled = candidates; },
      [&](GemmSweepRow row) {
        CAPTURE(gemm_sweep_line(row));
        CHECK(row.verified);
        CHECK(row.note.empty());
        REQUIRE(row.tiles.size() == 2);
        for (const TileRow& tile : row.tiles) CHECK(tile.us.has_value());
        CHECK(row.tiles[0].chosen);
        CHECK_FALSE(row.tiles[1].chosen);
        record.gemm_sweep.push_back(std::move(row));
        return Error::success();
      });
  CHECK_MESSAGE(!error, take_report(std::move(error)).message);
  CHECK(compiled == 6);
  const llvm::json::Value json = to_json(record);
  const llvm::json::Object& sweep = *json.getAsObject()->getObject("gemm_sweep");
  REQUIRE(sweep.getArray("rows")->size() == 3);
  const size_t columns = sweep.getArray("columns")->size();
  const llvm::json::Array& row = *(*sweep.getArray("rows"))[0].getAsArray();
  CHECK(row.size() == columns);
  const llvm::json::Array& tile = *(*row[6].getAsArray())[0].getAsArray();
  CHECK(tile.size() == sweep.getArray("tile_columns")->size());
}
