// catenary | target sm_80 (a100) | kernel ctn_geglu_mlp_k0_gemm_m128n64k32
// chain:
//   chain geglu_mlp(
//       input x: bf16[8192, 768],
//       weight wg: bf16[3072, 768],
//       weight bg: bf16[3072],
//       weight wu: bf16[3072, 768],
//       weight bu: bf16[3072],
//       weight wd: bf16[768, 3072],
//       weight bd: bf16[768]) {
//     g = contract "mk,nk->mn"(x, wg)
//     u = contract "mk,nk->mn"(x, wu)
//     t9 = add(g, bg)
//     t10 = gelu_tanh(t9)
//     t11 = add(u, bu)
//     t12 = mul(t10, t11)
//     h = cast(t12, bf16)
//     d = contract "mk,nk->mn"(h, wd)
//     y = add(d, bd)
//     return y: bf16
//   }
// plan: gemm_sm80: tile 128x64x32, 2 x 2 warps, 4 stages, 64 KiB shared, 2 CTAs per SM
//   'g' is a contraction: it reads its operands from memory; 'u' shares an operand and an epilogue with it
//   slot 0: parameter 'x'
//   slot 1: parameter 'wg'
//   slot 2: parameter 'wu'
//   slot 3: parameter 'bg'
//   slot 4: parameter 'bu'
//   slot 5: workspace 'h'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_geglu_mlp_k0_gemm_m128n64k32.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 8192, .n = 3072, .k = 768},
    .a = {.slot = 0, .stride_row = 768, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 768, .stride_k = 1, .copy_bytes = 16},
    .b2 = {.slot = 2, .stride_row = 768, .stride_k = 1, .copy_bytes = 16}, .dual = true,
    .tile = {.block_m = 128, .block_n = 64, .block_k = 32, .warps_m = 2, .warps_n = 2, .stages = 4},
    .schedule = {.split_k = 1, .tile_swizzle = 8}, .vec = 8,
};
using P = Params<6, 0>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_bg = Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)};
    Loaded<o_bg, 8> v_bg;
    static constexpr Operand o_bu = Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)};
    Loaded<o_bu, 8> v_bu;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_bg = load_operand<Operands::o_bg, 8, false>(p, at);  // %bg = weight
    in.v_bu = load_operand<Operands::o_bu, 8, false>(p, at);  // %bu = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0, const Vec<8>& sum1) {
    const Vec<8>& v_g = sum0;  // %g = contract(%x, %wg)
    const Vec<8>& v_u = sum1;  // %u = contract(%x, %wu)
    const Vec<8> v_t9 = map<8, op_add>(v_g, in.v_bg.values());  // %t9 = add(%g, %bg)
    const Vec<8> v_t10 = map<8, op_gelu_tanh>(v_t9);  // %t10 = gelu_tanh(%t9)
    const Vec<8> v_t11 = map<8, op_add>(v_u, in.v_bu.values());  // %t11 = add(%u, %bu)
    const Vec<8> v_t12 = map<8, op_mul>(v_t10, v_t11);  // %t12 = mul(%t10, %t11)
    const Vec<8> v_h = round_to<DType::kBF16, 8>(v_t12);  // %h = cast(%t12)
    store_vec<Operand{.slot = 5, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(3072, 1)}, 8, false>(p, at, v_h);  // %h
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_geglu_mlp_k0_gemm_m128n64k32(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

// catenary | target sm_80 (a100) | kernel ctn_geglu_mlp_k1_gemm_m128n128k32
// chain:
//   chain geglu_mlp(
//       input x: bf16[8192, 768],
//       weight wg: bf16[3072, 768],
//       weight bg: bf16[3072],
//       weight wu: bf16[3072, 768],
//       weight bu: bf16[3072],
//       weight wd: bf16[768, 3072],
//       weight bd: bf16[768]) {
//     g = contract "mk,nk->mn"(x, wg)
//     u = contract "mk,nk->mn"(x, wu)
//     t9 = add(g, bg)
//     t10 = gelu_tanh(t9)
//     t11 = add(u, bu)
//     t12 = mul(t10, t11)
//     h = cast(t12, bf16)
//     d = contract "mk,nk->mn"(h, wd)
//     y = add(d, bd)
//     return y: bf16
//   }
// plan: gemm_sm80: tile 128x128x32, 2 x 2 warps, 4 stages, 64 KiB shared, 2 CTAs per SM
//   'd' is a contraction: it reads its operands from memory
//   slot 0: workspace 'h'
//   slot 1: parameter 'wd'
//   slot 2: parameter 'bd'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_geglu_mlp_k1_gemm_m128n128k32.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 8192, .n = 768, .k = 3072},
    .a = {.slot = 0, .stride_row = 3072, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 3072, .stride_k = 1, .copy_bytes = 16},
    .tile = {.block_m = 128, .block_n = 128, .block_k = 32, .warps_m = 2, .warps_n = 2, .stages = 4},
    .schedule = {.split_k = 1, .tile_swizzle = 8}, .vec = 8,
};
using P = Params<4, 0>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_bd = Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)};
    Loaded<o_bd, 8> v_bd;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_bd = load_operand<Operands::o_bd, 8, false>(p, at);  // %bd = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_d = sum0;  // %d = contract(%h, %wd)
    const Vec<8> v_y = map<8, op_add>(v_d, in.v_bd.values());  // %y = add(%d, %bd)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(768, 1)}, 8, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_geglu_mlp_k1_gemm_m128n128k32(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

