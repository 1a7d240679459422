// catenary | target sm_90a (h200) | kernel ctn_row_scales_k0_gemm_m256n128k128
// chain:
//   chain row_scales(
//       input x: e4m3[1024, 2048],
//       input sx: f32[1024, 16],
//       weight w: e4m3[32, 128, 2048],
//       weight sw: f32[32, 1, 16],
//       weight b: f32[32, 128]) {
//     xd = dequant(x, sx) block (1, 128)
//     wd = dequant(w, sw) block (128, 128)
//     t7 = contract "mk,jck->mjc"(xd, wd)
//     t8 = add(t7, b)
//     h = gelu_tanh(t8)
//     t10 = abs(h)
//     t11 = reduce_max "mjc->mj"(t10)
//     t12 = constant(0.0001)
//     t13 = max(t11, t12)
//     t14 = constant(0.002232142857142857)
//     s = mul(t13, t14)
//     t16 = div(h, s @ "mj")
//     q = cast(t16, e4m3)
//     return q: e4m3, s: f32
//   }
// plan: gemm_sm90: tile 256x128x128, 2 cooperative warpgroups, 4 stages, 224 KiB shared
//   't7' is a contraction: it reads its operands from memory; it reduces 128 columns of its tiles to 't11'
//   slot 0: parameter 'x'
//   slot 1: parameter 'sx'
//   slot 2: parameter 'w'
//   slot 3: parameter 'sw'
//   slot 4: parameter 'b'
//   slot 5: output 'q'
//   slot 6: output 's'
//   map 0: 'x' as 2048 x 1024 e4m3 in boxes of 128 x 256
//   map 1: 'w' as 2048 x 4096 e4m3 in boxes of 128 x 128
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_row_scales_k0_gemm_m256n128k128.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kE4M3, .m = 1024, .n = 4096, .k = 2048},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true},
    .block_scaled = true, .scale_a = {.slot = 1, .rows = 1, .columns = 128, .stride_row = 16, .stride_column = 1},
    .scale_b = {.slot = 3, .rows = 128, .columns = 128, .stride_row = 16, .stride_column = 1},
    .tile = {.block_m = 256, .block_n = 128, .stages = 4},
    .schedule = {.consumers = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.in_registers = true, .vec = 8, .reduced_columns = 128},
};
using P = Params<7, 0, 2>;
struct Epilogue {
  struct Columns {
    static constexpr Operand o_b = Operand{.slot = 4, .dtype = DType::kF32, .vec = 4, .weight = true, .stride = dims(1)};
    Loaded<o_b, 2> v_b;
  };
  static CATENARY_DEVICE void load_columns(const P& p, const Coord& at, Columns& in) {
    in.v_b = load_operand<Columns::o_b, 2, false>(p, at);  // %b = weight
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
      Operand{.slot = 5, .dtype = DType::kE4M3, .vec = 16, .stride = dims(4096, 1)}};
  struct Numbers {
    float v_t11;
    float v_t13;
    float v_s;
  };
  static constexpr int kPasses = 1;
  static constexpr int kPassBegin[] = {0, 1};
  static constexpr bool kKeeps[] = {true};
  static constexpr ReduceOp kReductions[] = {ReduceOp::kMax};
  static CATENARY_DEVICE void terms(Pass<0>, const P& p, const Columns& columns, const Rows& rows, const Numbers& numbers, const Vec<2>& sum0, Vec<2>* out, Vec<2>& kept) {
    const Vec<2>& v_t7 = sum0;  // %t7 = contract(%xd, %wd)
    const Vec<2> v_t8 = map<2, op_add>(v_t7, columns.v_b.values());  // %t8 = add(%t7, %b)
    const Vec<2> v_h = map<2, op_gelu_tanh>(v_t8);  // %h = gelu_tanh(%t8)
    const Vec<2> v_t10 = map<2, op_abs>(v_h);  // %t10 = abs(%h)
    out[0] = v_t10;  // %t11
    kept = v_h;
  }
  static CATENARY_DEVICE void numbers(Pass<0>, const P& p, const Rows& rows, const float* reduced, Numbers& numbers) {
    numbers.v_t11 = reduced[0];  // %t11 = reduce_max(%t10)
    const float v_t12 = 0x1.a36e2ep-14f;  // %t12 = constant
    numbers.v_t13 = op_max::apply(numbers.v_t11, v_t12);  // %t13 = max(%t11, %t12)
    const float v_t14 = 0x1.24924ap-9f;  // %t14 = constant
    numbers.v_s = op_mul::apply(numbers.v_t13, v_t14);  // %s = mul(%t13, %t14)
  }
  static CATENARY_DEVICE void store_numbers(const P& p, const Coord& at, const Numbers& numbers) {
    store_number<Operand{.slot = 6, .dtype = DType::kF32, .columns = 128, .stride = dims(4096, 1)}>(p, at, numbers.v_s);  // %s
  }
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Numbers& numbers, const Vec<2>& v_h, Vec<2>* out) {
    const Vec<2> v_t16 = map<2, op_div>(v_h, numbers.v_s);  // %t16 = div(%h, %s)
    const Vec<2> v_q = round_to<DType::kE4M3, 2>(v_t16);  // %q = cast(%t16)
    out[0] = v_q;  // %q
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_row_scales_k0_gemm_m256n128k128(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

