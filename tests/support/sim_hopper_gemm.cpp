// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sim_hopper_gemm.h"

#include <cstring>
#include <fstream>
#include <sstream>

#include "ir/reference/reference.h"
#include "shared/params.h"
#include "simulator/model/tensor_map.h"

namespace catenary::testing {
namespace {

// Must equal the constants of hopper_gemm.cu (kBlockM and so on).
constexpr u32 kThreads = 384;
constexpr u32 kBlock = 128;
constexpr u32 kBoxColumns = 64;
constexpr u32 kSharedBytes = 4 * 2 * kBlock * 128 + 2 * 64 * 256 + 2 * 4 * 8;

struct Parameters {
  TensorMap a, b, d;
  Params<3, 0> args;
};

struct Matrix {
  const char* name;
  sim::RegionRole role;
  i32 rows, columns;
  u32 box_rows;
};

// bf16, rows contiguous.
TensorMap map_of(const Matrix& matrix, u64 base) {
  TensorMapSpec spec;
  spec.dtype = DType::kBF16;
  spec.rank = 2;
  spec.sizes[0] = static_cast<u64>(matrix.columns);
  spec.sizes[1] = static_cast<u64>(matrix.rows);
  spec.strides[0] = static_cast<u64>(matrix.columns) * 2;
  spec.box[0] = kBoxColumns;
  spec.box[1] = matrix.box_rows;
  spec.swizzle = Swizzle::k128;
  spec.base = base;
  return sim::encode_tensor_map(spec);
}

u16 bf16(double value) {
  u16 bits;
  store_element(DType::kBF16, &bits, 0, value);
  return bits;
}

}  // namespace

const std::string& hopper_gemm_text() {
  static const std::string text = [] {
    std::ifstream file(CATENARY_SOURCE_DIR "/tests/instructions/hopper_gemm.cu");
    std::ostringstream all;
    all << file.rdbuf();
    return all.str();
  }();
  return text;
}

Expected<HopperGemm> HopperGemm::make(const std::string& text, const HopperGemmOptions& options,
                                      const HostCompiler& compiler) {
  HopperGemm gemm;
  gemm.options_ = options;
  const std::string symbol = options.cluster ? "hopper_gemm_cluster" : "hopper_gemm";
  // Both kernels of the text get the size: one of them is compiled.
  std::string sized = text;
  size_t found = 0;
  for (size_t at = 0; (at = sized.find("gemm<Gemm{", at)) != std::string::npos; ++at, ++found) {
    const size_t end = sized.find(".cluster", at);
    sized.replace(
        at, end - at,
        fmt::format("gemm<Gemm{{.m = {}, .n = {}, .k = {}, ", options.m, options.n, options.k));
  }
  if (found != 2) {
    return make_error(ErrorCode::kInternal, "hopper_gemm.cu has {} kernels with a size, not 2",
                      found);
  }
  auto compiled = compiler.compile({{symbol, "", sized}, "sm_90a", {}});
  if (!compiled) return compiled.takeError();
  auto object = sim::Object::load(compiled->cubin.image);
  if (!object) return object.takeError();
  gemm.object_ = std::move(*object);
  for (i32 row = 0; row < options.m; ++row) {
    for (i32 column = 0; column < options.n; ++column) {
      i32 sum = 0;
      for (i32 k = 0; k < options.k; ++k) sum += gemm.a(row, k) * gemm.b(column, k);
      gemm.expected_.push_back(bf16(sum));
    }
  }
  return gemm;
}

SimulatedOutcome HopperGemm::check(const u16* d, const sim::Allocation& allocation) const {
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < expected_.size(); ++i) {
    if (!allocation.written[i * 2 / sim::kGranule]) {
      return {"unwritten_output", fmt::format("Element {} of 'd' was not written", i)};
    }
    if (d[i] == expected_[i]) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return {};
  const size_t columns = static_cast<size_t>(options_.n);
  return {"mismatch",
          fmt::format("'d' has {} elements, {} mismatches; first at [{}, {}]: got {}, expected {}",
                      expected_.size(), wrong, first / columns, first % columns,
                      load_element(DType::kBF16, d, static_cast<i64>(first)),
                      load_element(DType::kBF16, expected_.data(), static_cast<i64>(first)))};
}

SimulatedOutcome HopperGemm::run(u64 seed) const {
  const u32 pair = options_.cluster ? 2 : 1;
  const Matrix matrices[] = {{"a", sim::RegionRole::kInput, options_.m, options_.k, kBlock},
                             {"b", sim::RegionRole::kInput, options_.n, options_.k, kBlock / pair},
                             {"d", sim::RegionRole::kOutput, options_.m, options_.n, 64}};
  sim::Memory memory;
  Parameters parameters = {};
  sim::Launch launch;
  u16* d = nullptr;
  for (int i = 0; i < 3; ++i) {
    const Matrix& matrix = matrices[i];
    const i64 bytes = i64{2} * matrix.rows * matrix.columns;
    auto* to = static_cast<u16*>(memory.allocate(bytes));
    d = to;
    if (i != 2) {
      memory.mark(to, bytes, true);
      for (i32 row = 0; row < matrix.rows; ++row) {
        for (i32 k = 0; k < matrix.columns; ++k) {
          to[row * matrix.columns + k] = bf16(i == 0 ? a(row, k) : b(row, k));
        }
      }
    }
    const u64 base = reinterpret_cast<u64>(to);
    (i == 0 ? parameters.a : i == 1 ? parameters.b : parameters.d) = map_of(matrix, base);
    parameters.args.ptr[i] = to;
    launch.regions.push_back({matrix.name, matrix.role, base, bytes});
  }
  launch.object = object_;
  launch.kernel = options_.cluster ? "hopper_gemm_cluster" : "hopper_gemm";
  launch.ctas = options_.ctas * pair;
  launch.cluster_ctas = pair;
  launch.threads = kThreads;
  launch.smem_bytes = kSharedBytes;
  launch.parameters.resize(sizeof parameters);
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  sim::SimulatorOptions options;
  options.seed = seed;
  const i64 bytes = i64{2} * options_.m * options_.n;
  if (Error error = sim::simulate(memory, {launch}, options)) return outcome_of(std::move(error));
  return check(d, *memory.find(d, bytes));
}

}  // namespace catenary::testing
