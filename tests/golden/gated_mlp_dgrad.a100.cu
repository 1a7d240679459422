// catenary | target sm_80 (a100) | kernel ctn_gated_mlp_dgrad_k0_gemm_m128n128k32
// chain:
//   chain gated_mlp_dgrad(
//       weight wg: bf16[14336, 4096],
//       weight wu: bf16[14336, 4096],
//       weight wd: bf16[4096, 14336],
//       input g: bf16[8192, 14336],
//       input u: bf16[8192, 14336],
//       input d_y: bf16[8192, 4096]) {
//     t6 = silu(g)
//     t7 = mul(t6, u)
//     h = cast(t7, bf16)
//     d_h = contract "mn,nk->mk"(d_y, wd)
//     d_t7 = cast(d_h, bf16)
//     d_t6 = mul(d_t7, u)
//     d_u = mul(d_t7, t6)
//     t0 = sigmoid(g)
//     t1 = constant(1)
//     t2 = sub(t1, t0)
//     t3 = mul(g, t2)
//     t4 = add(t1, t3)
//     t5 = mul(t0, t4)
//     d_g = mul(d_t6, t5)
//     d_u_bf16 = cast(d_u, bf16)
//     t8 = contract "mn,nk->mk"(d_u_bf16, wu)
//     d_g_bf16 = cast(d_g, bf16)
//     t9 = contract "mn,nk->mk"(d_g_bf16, wg)
//     d_x = add(t8, t9)
//     return d_x: bf16, h: bf16, d_u_bf16: bf16, d_g_bf16: bf16
//   }
// plan: gemm_sm80: tile 128x128x32, 2 x 2 warps, 4 stages, 64 KiB shared, 2 CTAs per SM
//   'd_h' is a contraction: it reads its operands from memory; 'h' joins it: it needs only tensors that the kernel reads anyway
//   slot 0: parameter 'd_y'
//   slot 1: parameter 'wd'
//   slot 2: parameter 'g'
//   slot 3: parameter 'u'
//   slot 4: output 'h'
//   slot 5: output 'd_u_bf16'
//   slot 6: output 'd_g_bf16'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_gated_mlp_dgrad_k0_gemm_m128n128k32.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 8192, .n = 14336, .k = 4096},
    .a = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 1, .stride_k = 14336, .k_major = false, .copy_bytes = 16},
    .tile = {.block_m = 128, .block_n = 128, .block_k = 32, .warps_m = 2, .warps_n = 2, .stages = 4},
    .schedule = {.split_k = 1, .tile_swizzle = 8}, .vec = 8,
};
using P = Params<7, 0>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_g = Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(14336, 1)};
    Loaded<o_g, 8> v_g;
    static constexpr Operand o_u = Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(14336, 1)};
    Loaded<o_u, 8> v_u;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_g = load_operand<Operands::o_g, 8, false>(p, at);  // %g = input
    in.v_u = load_operand<Operands::o_u, 8, false>(p, at);  // %u = input
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_d_h = sum0;  // %d_h = contract(%d_y, %wd)
    const Vec<8> v_t6 = map<8, op_silu>(in.v_g.values());  // %t6 = silu(%g)
    const Vec<8> v_t7 = map<8, op_mul>(v_t6, in.v_u.values());  // %t7 = mul(%t6, %u)
    const Vec<8> v_h = round_to<DType::kBF16, 8>(v_t7);  // %h = cast(%t7)
    store_vec<Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(14336, 1)}, 8, false>(p, at, v_h);  // %h
    const Vec<8> v_d_t7 = round_to<DType::kBF16, 8>(v_d_h);  // %d_t7 = cast(%d_h)
    const Vec<8> v_d_u = map<8, op_mul>(v_d_t7, v_t6);  // %d_u = mul(%d_t7, %t6)
    const Vec<8> v_d_u_bf16 = round_to<DType::kBF16, 8>(v_d_u);  // %d_u_bf16 = cast(%d_u)
    store_vec<Operand{.slot = 5, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(14336, 1)}, 8, false>(p, at, v_d_u_bf16);  // %d_u_bf16
    const Vec<8> v_d_t6 = map<8, op_mul>(v_d_t7, in.v_u.values());  // %d_t6 = mul(%d_t7, %u)
    const Vec<8> v_t0 = map<8, op_sigmoid>(in.v_g.values());  // %t0 = sigmoid(%g)
    const float v_t1 = 1.0f;  // %t1 = constant
    const Vec<8> v_t2 = map<8, op_sub>(v_t1, v_t0);  // %t2 = sub(%t1, %t0)
    const Vec<8> v_t3 = map<8, op_mul>(in.v_g.values(), v_t2);  // %t3 = mul(%g, %t2)
    const Vec<8> v_t4 = map<8, op_add>(v_t1, v_t3);  // %t4 = add(%t1, %t3)
    const Vec<8> v_t5 = map<8, op_mul>(v_t0, v_t4);  // %t5 = mul(%t0, %t4)
    const Vec<8> v_d_g = map<8, op_mul>(v_d_t6, v_t5);  // %d_g = mul(%d_t6, %t5)
    const Vec<8> v_d_g_bf16 = round_to<DType::kBF16, 8>(v_d_g);  // %d_g_bf16 = cast(%d_g)
    store_vec<Operand{.slot = 6, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(14336, 1)}, 8, false>(p, at, v_d_g_bf16);  // %d_g_bf16
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_gated_mlp_dgrad_k0_gemm_m128n128k32(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

// catenary | target sm_80 (a100) | kernel ctn_gated_mlp_dgrad_k1_gemm_m128n128k32
// chain:
//   chain gated_mlp_dgrad(
//       weight wg: bf16[14336, 4096],
//       weight wu: bf16[14336, 4096],
//       weight wd: bf16[4096, 14336],
//       input g: bf16[8192, 14336],
//       input u: bf16[8192, 14336],
//       input d_y: bf16[8192, 4096]) {
//     t6 = silu(g)
//     t7 = mul(t6, u)
//     h = cast(t7, bf16)
//     d_h = contract "mn,nk->mk"(d_y, wd)
//     d_t7 = cast(d_h, bf16)
//     d_t6 = mul(d_t7, u)
//     d_u = mul(d_t7, t6)
//     t0 = sigmoid(g)
//     t1 = constant(1)
//     t2 = sub(t1, t0)
//     t3 = mul(g, t2)
//     t4 = add(t1, t3)
//     t5 = mul(t0, t4)
//     d_g = mul(d_t6, t5)
//     d_u_bf16 = cast(d_u, bf16)
//     t8 = contract "mn,nk->mk"(d_u_bf16, wu)
//     d_g_bf16 = cast(d_g, bf16)
//     t9 = contract "mn,nk->mk"(d_g_bf16, wg)
//     d_x = add(t8, t9)
//     return d_x: bf16, h: bf16, d_u_bf16: bf16, d_g_bf16: bf16
//   }
// plan: gemm_sm80: tile 128x128x32, 2 x 2 warps, 4 stages, 64 KiB shared, 2 CTAs per SM, 2 K segments
//   't8', 't9' are contractions that add up to 'd_x': they read their operands from memory and have one accumulator
//   slot 0: output 'd_u_bf16'
//   slot 1: parameter 'wu'
//   slot 2: output 'd_g_bf16'
//   slot 3: parameter 'wg'
//   slot 4: output 'd_x'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_gated_mlp_dgrad_k1_gemm_m128n128k32.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 8192, .n = 4096, .k = 14336},
    .a = {.slot = 0, .stride_row = 14336, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 1, .stride_k = 4096, .k_major = false, .copy_bytes = 16},
    .segments = 2, .more = {{.a = {.slot = 2, .stride_row = 14336, .stride_k = 1, .copy_bytes = 16}, .b = {.slot = 3, .stride_row = 1, .stride_k = 4096, .k_major = false, .copy_bytes = 16}, .k = 14336}},
    .tile = {.block_m = 128, .block_n = 128, .block_k = 32, .warps_m = 2, .warps_n = 2, .stages = 4},
    .schedule = {.split_k = 1, .tile_swizzle = 8}, .vec = 8,
};
using P = Params<5, 0>;
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_d_x = sum0;  // %d_x = add(%t8, %t9)
    store_vec<Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(4096, 1)}, 8, false>(p, at, v_d_x);  // %d_x
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_gated_mlp_dgrad_k1_gemm_m128n128k32(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

