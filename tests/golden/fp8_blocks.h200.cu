// catenary | target sm_90a (h200) | kernel ctn_fp8_blocks_k0_gemm_m256n128k128
// chain:
//   chain fp8_blocks(
//       input x: e4m3[4096, 7168],
//       input sx: f32[4096, 56] strides[1, 4096],
//       weight w: e4m3[4096, 7168],
//       weight sw: f32[32, 56]) {
//     t4 = dequant(x, sx) block (1, 128)
//     t5 = dequant(w, sw) block (128, 128)
//     h = contract "mk,nk->mn"(t4, t5)
//     y = silu(h)
//     return y: bf16
//   }
// plan: gemm_sm90: tile 256x128x128, 2 cooperative warpgroups, 4 stages, 224 KiB shared
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'sx'
//   slot 2: parameter 'w'
//   slot 3: parameter 'sw'
//   slot 4: output 'y'
//   map 0: 'x' as 7168 x 4096 e4m3 in boxes of 128 x 256
//   map 1: 'w' as 7168 x 4096 e4m3 in boxes of 128 x 128
//   map 2: 'y' as 4096 x 4096 bf16 in boxes of 64 x 16
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_fp8_blocks_k0_gemm_m256n128k128.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kE4M3, .m = 4096, .n = 4096, .k = 7168},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true},
    .block_scaled = true, .scale_a = {.slot = 1, .rows = 1, .columns = 128, .stride_row = 1, .stride_column = 4096},
    .scale_b = {.slot = 3, .rows = 128, .columns = 128, .stride_row = 56, .stride_column = 1},
    .tile = {.block_m = 256, .block_n = 128, .stages = 4},
    .schedule = {.consumers = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.in_registers = true, .vec = 8},
};
using P = Params<5, 0, 3>;
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
  static constexpr bool kShort = false, kLong = false;
  static constexpr Operand kOutputs[] = {
      Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .streamed = true, .map = 2, .stride = dims(4096, 1)}};
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Vec<2>& sum0, Vec<2>* out) {
    const Vec<2>& v_h = sum0;  // %h = contract(%t4, %t5)
    const Vec<2> v_y = map<2, op_silu>(v_h);  // %y = silu(%h)
    out[0] = v_y;  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_fp8_blocks_k0_gemm_m256n128k128(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

