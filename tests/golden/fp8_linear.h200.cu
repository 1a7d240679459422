// catenary | target sm_90a (h200) | kernel ctn_fp8_linear_k0_gemm_m256n128k128
// chain:
//   chain fp8_linear(
//       input x: e4m3[4096, 4096],
//       weight w: e4m3[14336, 4096],
//       input sx: f32[4096],
//       weight sw: f32[14336],
//       scalar out: f32) {
//     h = contract "mk,nk->mn"(x, w)
//     t6 = mul(h, sx @ "m")
//     t7 = mul(t6, sw @ "n")
//     t8 = silu(t7)
//     y = scale(t8, out)
//     return y: e4m3
//   }
// plan: gemm_sm90: tile 256x128x128, 2 cooperative warpgroups, 4 stages, 224 KiB shared
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'sx'
//   slot 3: parameter 'sw'
//   slot 4: output 'y'
//   map 0: 'x' as 4096 x 4096 e4m3 in boxes of 128 x 256
//   map 1: 'w' as 4096 x 14336 e4m3 in boxes of 128 x 128
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_fp8_linear_k0_gemm_m256n128k128.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kE4M3, .m = 4096, .n = 14336, .k = 4096},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true},
    .tile = {.block_m = 256, .block_n = 128, .stages = 4},
    .schedule = {.consumers = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.in_registers = true, .vec = 8},
};
using P = Params<5, 1, 2>;
struct Epilogue {
  struct Columns {
    static constexpr Operand o_sw = Operand{.slot = 3, .dtype = DType::kF32, .vec = 4, .weight = true, .stride = dims(1)};
    Loaded<o_sw, 2> v_sw;
  };
  static CATENARY_DEVICE void load_columns(const P& p, const Coord& at, Columns& in) {
    in.v_sw = load_operand<Columns::o_sw, 2, false>(p, at);  // %sw = weight
  }
  struct Rows {
    static constexpr Operand o_sx = Operand{.slot = 2, .dtype = DType::kF32, .stride = dims(1, 0)};
    Loaded<o_sx, 2> v_sx;
  };
  static CATENARY_DEVICE void load_rows(const P& p, const Coord& at, Rows& in) {
    in.v_sx = load_operand<Rows::o_sx, 2, false>(p, at);  // %sx = input
  }
  struct Matrices {
  };
  static constexpr int kMatrixCount = 0;
  static constexpr int kOutputCount = 1;
  static constexpr bool kShort = false, kLong = false;
  static constexpr Operand kOutputs[] = {
      Operand{.slot = 4, .dtype = DType::kE4M3, .vec = 16, .streamed = true, .stride = dims(14336, 1)}};
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Vec<2>& sum0, Vec<2>* out) {
    const Vec<2>& v_h = sum0;  // %h = contract(%x, %w)
    const Vec<2> v_t6 = map<2, op_mul>(v_h, rows.v_sx.values());  // %t6 = mul(%h, %sx)
    const Vec<2> v_t7 = map<2, op_mul>(v_t6, columns.v_sw.values());  // %t7 = mul(%t6, %sw)
    const Vec<2> v_t8 = map<2, op_silu>(v_t7);  // %t8 = silu(%t7)
    const float v_out = p.scalar[0];  // %out = scalar
    const Vec<2> v_y = map<2, op_scale>(v_t8, v_out);  // %y = scale(%t8, %out)
    out[0] = v_y;  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_fp8_linear_k0_gemm_m256n128k128(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

