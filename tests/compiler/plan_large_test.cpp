// SPDX-License-Identifier: Apache-2.0
// What `gemm_sm90` chooses for kernels of many waves: bands of tiles, clusters, ping-pong.
#include <string>

#include "compiler/families/gemm_sm90/candidates.h"
#include "tests/support/gemm_sm90_plan.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

const std::string kGroups =
    "(input x: bf16[2560, 12, 1024], weight w: bf16[12, 3072, 1024], weight b: bf16[12, 3072]) {\n"
    "  t = contract \"bgk,gnk->bgn\"(x, w)\n  y = ";

std::string groups(const std::string& epilogue) {
  return "chain a" + kGroups + epilogue + "\n  return y: bf16 }";
}

std::string dense(i64 m, i64 n, i64 k, const std::string& dtype = "bf16") {
  return fmt::format(
      "chain a(input x: {3}[{0}, {2}], weight w: {3}[{1}, {2}]) {{\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  return y: {3} }}",
      m, n, k, dtype);
}

std::string gated(i64 m, i64 n, i64 k) {
  return fmt::format(
      "chain a(input x: bf16[{0}, {2}], weight v: bf16[{1}, {2}], weight w: bf16[{1}, {2}]) {{\n"
      "  g = contract \"mk,nk->mn\"(x, v)\n  u = contract \"mk,nk->mn\"(x, w)\n"
      "  y = mul(silu(g), u)\n  return y: bf16 }}",
      m, n, k);
}

i32 raster(const std::string& chain, const std::string& tile) {
  PlanOptions options;
  options.force_tile = tile;
  return config(planned(chain, options)).tile_swizzle;
}

}  // namespace

TEST_CASE("bands are square where B stays in L2 and there are tiles for blocks") {
  const std::string single = "128x128x64p2s6";
  CHECK(raster(dense(8192, 4096, 1024), single) == 4);
  CHECK(raster(groups("relu(add(t, b @ \"gn\"))"), single) == 4);
  SUBCASE("B is 32 MiB of an L2 of 60") { CHECK(raster(dense(8192, 4096, 4096), single) == 8); }
  SUBCASE("six columns of tiles") { CHECK(raster(dense(8192, 768, 1024), single) == 8); }
  SUBCASE("fewer than two waves") { CHECK(raster(dense(2048, 2048, 1024), single) == 8); }
  SUBCASE("pairs of CTAs share B") { CHECK(raster(dense(8192, 4096, 1024), single + "c2") == 8); }
  SUBCASE("ragged rows") {
    const char* ragged =
        "chain a(input x: bf16[8192, 1024], weight w: bf16[2, 2048, 1024], input ends: i32[2]) {\n"
        "  y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n  return y: bf16 }";
    CHECK(raster(ragged, single) == 8);
  }
}

TEST_CASE("CTAs share B behind long epilogues, where the sum over K is short") {
  CHECK(config(planned(groups("relu(add(t, b @ \"gn\"))"))).cluster_m == 1);
  const Plan plan = planned(groups("silu(add(t, b @ \"gn\"))"));
  CHECK(config(plan).cluster_m == 2);
  CHECK(config(plan).ping_pong);
}

TEST_CASE("CTAs of ragged terms share B, in bands of four clusters") {
  // By more than one clock: the choice is not to hang by a thread.
  Target target = llvm::cantFail(find_target("h200"));
  for (const double clock : {target.clock_ghz, 1.83}) {
    target.clock_ghz = clock;
    for (const int groups : {4, 8, 64}) {
      const auto plan = llvm::cantFail(make_plan(
          verified(fmt::format("chain a(input dy: bf16[16384, 14336], input x: bf16[16384, 4096],\n"
                               "        input ends: i32[{0}]) {{\n"
                               "  dw = contract \"mn,mk->enk\"(dy, x) ragged m by ends over e\n"
                               "  return dw: bf16 }}",
                               groups)),
          target));
      CHECK(config(plan).ping_pong);
      CHECK(config(plan).cluster_m == 2);
      CHECK(config(plan).tile_swizzle == 4);
    }
  }
}

TEST_CASE("at the power limit ping-pong is cheaper, but not in tf32") {
  CHECK(config(planned(dense(4096, 4096, 4096))).ping_pong);
  CHECK(config(planned(gated(8192, 16384, 4096))).ping_pong);
  CHECK_FALSE(config(planned(gated(512, 11008, 4096))).ping_pong);
  CHECK_FALSE(config(planned(dense(8192, 4096, 4096, "f32"))).ping_pong);
}
