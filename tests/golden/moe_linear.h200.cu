// catenary | target sm_90a (h200) | kernel ctn_moe_linear_k0_gemm_m128n160k64
// chain:
//   chain moe_linear(
//       input x: bf16[16384, 4096],
//       weight w: bf16[4, 14336, 4096],
//       input ends: i32[4]) {
//     y = contract "mk,enk->mn"(x, w) ragged m by ends over e
//     return y: bf16
//   }
// plan: gemm_sm90: tile 128x160x64, 2 ping-pong warpgroups, 5 stages, 212 KiB shared
//   'y' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'ends'
//   slot 3: output 'y'
//   map 0: 'x' as 4096 x 16384 bf16 in boxes of 64 x 128
//   map 1: 'w' as 4096 x 14336 x 4 bf16 in boxes of 64 x 160 x 1
//   map 2: 'y' as 14336 x 16384 bf16 in boxes of 32 x 16
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_moe_linear_k0_gemm_m128n160k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 16384, .n = 14336, .k = 4096},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true, .coord2 = 9},
    .tile = {.block_m = 128, .block_n = 160, .stages = 5},
    .schedule = {.ping_pong = true, .consumers = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.in_registers = true, .vec = 8},
    .ragged = {.kind = Ragged::kMGrouped, .group_ends_slot = 2, .num_groups = 4},
};
using P = Params<4, 0, 3>;
struct Epilogue {
  struct Columns {
  };
  static CATENARY_DEVICE void load_columns(const P& p, const Coord& at, Columns& in) {
  }
  struct Rows {
  };
  static CATENARY_DEVICE void load_rows(const P& p, const Coord& at, Rows& in) {
  }
  struct Matrices {
  };
  static constexpr int kMatrixCount = 0;
  static constexpr int kOutputCount = 1;
  static constexpr bool kShort = true, kLong = false;
  static constexpr Operand kOutputs[] = {
      Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .streamed = true, .map = 2, .stride = dims(14336, 1)}};
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Vec<2>& sum0, Vec<2>* out) {
    const Vec<2>& v_y = sum0;  // %y = contract(%x, %w)
    out[0] = v_y;  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_moe_linear_k0_gemm_m128n160k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

