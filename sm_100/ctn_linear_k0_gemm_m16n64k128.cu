// catenary | target sm_100a (b200) | kernel ctn_linear_k0_gemm_m16n64k128
// chain:
//   chain linear(
//       input x: bf16[24, 32],
//       weight w: bf16[16, 32],
//       weight b: bf16[16]) {
//     h = contract "mk,nk->mn"(x, w)
//     t4 = add(h, b)
//     y = relu(t4)
//     return y: bf16
//   }
// plan: gemm_sm80: tile 16x64x128, 1 x 4 warps, 5 stages, 100 KiB shared, 2 CTAs per SM
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_100a,code=sm_100a -I<catenary>/templates -cubin ctn_linear_k0_gemm_m16n64k128.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 24, .n = 16, .k = 32},
    .a = {.slot = 0, .stride_row = 32, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 32, .stride_k = 1, .copy_bytes = 16},
    .tile = {.block_m = 16, .block_n = 64, .block_k = 128, .warps_m = 1, .warps_n = 4, .stages = 5},
    .schedule = {.split_k = 1, .tile_swizzle = 8}, .vec = 8,
};
using P = Params<4, 0>;
struct Epilogue {
  struct Operands {
    Vec<8> v_b;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_b = load_vec<Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)}, 8, false>(p, at);  // %b = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_h = sum0;  // %h = contract(%x, %w)
    const Vec<8> v_t4 = map<8, op_add>(v_h, in.v_b);  // %t4 = add(%h, %b)
    const Vec<8> v_y = map<8, op_relu>(v_t4);  // %y = relu(%t4)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(16, 1)}, 8, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_linear_k0_gemm_m16n64k128(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }
