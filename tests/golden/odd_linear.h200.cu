// catenary | target sm_90a (h200) | kernel ctn_odd_linear_k0_gemm_m64n256k64
// chain:
//   chain odd_linear(
//       input x: bf16[8192, 1023],
//       weight w: bf16[1023, 4096],
//       weight b: bf16[4096]) {
//     t3 = contract "mk,kn->mn"(x, w)
//     h = add(t3, b)
//     y = relu(h)
//     return y: bf16
//   }
// plan: gemm_sm90: tile 64x256x64, 2 ping-pong warpgroups, 4 stages, 192 KiB shared, A by cp.async of 2 bytes
//   't3' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
//   map 0: 'w' as 4096 x 1023 bf16 in boxes of 64 x 64
//   map 1: 'y' as 4096 x 8192 bf16 in boxes of 32 x 16
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_odd_linear_k0_gemm_m64n256k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 8192, .n = 4096, .k = 1023},
    .a = {.by_cp_async = true, .memory = {.slot = 0, .stride_row = 1023, .stride_k = 1, .copy_bytes = 2}},
    .b = {.map = 0, .k_major = false, .weight = true},
    .tile = {.block_m = 64, .block_n = 256, .stages = 4},
    .schedule = {.ping_pong = true, .consumers = 2, .split_k = 1, .tile_swizzle = 4},
    .epilogue = {.in_registers = true, .vec = 8},
};
using P = Params<4, 0, 2>;
struct Epilogue {
  struct Columns {
    static constexpr Operand o_b = Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)};
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
      Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .streamed = true, .map = 1, .stride = dims(4096, 1)}};
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Vec<2>& sum0, Vec<2>* out) {
    const Vec<2>& v_t3 = sum0;  // %t3 = contract(%x, %w)
    const Vec<2> v_h = map<2, op_add>(v_t3, columns.v_b.values());  // %h = add(%t3, %b)
    const Vec<2> v_y = map<2, op_relu>(v_h);  // %y = relu(%h)
    out[0] = v_y;  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_odd_linear_k0_gemm_m64n256k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

