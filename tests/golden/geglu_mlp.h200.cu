// catenary | target sm_90a (h200) | kernel ctn_geglu_mlp_k0_gemm_m128n80k64
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
// plan: gemm_sm90: tile 128x80x64, 2 ping-pong warpgroups, 5 stages, 196 KiB shared
//   'g' is a contraction: it reads its operands from memory; 'u' shares an operand and an epilogue with it
//   slot 0: parameter 'x'
//   slot 1: parameter 'wg'
//   slot 2: parameter 'wu'
//   slot 3: parameter 'bg'
//   slot 4: parameter 'bu'
//   slot 5: workspace 'h'
//   map 0: 'x' as 768 x 8192 bf16 in boxes of 64 x 128
//   map 1: 'wg' as 768 x 3072 bf16 in boxes of 64 x 16
//   map 2: 'wu' as 768 x 3072 bf16 in boxes of 64 x 16
//   map 3: 'h' as 3072 x 8192 bf16 in boxes of 32 x 16
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_geglu_mlp_k0_gemm_m128n80k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 8192, .n = 3072, .k = 768},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true},
    .b2 = {.map = 2, .weight = true}, .dual = true,
    .tile = {.block_m = 128, .block_n = 80, .stages = 5},
    .schedule = {.ping_pong = true, .consumers = 2, .split_k = 1, .tile_swizzle = 4},
    .epilogue = {.in_registers = true, .vec = 8},
};
using P = Params<6, 0, 4>;
struct Epilogue {
  struct Columns {
    static constexpr Operand o_bg = Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)};
    Loaded<o_bg, 2> v_bg;
    static constexpr Operand o_bu = Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)};
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
      Operand{.slot = 5, .dtype = DType::kBF16, .vec = 8, .streamed = true, .map = 3, .stride = dims(3072, 1)}};
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Vec<2>& sum0, const Vec<2>& sum1, Vec<2>* out) {
    const Vec<2>& v_g = sum0;  // %g = contract(%x, %wg)
    const Vec<2>& v_u = sum1;  // %u = contract(%x, %wu)
    const Vec<2> v_t9 = map<2, op_add>(v_g, columns.v_bg.values());  // %t9 = add(%g, %bg)
    const Vec<2> v_t10 = map<2, op_gelu_tanh>(v_t9);  // %t10 = gelu_tanh(%t9)
    const Vec<2> v_t11 = map<2, op_add>(v_u, columns.v_bu.values());  // %t11 = add(%u, %bu)
    const Vec<2> v_t12 = map<2, op_mul>(v_t10, v_t11);  // %t12 = mul(%t10, %t11)
    const Vec<2> v_h = round_to<DType::kBF16, 2>(v_t12);  // %h = cast(%t12)
    out[0] = v_h;  // %h
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_geglu_mlp_k0_gemm_m128n80k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_geglu_mlp_k1_gemm_m128n128k64
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
// plan: gemm_sm90: tile 128x128x64, 2 ping-pong warpgroups, 6 stages, 224 KiB shared
//   'd' is a contraction: it reads its operands from memory
//   slot 0: workspace 'h'
//   slot 1: parameter 'wd'
//   slot 2: parameter 'bd'
//   slot 3: output 'y'
//   map 0: 'h' as 3072 x 8192 bf16 in boxes of 64 x 128
//   map 1: 'wd' as 3072 x 768 bf16 in boxes of 64 x 128
//   map 2: 'y' as 768 x 8192 bf16 in boxes of 64 x 16
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_geglu_mlp_k1_gemm_m128n128k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 8192, .n = 768, .k = 3072},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true},
    .tile = {.block_m = 128, .block_n = 128, .stages = 6},
    .schedule = {.ping_pong = true, .consumers = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.in_registers = true, .vec = 8},
};
using P = Params<4, 0, 3>;
struct Epilogue {
  struct Columns {
    static constexpr Operand o_bd = Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)};
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
      Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .streamed = true, .map = 2, .stride = dims(768, 1)}};
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Vec<2>& sum0, Vec<2>* out) {
    const Vec<2>& v_d = sum0;  // %d = contract(%h, %wd)
    const Vec<2> v_y = map<2, op_add>(v_d, columns.v_bd.values());  // %y = add(%d, %bd)
    out[0] = v_y;  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_geglu_mlp_k1_gemm_m128n128k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

