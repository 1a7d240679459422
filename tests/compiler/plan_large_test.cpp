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

i32 raster(const std::string& chain, const std::string& tile) {
  PlanOptions options;
  options.force_tile = tile;
  return config(planned(chain, options)).schedule.tile_swizzle;
}

}  // namespace

TEST_CASE("bands are square where B stays in L2 and there are tiles for blocks") {
  const std::string single = "128x128x64p2s6";
  CHECK(raster(dense(8192, 4096, 1024), single) == 4);
  CHECK(raster(groups("relu(add(t, b @ \"gn\"))"), single) == 4);
  SUBCASE("B is 32 MiB of an L2 of 60") { CHECK(raster(dense(8192, 4096, 4096), single) == 8); }
  SUBCASE("six columns of tiles") { CHECK(raster(dense(8192, 768, 1024), single) == 8); }
  SUBCASE("fewer than two waves") { CHECK(raster(dense(2048, 2048, 1024), single) == 8); }
  SUBCASE("M clusters of two that share A go along N") {
    CHECK(raster(dense(8192, 4096, 1024), single + "c2") == 2);
    CHECK(raster(dense(8192, 4096, 4096), single + "c2") == 8);
  }
  SUBCASE("N clusters of two that share B go along M") {
    CHECK(raster(dense(4096, 4096, 1024), single + "n2") == 32);
    CHECK(raster(dense(32768, 4096, 1024), single + "n2") == 4);
  }
  SUBCASE("larger clusters") { CHECK(raster(dense(8192, 4096, 1024), single + "c2n2") == 8); }
  SUBCASE("ragged rows") {
    const char* ragged =
        "chain a(input x: bf16[8192, 1024], weight w: bf16[2, 2048, 1024], input ends: i32[2]) {\n"
        "  y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n  return y: bf16 }";
    CHECK(raster(ragged, single) == 8);
  }
}
