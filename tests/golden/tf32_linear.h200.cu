// catenary | target sm_90a (h200) | kernel ctn_tf32_linear_k0_gemm_m128n128k32
// chain:
//   chain tf32_linear(
//       input x: f32[8192, 1024],
//       weight w: f32[4096, 1024],
//       weight b: f32[4096]) {
//     t3 = contract "mk,nk->mn"(x, w)
//     t4 = add(t3, b)
//     y = gelu_tanh(t4)
//     return y: f32
//   }
// plan: gemm_sm90: tile 128x128x32, 2 ping-pong warpgroups, 6 stages, M clusters of 2, 224 KiB shared
//   't3' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
//   map 0: 'x' as 1024 x 8192 f32 (rounded to tf32) in boxes of 32 x 128
//   map 1: 'w' as 1024 x 4096 f32 (rounded to tf32) in boxes of 32 x 64
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_tf32_linear_k0_gemm_m128n128k32.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kTF32, .m = 8192, .n = 4096, .k = 1024},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true},
    .tile = {.block_m = 128, .block_n = 128, .stages = 6},
    .schedule = {.ping_pong = true, .consumers = 2, .cluster_m = 2, .split_k = 1, .tile_swizzle = 2},
    .epilogue = {.in_registers = true, .vec = 4},
};
using P = Params<4, 0, 2>;
struct Epilogue {
  struct Columns {
    static constexpr Operand o_b = Operand{.slot = 2, .dtype = DType::kF32, .vec = 4, .weight = true, .stride = dims(1)};
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
  static constexpr bool kShort = false, kLong = false;
  static constexpr Operand kOutputs[] = {
      Operand{.slot = 3, .dtype = DType::kF32, .vec = 4, .streamed = true, .stride = dims(4096, 1)}};
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Vec<2>& sum0, Vec<2>* out) {
    const Vec<2>& v_t3 = sum0;  // %t3 = contract(%x, %w)
    const Vec<2> v_t4 = map<2, op_add>(v_t3, columns.v_b.values());  // %t4 = add(%t3, %b)
    const Vec<2> v_y = map<2, op_gelu_tanh>(v_t4);  // %y = gelu_tanh(%t4)
    out[0] = v_y;  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_tf32_linear_k0_gemm_m128n128k32(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

