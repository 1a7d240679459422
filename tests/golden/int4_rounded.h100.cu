// catenary | target sm_90a (h100) | kernel ctn_int4_rounded_k0_gemm_dequant_t4x128
// chain:
//   chain int4_rounded[M in 400..4096] rounded_weights (
//       input x: bf16[M, 1024],
//       weight q: i4[2048, 1024] packed,
//       weight s: bf16[2048, 8],
//       weight b: bf16[2048]) {
//     w = dequant(q, s) block (1, 128)
//     t5 = contract "mk,nk->mn"(x, w)
//     y = add(t5, b)
//     return y: bf16
//   }
// plan: gemm_dequant: 64 rows of W x 128 of X, 1 warpgroup, 3 stages of 256 columns, 216 KiB shared, 1 CTA per SM
//   't5' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'q'
//   slot 2: parameter 's'
//   slot 3: parameter 'b'
//   slot 4: output 'y'
//   map 0: 'x' as 1024 x up to 4096 bf16 in boxes of 64 x 128
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_rounded_k0_gemm_dequant_t4x128.cu
#include "kernels/gemm_dequant.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(4096, 1), .n = 2048, .k = 1024},
    .x = {.map = 0},
    .w = {.slot = 1, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 2, .dtype = DType::kBF16, .stride_row = 8, .stride_block = 1}},
    .tile = {.row_tiles = 4, .columns = 128},
    .loads = {.stages = 3, .stage_blocks = 4},
    .schedule = {.warpgroups = 1, .cluster_k = 1, .n_slices = 32, .ctas_per_sm = 1}, .vec = 8,
};
using P = Params<5, 0, 1>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_b = Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)};
    Loaded<o_b, 8> v_b;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_b = load_operand<Operands::o_b, 8, false>(p, at);  // %b = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_t5 = sum0;  // %t5 = contract(%x, %w)
    const Vec<8> v_y = map<8, op_add>(v_t5, in.v_b.values());  // %y = add(%t5, %b)
    store_vec<Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .stride = dims(2048, 1)}, 8, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 1)
ctn_int4_rounded_k0_gemm_dequant_t4x128(const __grid_constant__ P p) { gemm_dequant<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h100) | kernel ctn_int4_rounded_k0_dequantise
// chain:
//   chain int4_rounded[M in 400..4096] rounded_weights (
//       input x: bf16[M, 1024],
//       weight q: i4[2048, 1024] packed,
//       weight s: bf16[2048, 8],
//       weight b: bf16[2048]) {
//     w = dequant(q, s) block (1, 128)
//     t5 = contract "mk,nk->mn"(x, w)
//     y = add(t5, b)
//     return y: bf16
//   }
// plan: dequantise: packed i4, 8 columns per thread, 256 threads
//   'w_bf16' is a dequantised weight, which is stored as a matrix
//   slot 0: parameter 'q'
//   slot 1: parameter 's'
//   slot 2: workspace 'w_bf16'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_rounded_k0_dequantise.cu
#include "kernels/dequantise.cuh"
namespace {
using namespace catenary;
__device__ constexpr DequantiseConfig kConfig{
    .size = extents(2048, 1024),
    .packed = true, .has_zero = false, .threads = 256,
    .q = Operand{.slot = 0, .dtype = DType::kI4, .weight = true, .before_wait = true},
    .scale = Operand{.slot = 1, .dtype = DType::kBF16, .weight = true, .before_wait = true, .stride = dims(8, 1)},
    .block_rows = 1, .block_columns = 128,
};
using P = Params<3, 0>;
struct Program {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_w = sum0;  // %w = dequant(%q, %s)
    store_vec<Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .stride = dims(1024, 1)}, 8, false>(p, at, v_w);  // %w_bf16
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 1)
ctn_int4_rounded_k0_dequantise(const __grid_constant__ P p) { dequantise<kConfig, Program>(p); }

// catenary | target sm_90a (h100) | kernel ctn_int4_rounded_k1_gemm_m128n128k64
// chain:
//   chain int4_rounded[M in 400..4096] rounded_weights (
//       input x: bf16[M, 1024],
//       weight q: i4[2048, 1024] packed,
//       weight s: bf16[2048, 8],
//       weight b: bf16[2048]) {
//     w = dequant(q, s) block (1, 128)
//     t5 = contract "mk,nk->mn"(x, w)
//     y = add(t5, b)
//     return y: bf16
//   }
// plan: gemm_sm90: tile 128x128x64, 2 ping-pong warpgroups, 6 stages, M clusters of 2, 224 KiB shared
//   't5' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: workspace 'w_bf16'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
//   map 0: 'x' as 1024 x up to 4096 bf16 in boxes of 64 x 32
//   map 1: 'w_bf16' as 1024 x 2048 bf16 in boxes of 64 x 64
//   map 2: 'y' as 2048 x up to 4096 bf16 in boxes of 64 x 16
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_rounded_k1_gemm_m128n128k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(4096, 1), .n = 2048, .k = 1024},
    .a = {.map = 0},
    .b = {.map = 1},
    .tile = {.block_m = 128, .block_n = 128, .stages = 6},
    .schedule = {.ping_pong = true, .consumers = 2, .cluster_m = 2, .split_k = 1, .tile_swizzle = 2},
    .epilogue = {.in_registers = true, .vec = 8},
};
using P = Params<4, 0, 3>;
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
      Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .streamed = true, .map = 2, .stride = dims(2048, 1)}};
  static CATENARY_DEVICE void values(const P& p, const Columns& columns, const Rows& rows, const Matrices& matrices, const Vec<2>& sum0, Vec<2>* out) {
    const Vec<2>& v_t5 = sum0;  // %t5 = contract(%x, %w_bf16)
    const Vec<2> v_y = map<2, op_add>(v_t5, columns.v_b.values());  // %y = add(%t5, %b)
    out[0] = v_y;  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_int4_rounded_k1_gemm_m128n128k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

