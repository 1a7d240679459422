// catenary | target sm_80 (a100) | kernel ctn_moe_bias_k0_gemm_m128n64k32
// chain:
//   chain moe_bias(
//       input x: bf16[8192, 2880],
//       weight wg: bf16[8, 2880, 2880],
//       weight wu: bf16[8, 2880, 2880],
//       weight bg: bf16[8, 2880],
//       weight bu: bf16[8, 2880],
//       weight wd: bf16[8, 2880, 2880],
//       weight bd: bf16[8, 2880],
//       input ends: i32[8]) {
//     g = contract "mk,enk->mn"(x, wg) ragged m by ends over e
//     u = contract "mk,enk->mn"(x, wu) ragged m by ends over e
//     t10 = add(g, bg @ "en")
//     t11 = constant(7)
//     gate = min(t10, t11)
//     t13 = add(u, bu @ "en")
//     up = clamp(t13, lo = -7, hi = 7)
//     t15 = quick_gelu(gate)
//     t16 = constant(1)
//     t17 = add(up, t16)
//     t18 = mul(t15, t17)
//     h = cast(t18, bf16)
//     d = contract "mk,enk->mn"(h, wd) ragged m by ends over e
//     y = add(d, bd @ "en")
//     return y: bf16
//   }
// plan: gemm_sm80: tile 128x64x32, 2 x 2 warps, 4 stages, 64 KiB shared, 2 CTAs per SM
//   'g' is a contraction: it reads its operands from memory; 'u' shares an operand and an epilogue with it
//   slot 0: parameter 'x'
//   slot 1: parameter 'wg'
//   slot 2: parameter 'ends'
//   slot 3: parameter 'wu'
//   slot 4: parameter 'bg'
//   slot 5: parameter 'bu'
//   slot 6: workspace 'h'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_moe_bias_k0_gemm_m128n64k32.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 8192, .n = 2880, .k = 2880},
    .a = {.slot = 0, .stride_row = 2880, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 2880, .stride_k = 1, .stride_group = 8294400, .copy_bytes = 16},
    .b2 = {.slot = 3, .stride_row = 2880, .stride_k = 1, .stride_group = 8294400, .copy_bytes = 16}, .dual = true,
    .tile = {.block_m = 128, .block_n = 64, .block_k = 32, .warps_m = 2, .warps_n = 2, .stages = 4},
    .schedule = {.split_k = 1, .tile_swizzle = 8}, .vec = 8,
    .ragged = {.kind = Ragged::kMGrouped, .group_ends_slot = 2, .num_groups = 8},
};
using P = Params<7, 0>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_bg = Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .weight = true, .by_group = true, .stride_group = 2880, .stride = dims(1)};
    Loaded<o_bg, 8> v_bg;
    static constexpr Operand o_bu = Operand{.slot = 5, .dtype = DType::kBF16, .vec = 8, .weight = true, .by_group = true, .stride_group = 2880, .stride = dims(1)};
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
    const Vec<8> v_t10 = map<8, op_add>(v_g, in.v_bg.values());  // %t10 = add(%g, %bg)
    const float v_t11 = 7.0f;  // %t11 = constant
    const Vec<8> v_gate = map<8, op_min>(v_t10, v_t11);  // %gate = min(%t10, %t11)
    const Vec<8> v_t15 = map<8, op_quick_gelu>(v_gate);  // %t15 = quick_gelu(%gate)
    const Vec<8> v_t13 = map<8, op_add>(v_u, in.v_bu.values());  // %t13 = add(%u, %bu)
    const Vec<8> v_up = map<8, op_clamp>(v_t13, -0x1.cp+2f, 7.0f);  // %up = clamp(%t13)
    const float v_t16 = 1.0f;  // %t16 = constant
    const Vec<8> v_t17 = map<8, op_add>(v_up, v_t16);  // %t17 = add(%up, %t16)
    const Vec<8> v_t18 = map<8, op_mul>(v_t15, v_t17);  // %t18 = mul(%t15, %t17)
    const Vec<8> v_h = round_to<DType::kBF16, 8>(v_t18);  // %h = cast(%t18)
    store_vec<Operand{.slot = 6, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(2880, 1)}, 8, false>(p, at, v_h);  // %h
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_moe_bias_k0_gemm_m128n64k32(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

// catenary | target sm_80 (a100) | kernel ctn_moe_bias_k1_gemm_m128n64k64
// chain:
//   chain moe_bias(
//       input x: bf16[8192, 2880],
//       weight wg: bf16[8, 2880, 2880],
//       weight wu: bf16[8, 2880, 2880],
//       weight bg: bf16[8, 2880],
//       weight bu: bf16[8, 2880],
//       weight wd: bf16[8, 2880, 2880],
//       weight bd: bf16[8, 2880],
//       input ends: i32[8]) {
//     g = contract "mk,enk->mn"(x, wg) ragged m by ends over e
//     u = contract "mk,enk->mn"(x, wu) ragged m by ends over e
//     t10 = add(g, bg @ "en")
//     t11 = constant(7)
//     gate = min(t10, t11)
//     t13 = add(u, bu @ "en")
//     up = clamp(t13, lo = -7, hi = 7)
//     t15 = quick_gelu(gate)
//     t16 = constant(1)
//     t17 = add(up, t16)
//     t18 = mul(t15, t17)
//     h = cast(t18, bf16)
//     d = contract "mk,enk->mn"(h, wd) ragged m by ends over e
//     y = add(d, bd @ "en")
//     return y: bf16
//   }
// plan: gemm_sm80: tile 128x64x64, 2 x 2 warps, 3 stages, 72 KiB shared, 2 CTAs per SM
//   'd' is a contraction: it reads its operands from memory
//   slot 0: workspace 'h'
//   slot 1: parameter 'wd'
//   slot 2: parameter 'ends'
//   slot 3: parameter 'bd'
//   slot 4: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_moe_bias_k1_gemm_m128n64k64.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 8192, .n = 2880, .k = 2880},
    .a = {.slot = 0, .stride_row = 2880, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 2880, .stride_k = 1, .stride_group = 8294400, .copy_bytes = 16},
    .tile = {.block_m = 128, .block_n = 64, .block_k = 64, .warps_m = 2, .warps_n = 2, .stages = 3},
    .schedule = {.split_k = 1, .tile_swizzle = 8}, .vec = 8,
    .ragged = {.kind = Ragged::kMGrouped, .group_ends_slot = 2, .num_groups = 8},
};
using P = Params<5, 0>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_bd = Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .weight = true, .by_group = true, .stride_group = 2880, .stride = dims(1)};
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
    store_vec<Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(2880, 1)}, 8, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_moe_bias_k1_gemm_m128n64k64(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

