// catenary | target sm_90a (h200) | kernel ctn_gated_mlp_dgrad_k0_gemm_tm128n152k64
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
// plan: gemm_sm90: tile 128x152x64 of the transposed product, 2 ping-pong warpgroups, 5 stages, N clusters of 2, 223 KiB shared
//   'd_h' is a contraction: it reads its operands from memory; 'h' joins it: it needs only tensors that the kernel reads anyway
//   slot 0: parameter 'd_y'
//   slot 1: parameter 'wd'
//   slot 2: parameter 'g'
//   slot 3: parameter 'u'
//   slot 4: output 'h'
//   slot 5: output 'd_u_bf16'
//   slot 6: output 'd_g_bf16'
//   map 0: 'wd' as 14336 x 4096 bf16 in boxes of 64 x 64
//   map 1: 'd_y' as 4096 x 8192 bf16 in boxes of 64 x 152
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_gated_mlp_dgrad_k0_gemm_tm128n152k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 14336, .n = 8192, .k = 4096},
    .a = {.map = 0, .k_major = false, .weight = true},
    .b = {.map = 1},
    .tile = {.block_m = 128, .block_n = 152, .stages = 5},
    .schedule = {.ping_pong = true, .consumers = 2, .cluster_n = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.in_registers = true, .vec = 4, .matrices = 2},
};
using P = Params<7, 0, 2>;
struct Epilogue {
  struct Columns {
  };
  static CATENARY_DEVICE void load_columns(const P& p, const Coord& at, Columns& in) {
  }
  struct Rows {
  };
  static CATENARY_DEVICE void load_rows(const P& p, const Coord& at, Rows& in) {
  }
  struct Matrices {
    static constexpr Operand o_g = Operand{.slot = 2, .dtype = DType::kBF16, .streamed = true, .stride = dims(1, 14336)};
    Loaded<o_g, 2> v_g;
    static constexpr Operand o_u = Operand{.slot = 3, .dtype = DType::kBF16, .streamed = true, .stride = dims(1, 14336)};
    Loaded<o_u, 2> v_u;
  };
  static constexpr int kMatrixCount = 2;
  static constexpr Operand kMatrices[] = {Matrices::o_g, Matrices::o_u};
  static constexpr int kOutputCount = 3;
  static constexpr bool kShort = false, kLong = false;
  static constexpr Operand kOutputs[] = {
      Operand{.slot = 4, .dtype = DType::kBF16, .streamed = true, .stride = dims(1, 14336)},
      Operand{.slot = 5, .dtype = DType::kBF16, .streamed = true, .stride = dims(1, 14336)},
      Operand{.slot = 6, .dtype = DType::kBF16, .streamed = true, .stride = dims(1, 14336)}};
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Vec<2>& sum0, Vec<2>* out) {
    const Vec<2>& v_d_h = sum0;  // %d_h = contract(%d_y, %wd)
    const Vec<2> v_t6 = map<2, op_silu>(matrices.v_g.values());  // %t6 = silu(%g)
    const Vec<2> v_t7 = map<2, op_mul>(v_t6, matrices.v_u.values());  // %t7 = mul(%t6, %u)
    const Vec<2> v_h = round_to<DType::kBF16, 2>(v_t7);  // %h = cast(%t7)
    const Vec<2> v_d_t7 = round_to<DType::kBF16, 2>(v_d_h);  // %d_t7 = cast(%d_h)
    const Vec<2> v_d_u = map<2, op_mul>(v_d_t7, v_t6);  // %d_u = mul(%d_t7, %t6)
    const Vec<2> v_d_u_bf16 = round_to<DType::kBF16, 2>(v_d_u);  // %d_u_bf16 = cast(%d_u)
    const Vec<2> v_d_t6 = map<2, op_mul>(v_d_t7, matrices.v_u.values());  // %d_t6 = mul(%d_t7, %u)
    const Vec<2> v_t0 = map<2, op_sigmoid>(matrices.v_g.values());  // %t0 = sigmoid(%g)
    const float v_t1 = 1.0f;  // %t1 = constant
    const Vec<2> v_t2 = map<2, op_sub>(v_t1, v_t0);  // %t2 = sub(%t1, %t0)
    const Vec<2> v_t3 = map<2, op_mul>(matrices.v_g.values(), v_t2);  // %t3 = mul(%g, %t2)
    const Vec<2> v_t4 = map<2, op_add>(v_t1, v_t3);  // %t4 = add(%t1, %t3)
    const Vec<2> v_t5 = map<2, op_mul>(v_t0, v_t4);  // %t5 = mul(%t0, %t4)
    const Vec<2> v_d_g = map<2, op_mul>(v_d_t6, v_t5);  // %d_g = mul(%d_t6, %t5)
    const Vec<2> v_d_g_bf16 = round_to<DType::kBF16, 2>(v_d_g);  // %d_g_bf16 = cast(%d_g)
    out[0] = v_h;  // %h
    out[1] = v_d_u_bf16;  // %d_u_bf16
    out[2] = v_d_g_bf16;  // %d_g_bf16
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_gated_mlp_dgrad_k0_gemm_tm128n152k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_gated_mlp_dgrad_k1_gemm_m128n256k64
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
// plan: gemm_sm90: tile 128x256x64, 2 cooperative warpgroups, 4 stages, 224 KiB shared, 2 K segments
//   't8', 't9' are contractions that add up to 'd_x': they read their operands from memory and have one accumulator
//   slot 0: output 'd_u_bf16'
//   slot 1: parameter 'wu'
//   slot 2: output 'd_g_bf16'
//   slot 3: parameter 'wg'
//   slot 4: output 'd_x'
//   map 0: 'd_u_bf16' as 14336 x 8192 bf16 in boxes of 64 x 128
//   map 1: 'wu' as 4096 x 14336 bf16 in boxes of 64 x 64
//   map 2: 'd_g_bf16' as 14336 x 8192 bf16 in boxes of 64 x 128
//   map 3: 'wg' as 4096 x 14336 bf16 in boxes of 64 x 64
//   map 4: 'd_x' as 4096 x 8192 bf16 in boxes of 64 x 16
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_gated_mlp_dgrad_k1_gemm_m128n256k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 8192, .n = 4096, .k = 14336},
    .a = {.map = 0},
    .b = {.map = 1, .k_major = false, .weight = true},
    .segments = 2, .more = {{.a = {.map = 2}, .b = {.map = 3, .k_major = false, .weight = true}, .k = 14336}},
    .tile = {.block_m = 128, .block_n = 256, .stages = 4},
    .schedule = {.consumers = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.in_registers = true, .vec = 8},
};
using P = Params<5, 0, 5>;
struct Epilogue {
  struct Columns {
  };
  static CATENARY_DEVICE void load_columns(const P& p, const Coord& at, Columns& in) {
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
      Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .streamed = true, .map = 4, .stride = dims(4096, 1)}};
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Vec<2>& sum0, Vec<2>* out) {
    const Vec<2>& v_d_x = sum0;  // %d_x = add(%t8, %t9)
    out[0] = v_d_x;  // %d_x
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_gated_mlp_dgrad_k1_gemm_m128n256k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

