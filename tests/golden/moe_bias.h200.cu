// catenary | target sm_90a (h200) | kernel ctn_moe_bias_k0_gemm_m128n64k64
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
// plan: gemm_sm90: tile 128x64x64, 2 ping-pong warpgroups, 6 stages, 208 KiB shared
//   'g' is a contraction: it reads its operands from memory; 'u' shares an operand and an epilogue with it
//   slot 0: parameter 'x'
//   slot 1: parameter 'wg'
//   slot 2: parameter 'ends'
//   slot 3: parameter 'wu'
//   slot 4: parameter 'bg'
//   slot 5: parameter 'bu'
//   slot 6: workspace 'h'
//   map 0: 'x' as 2880 x 8192 bf16 in boxes of 64 x 128
//   map 1: 'wg' as 2880 x 2880 x 8 bf16 in boxes of 64 x 64 x 1
//   map 2: 'wu' as 2880 x 2880 x 8 bf16 in boxes of 64 x 64 x 1
//   map 3: 'h' as 2880 x 8192 bf16 in boxes of 32 x 16
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_moe_bias_k0_gemm_m128n64k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 8192, .n = 2880, .k = 2880},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true, .coord2 = 9},
    .b2 = {.map = 2, .weight = true, .coord2 = 9}, .dual = true,
    .tile = {.block_m = 128, .block_n = 64, .stages = 6},
    .schedule = {.ping_pong = true, .consumers = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.in_registers = true, .vec = 8},
    .ragged = {.kind = Ragged::kMGrouped, .group_ends_slot = 2, .num_groups = 8},
};
using P = Params<7, 0, 4>;
struct Epilogue {
  struct Columns {
    static constexpr Operand o_bg = Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .weight = true, .by_group = true, .stride_group = 2880, .stride = dims(1)};
    Loaded<o_bg, 2> v_bg;
    static constexpr Operand o_bu = Operand{.slot = 5, .dtype = DType::kBF16, .vec = 8, .weight = true, .by_group = true, .stride_group = 2880, .stride = dims(1)};
    Loaded<o_bu, 2> v_bu;
  };
  static CATENARY_DEVICE void load_columns(const P& p, const Coord& at, Columns& in) {
    in.v_bg = load_operand<Columns::o_bg, 2, false>(p, at);  // %bg = weight
    in.v_bu = load_operand<Columns::o_bu, 2, false>(p, at);  // %bu = weight
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
      Operand{.slot = 6, .dtype = DType::kBF16, .vec = 8, .streamed = true, .map = 3, .stride = dims(2880, 1)}};
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Vec<2>& sum0, const Vec<2>& sum1, Vec<2>* out) {
    const Vec<2>& v_g = sum0;  // %g = contract(%x, %wg)
    const Vec<2>& v_u = sum1;  // %u = contract(%x, %wu)
    const Vec<2> v_t10 = map<2, op_add>(v_g, columns.v_bg.values());  // %t10 = add(%g, %bg)
    const float v_t11 = 7.0f;  // %t11 = constant
    const Vec<2> v_gate = map<2, op_min>(v_t10, v_t11);  // %gate = min(%t10, %t11)
    const Vec<2> v_t15 = map<2, op_quick_gelu>(v_gate);  // %t15 = quick_gelu(%gate)
    const Vec<2> v_t13 = map<2, op_add>(v_u, columns.v_bu.values());  // %t13 = add(%u, %bu)
    const Vec<2> v_up = map<2, op_clamp>(v_t13, -0x1.cp+2f, 7.0f);  // %up = clamp(%t13)
    const float v_t16 = 1.0f;  // %t16 = constant
    const Vec<2> v_t17 = map<2, op_add>(v_up, v_t16);  // %t17 = add(%up, %t16)
    const Vec<2> v_t18 = map<2, op_mul>(v_t15, v_t17);  // %t18 = mul(%t15, %t17)
    const Vec<2> v_h = round_to<DType::kBF16, 2>(v_t18);  // %h = cast(%t18)
    out[0] = v_h;  // %h
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_moe_bias_k0_gemm_m128n64k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_moe_bias_k1_gemm_m128n128k64
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
// plan: gemm_sm90: tile 128x128x64, 2 ping-pong warpgroups, 6 stages, 224 KiB shared
//   'd' is a contraction: it reads its operands from memory
//   slot 0: workspace 'h'
//   slot 1: parameter 'wd'
//   slot 2: parameter 'ends'
//   slot 3: parameter 'bd'
//   slot 4: output 'y'
//   map 0: 'h' as 2880 x 8192 bf16 in boxes of 64 x 128
//   map 1: 'wd' as 2880 x 2880 x 8 bf16 in boxes of 64 x 128 x 1
//   map 2: 'y' as 2880 x 8192 bf16 in boxes of 64 x 16
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_moe_bias_k1_gemm_m128n128k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 8192, .n = 2880, .k = 2880},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true, .coord2 = 9},
    .tile = {.block_m = 128, .block_n = 128, .stages = 6},
    .schedule = {.ping_pong = true, .consumers = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.in_registers = true, .vec = 8},
    .ragged = {.kind = Ragged::kMGrouped, .group_ends_slot = 2, .num_groups = 8},
};
using P = Params<5, 0, 3>;
struct Epilogue {
  struct Columns {
    static constexpr Operand o_bd = Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .weight = true, .by_group = true, .stride_group = 2880, .stride = dims(1)};
    Loaded<o_bd, 2> v_bd;
  };
  static CATENARY_DEVICE void load_columns(const P& p, const Coord& at, Columns& in) {
    in.v_bd = load_operand<Columns::o_bd, 2, false>(p, at);  // %bd = weight
  }
  struct Rows {
  };
  static CATENARY_DEVICE void load_rows(const P& p, const Coord& at, Rows& in) {
  }
  struct Matrices {
  };
  static constexpr int kMatrixCount = 0;
  static constexpr int kOutputCount = 1;
  static constexpr bool kShort = true, kLong = false;
  static constexpr Operand kOutputs[] = {
      Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .streamed = true, .map = 2, .stride = dims(2880, 1)}};
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Vec<2>& sum0, Vec<2>* out) {
    const Vec<2>& v_d = sum0;  // %d = contract(%h, %wd)
    const Vec<2> v_y = map<2, op_add>(v_d, columns.v_bd.values());  // %y = add(%d, %bd)
    out[0] = v_y;  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_moe_bias_k1_gemm_m128n128k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

