// catenary | target sm_90a (h100) | kernel ctn_a_k0_skinny_w4x2
// chain:
//   chain a(
//       input x: bf16[5, 1088],
//       weight w: bf16[39, 1088],
//       weight b: f32[39] align 4) {
//     t3 = contract "mk,nk->mn"(x, w)
//     t4 = add(t3, b)
//     y = silu(t4)
//     return y: bf16 align 2
//   }
// plan: skinny: 32 rows of W, 4 x 2 warps, of K 384 bytes per warp shared and 256 in registers, 50 KiB shared, 2 CTAs per SM
//   't3' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_a_k0_skinny_w4x2.cu
#include "kernels/skinny.cuh"
namespace {
using namespace catenary;
constexpr SkinnyConfig kConfig{
    .math = MathMode::kBF16,
    .m = 5, .n = 39, .blocks = 17,
    .x = {.slot = 0, .stride_row = 1088, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .stride_row = 1088, .stride_k = 1, .copy_bytes = 16},
    .warps_k = 4, .warps_n = 2, .shared_blocks = 3, .register_blocks = 2,
    .columns = 8, .groups = 4, .x_parts = 2, .split_k = 1, .vec = 2,
};
using P = Params<4, 0>;
struct Epilogue {
  struct Operands {
    Vec<2> v_b;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_b = load_vec<Operand{.slot = 2, .dtype = DType::kF32, .weight = true, .early = true, .stride = dims(1)}, 2, true>(p, at);  // %b = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<2>& sum0) {
    const Vec<2>& v_t3 = sum0;  // %t3 = contract(%x, %w)
    const Vec<2> v_t4 = map<2, op_add>(v_t3, in.v_b);  // %t4 = add(%t3, %b)
    const Vec<2> v_y = map<2, op_silu>(v_t4);  // %y = silu(%t4)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .stride = dims(39, 1)}, 2, true>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 2)
ctn_a_k0_skinny_w4x2(const __grid_constant__ P p) { skinny<kConfig, Epilogue>(p); }
