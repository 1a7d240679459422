// catenary | target sm_80 (a100) | kernel ctn_grouped_linear_k0_gemm_m128n128k32
// chain:
//   chain grouped_linear(
//       input x: bf16[2560, 12, 1024],
//       weight w: bf16[12, 3072, 1024],
//       weight b: bf16[12, 3072]) {
//     h = contract "bgk,gnk->bgn"(x, w)
//     t4 = add(h, b @ "gn")
//     y = silu(t4)
//     return y: bf16
//   }
// plan: gemm_sm80: tile 128x128x32, 2 x 2 warps, 4 stages, 64 KiB shared, 2 CTAs per SM
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_grouped_linear_k0_gemm_m128n128k32.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .batch = extents(12), .batch_rank = 1, .m = 2560, .n = 3072, .k = 1024},
    .a = {.slot = 0, .stride_row = 12288, .stride_k = 1, .stride_batch = dims(1024), .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 1024, .stride_k = 1, .stride_batch = dims(3145728), .copy_bytes = 16},
    .tile = {.block_m = 128, .block_n = 128, .block_k = 32, .warps_m = 2, .warps_n = 2, .stages = 4},
    .schedule = {.split_k = 1, .tile_swizzle = 8}, .vec = 8,
};
using P = Params<4, 0>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_b = Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(3072, 0, 1)};
    Loaded<o_b, 8> v_b;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_b = load_operand<Operands::o_b, 8, false>(p, at);  // %b = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_h = sum0;  // %h = contract(%x, %w)
    const Vec<8> v_t4 = map<8, op_add>(v_h, in.v_b.values());  // %t4 = add(%h, %b)
    const Vec<8> v_y = map<8, op_silu>(v_t4);  // %y = silu(%t4)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(3072, 36864, 1)}, 8, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_grouped_linear_k0_gemm_m128n128k32(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

