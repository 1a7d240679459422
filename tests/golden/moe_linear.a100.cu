// catenary | target sm_80 (a100) | kernel ctn_moe_linear_k0_gemm_m128n128k32
// chain:
//   chain moe_linear(
//       input x: bf16[16384, 4096],
//       weight w: bf16[4, 14336, 4096],
//       input ends: i32[4]) {
//     y = contract "mk,enk->mn"(x, w) ragged m by ends over e
//     return y: bf16
//   }
// plan: gemm_sm80: tile 128x128x32, 2 x 2 warps, 4 stages, 64 KiB shared, 2 CTAs per SM
//   'y' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'ends'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_moe_linear_k0_gemm_m128n128k32.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 16384, .n = 14336, .k = 4096},
    .a = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 4096, .stride_k = 1, .stride_group = 58720256, .copy_bytes = 16},
    .tile = {.block_m = 128, .block_n = 128, .block_k = 32, .warps_m = 2, .warps_n = 2, .stages = 4},
    .schedule = {.split_k = 1, .tile_swizzle = 8}, .vec = 8,
    .ragged = {.kind = Ragged::kMGrouped, .group_ends_slot = 2, .num_groups = 4},
};
using P = Params<4, 0>;
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_y = sum0;  // %y = contract(%x, %w)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(14336, 1)}, 8, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_moe_linear_k0_gemm_m128n128k32(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

