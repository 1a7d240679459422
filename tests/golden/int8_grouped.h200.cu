// catenary | target sm_90a (h200) | kernel ctn_int8_grouped_k0_gemm_dequant_t4x8
// chain:
//   chain int8_grouped(
//       input x: bf16[4, 8, 1024],
//       weight q: i8[8, 1000, 1024] packed,
//       weight s: f32[8, 1000, 1]) {
//     w = dequant(q, s) block (1, 1024)
//     y = contract "bgk,gnk->bgn"(x, w)
//     return y: bf16
//   }
// plan: gemm_dequant: 64 rows of W x 8 of X, 1 warpgroup, 2 stages of 256 columns, 41 KiB shared, 4 CTAs per SM, cluster split-K 2
//   'y' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'q'
//   slot 2: parameter 's'
//   slot 3: output 'y'
//   map 0: 'x' as 1024 x 4 x 8 bf16 in boxes of 64 x 8 x 1
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int8_grouped_k0_gemm_dequant_t4x8.cu
#include "kernels/gemm_dequant.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .batch = extents(8), .batch_rank = 1, .m = 4, .n = 1000, .k = 1024},
    .x = {.map = 0, .coord2 = 7},
    .w = {.slot = 1, .dtype = DType::kI8, .block_columns = 1024, .scale = {.slot = 2, .dtype = DType::kF32, .stride_row = 1, .stride_block = 1, .stride_batch = dims(1000)}, .stride_batch = dims(1032192)},
    .tile = {.row_tiles = 4, .columns = 8},
    .loads = {.stages = 2, .stage_blocks = 4},
    .schedule = {.warpgroups = 1, .cluster_k = 2, .n_slices = 16, .ctas_per_sm = 4}, .vec = 8,
};
using P = Params<4, 0, 1>;
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_y = sum0;  // %y = contract(%x, %w)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(1000, 8000, 1)}, 8, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 4)
ctn_int8_grouped_k0_gemm_dequant_t4x8(const __grid_constant__ P p) { gemm_dequant<kConfig, Epilogue>(p); }

