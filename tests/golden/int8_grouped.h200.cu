// catenary | target sm_90a (h200) | kernel ctn_int8_grouped_k0_skinny_dequant_w8t1
// chain:
//   chain int8_grouped(
//       input x: bf16[4, 8, 1024],
//       weight q: i8[8, 1000, 1024] packed,
//       weight s: f32[8, 1000, 1]) {
//     w = dequant(q, s) block (1, 1024)
//     y = contract "bgk,gnk->bgn"(x, w)
//     return y: bf16
//   }
// plan: skinny_dequant: 16 rows of W, 8 warps, 1 stages of 128 columns each, 25 KiB shared, 4 CTAs per SM
//   'y' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'q'
//   slot 2: parameter 's'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int8_grouped_k0_skinny_dequant_w8t1.cu
#include "kernels/skinny_dequant.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .batch = extents(8), .batch_rank = 1, .m = 4, .n = 1000, .k = 1024},
    .x = {.slot = 0, .stride_row = 8192, .stride_k = 1, .stride_batch = dims(1024), .copy_bytes = 16},
    .w = {.slot = 1, .dtype = DType::kI8, .block_columns = 1024, .scale = {.slot = 2, .dtype = DType::kF32, .stride_row = 1, .stride_block = 1, .stride_batch = dims(1000)}, .stride_batch = dims(1032192)},
    .tile = {.warps = 8, .row_tiles = 1, .columns = 8},
    .loads = {.stages = 1, .stage_chunks = 1, .x_stages = 1, .x_chunks = 1},
    .schedule = {.cluster_k = 1, .n_slices = 63}, .vec = 2,
};
using P = Params<4, 0>;
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<2>& sum0) {
    const Vec<2>& v_y = sum0;  // %y = contract(%x, %w)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(1000, 8000, 1)}, 2, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 4)
ctn_int8_grouped_k0_skinny_dequant_w8t1(const __grid_constant__ P p) { skinny_dequant<kConfig, Epilogue>(p); }

