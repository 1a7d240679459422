// SPDX-License-Identifier: Apache-2.0
// `catenary run` with files of numpy: what is converted and what is not, values without a finite
// one.
#include <fstream>

#include "ir/npy.h"
#include "ir/reference/reference.h"
#include "tests/support/cli_command.h"

using namespace catenary;
using namespace catenary::test;

namespace {

// An .npy file of elements of 8 bytes, which write_npy() has none of.
void write_wide(const std::string& path, const char* descr, const char* shape, const void* data,
                size_t count) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  header.resize(117, ' ');
  std::ofstream file(path, std::ios::binary);
  file << std::string_view("\x93NUMPY\x01\0\x76\0", 10) << header << '\n';
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(count * 8));
}

}  // namespace

TEST_CASE("the symbol is the size that a file has") {
  Command command;
  TensorType type;
  type.shape = {{3, false}, {8, false}};
  const std::vector<float> x(9 * 8, 1.5f);
  Error error = write_npy(command.path("x.npy"), type, x.data());
  REQUIRE_FALSE(static_cast<bool>(error));
  std::ofstream(command.path("rows.chain"))
      << "chain rows[M in 1..8](input a: f32[8], input x: f32[M, 8]) {\n"
         "  y = add(x, a)\n  return y: f32\n}\n";
  const std::string run =
      fmt::format("run --device ref {} --output y={} --input x={}", command.path("rows.chain"),
                  command.path("y.npy"), command.path("x.npy"));
  CHECK(command(run).exit_code == 0);
  Expected<NpyArray> y = read_npy(command.path("y.npy"));
  REQUIRE(static_cast<bool>(y));
  CHECK(y->type.shape == type.shape);
  expect_error(command(run + " --symbol 4"), 2, {"has f32[3, 8]", "is f32[4, 8]"});
  type.shape[0].size = 9;
  error = write_npy(command.path("x.npy"), type, x.data());
  REQUIRE_FALSE(static_cast<bool>(error));
  expect_error(command(run), 2,
               {"has 9 where parameter 'x' has M", "1..8", "save an array with a size"});
}

TEST_CASE("floats are converted where it is asked for") {
  Command command;
  TensorType type;
  type.shape = {{24, false}, {32, false}};
  std::vector<float> x(24 * 32, 1.00390625f);  // half-way between two bf16: to the even one, 1
  x[1] = 1.01171875f;                          // likewise, to 1.015625
  Error error = write_npy(command.path("x.npy"), type, x.data());
  REQUIRE_FALSE(static_cast<bool>(error));
  std::ofstream(command.path("copy.chain"))
      << "chain copy(input x: bf16[24, 32]) {\n  y = relu(x)\n  return y: bf16\n}\n";
  const std::string run = fmt::format("run --device ref {} --input x={}",
                                      command.path("copy.chain"), command.path("x.npy"));
  expect_error(command(run), 2, {"f32[24, 32]", "add :round"});
  const CommandResult result =
      command(run + fmt::format(":round --output y={}:f32", command.path("y.npy")));
  INFO(result.err);
  CHECK(result.exit_code == 0);
  Expected<NpyArray> y = read_npy(command.path("y.npy"));
  REQUIRE(static_cast<bool>(y));
  CHECK(y->type.dtype == DType::kF32);
  CHECK(load_element(DType::kF32, y->bytes.data(), 0) == 1.0);
  CHECK(load_element(DType::kF32, y->bytes.data(), 1) == 1.015625);
  // No other conversion.
  expect_error(command(run + ":rnd"), 2, {"x.npy:rnd'", "'rnd'", "give :round or none"});
  expect_error(command(run + fmt::format(":round --output y={}:f64", command.path("z.npy"))), 2,
               {"z.npy:f64'", "give :f32 or none"});
  CHECK_FALSE(command.exists("z.npy:f64"));
  // No integers, and no other shape.
  type.shape = {{32, false}, {24, false}};
  Error reshaped = write_npy(command.path("x.npy"), type, x.data());
  REQUIRE_FALSE(static_cast<bool>(reshaped));
  expect_error(command(run + ":round"), 2, {"has f32[32, 24]", "bf16[24, 32]"});
  type.dtype = DType::kI32;
  Error integers = write_npy(command.path("x.npy"), type, x.data());
  REQUIRE_FALSE(static_cast<bool>(integers));
  expect_error(command(run + ":round"), 2, {"i32[32, 24]"});
}

TEST_CASE("integers of 8 bits have the shape of their parameter, or are its memory") {
  Command command;
  std::ofstream(command.path("q.chain"))
      << "chain q(input x: bf16[4, 16], weight q: i8[8, 16], weight s: f32[8, 1]) {\n"
         "  w = dequant(q, s) block (1, 16)\n  y = contract \"mk,nk->mn\"(x, w)\n"
         "  return y: f32\n}\n";
  const std::vector<std::byte> bytes(128, std::byte{1});
  const std::string run = fmt::format("run --device ref {} --input q={}", command.path("q.chain"),
                                      command.path("q.npy"));
  TensorType type;
  type.dtype = DType::kI8;
  for (const llvm::SmallVector<Dim, 4>& shape : {llvm::SmallVector<Dim, 4>{{8, false}, {16, false}},
                                                 {{128, false}},
                                                 {{16, false}, {8, false}}}) {
    type.shape = shape;
    Error error = write_npy(command.path("q.npy"), type, bytes.data());
    REQUIRE_FALSE(static_cast<bool>(error));
    if (shape[0].size == 16) {
      expect_error(command(run), 2,
                   {"i8[16, 8]", "'q' is i8[8, 16]", "save an array of that shape"});
    } else {
      CHECK(command(run).exit_code == 0);
    }
  }
}

TEST_CASE("float64 is rounded once, int64 is taken where every value fits") {
  Command command;
  std::ofstream(command.path("copy.chain"))
      << "chain copy(input x: bf16[2]) {\n  y = relu(x)\n  return y: bf16\n}\n";
  // By way of f32 the first were half-way between two bf16, and would become 1.
  const double x[] = {1.00390625 + 0x1p-40, 3.5};
  write_wide(command.path("x.npy"), "<f8", "(2,)", x, 2);
  const std::string run = fmt::format("run --device ref {} --input x={}",
                                      command.path("copy.chain"), command.path("x.npy"));
  expect_error(command(run), 2, {"has f64[2]", "bf16[2]", "add :round"});
  const CommandResult result =
      command(run + fmt::format(":round --output y={}:f32", command.path("y.npy")));
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  Expected<NpyArray> y = read_npy(command.path("y.npy"));
  REQUIRE(static_cast<bool>(y));
  CHECK(load_element(DType::kF32, y->bytes.data(), 0) == 1.0078125);
  CHECK(load_element(DType::kF32, y->bytes.data(), 1) == 3.5);

  const std::string check = fmt::format("check --device ref {} --input ends={}", chain("experts"),
                                        command.path("ends.npy"));
  i64 ends[] = {4, 8, 20, 30};
  write_wide(command.path("ends.npy"), "<i8", "(4,)", ends, 4);
  CHECK(command(check).exit_code == 0);
  CHECK(command(check + ":round").exit_code == 0);
  ends[3] = (i64{1} << 32) + 30;
  write_wide(command.path("ends.npy"), "<i8", "(4,)", ends, 4);
  expect_error(command(check), 2, {"has 4294967326 as element 3", "i32", "2147483647"});
  // No integers as floats.
  expect_error(command(run.substr(0, run.rfind('=') + 1) + command.path("ends.npy") + ":round"), 2,
               {"has i64[4]", "bf16[2]"});
}

TEST_CASE("an output without a finite element is said to have none") {
  Command command;
  std::ofstream(command.path("log.chain"))
      << "chain log(input x: f32[3]) {\n  y = log(x)\n  return y: f32\n}\n";
  TensorType type;
  type.shape = {{3, false}};
  const auto printed = [&](const std::vector<float>& x) {
    Error error = write_npy(command.path("x.npy"), type, x.data());
    REQUIRE_FALSE(static_cast<bool>(error));
    return command(fmt::format("run --device ref {} --input x={}", command.path("log.chain"),
                               command.path("x.npy")))
        .out;
  };
  const std::string none = printed({-1, -2, 0});
  CAPTURE(none);
  CHECK(has(none, "none of 3 elements is finite"));
  CHECK_FALSE(has(none, "min"));
  CHECK(has(printed({-1, 1, 1}), "min 0, max 0, mean 0, 1 not finite"));
}
