// catenary | target sm_90a (h200) | kernel ctn_grouped_linear_k0_gemm_tm128n160k64
// chain:
//   chain grouped_linear(
//       input x: bf16[2560, 12, 1024],
//       weight w: bf16[12, 3072, 1024],
//       weight b: bf16[12, 3072]) {
//     h = contract "bgk,gnk->bgn"(x, w)
//     t4 = add(h, b @ "gn")
//     y = silu(t4)
//     return y: bf16
//   }
// plan: gemm_sm90: tile 128x160x64 of the transposed product, 2 ping-pong warpgroups, 5 stages, 212 KiB shared
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
//   map 0: 'w' as 1024 x 3072 x 12 bf16 in boxes of 64 x 128 x 1
//   map 1: 'x' as 1024 x 2560 x 12 bf16 in boxes of 64 x 160 x 1
//   map 2: 'y' as 3072 x 2560 x 12 bf16 in boxes of 64 x 8 x 1
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_grouped_linear_k0_gemm_tm128n160k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .batch = extents(12), .batch_rank = 1, .m = 3072, .n = 2560, .k = 1024},
    .a = {.map = 0, .weight = true, .coord2 = 7},
    .b = {.map = 1, .coord2 = 7},
    .tile = {.block_m = 128, .block_n = 160, .stages = 5},
    .schedule = {.ping_pong = true, .consumers = 2, .split_k = 1, .tile_swizzle = 4},
    .epilogue = {.in_registers = true, .vec = 4},
};
using P = Params<4, 0, 3>;
struct Epilogue {
  struct Columns {
  };
  static CATENARY_DEVICE void load_columns(const P& p, const Coord& at, Columns& in) {
  }
  struct Rows {
    static constexpr Operand o_b = Operand{.slot = 2, .dtype = DType::kBF16, .weight = true, .stride = dims(3072, 1, 0)};
    Loaded<o_b, 2> v_b;
  };
  static CATENARY_DEVICE void load_rows(const P& p, const Coord& at, Rows& in) {
    in.v_b = load_operand<Rows::o_b, 2, false>(p, at);  // %b = weight
  }
  struct Matrices {
  };
  static constexpr int kMatrixCount = 0;
  static constexpr int kOutputCount = 1;
  static constexpr bool kShort = false, kLong = false;
  static constexpr Operand kOutputs[] = {
      Operand{.slot = 3, .dtype = DType::kBF16, .streamed = true, .map = 2, .stride = dims(3072, 1, 36864)}};
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Vec<2>& sum0, Vec<2>* out) {
    const Vec<2>& v_h = sum0;  // %h = contract(%x, %w)
    const Vec<2> v_t4 = map<2, op_add>(v_h, rows.v_b.values());  // %t4 = add(%h, %b)
    const Vec<2> v_y = map<2, op_silu>(v_t4);  // %y = silu(%t4)
    out[0] = v_y;  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_grouped_linear_k0_gemm_tm128n160k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

