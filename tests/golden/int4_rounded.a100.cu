// catenary | target sm_80 (a100) | kernel ctn_int4_rounded_k0_dequantise
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
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_int4_rounded_k0_dequantise.cu
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

// catenary | target sm_80 (a100) | kernel ctn_int4_rounded_k1_gemm_m128n128k64
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
// plan: gemm_sm80: tile 128x128x64, 2 x 2 warps, 3 stages, 96 KiB shared, 1 CTA per SM
//   't5' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: workspace 'w_bf16'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_int4_rounded_k1_gemm_m128n128k64.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(4096, 1), .n = 2048, .k = 1024},
    .a = {.slot = 0, .stride_row = 1024, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 1024, .stride_k = 1, .copy_bytes = 16},
    .tile = {.block_m = 128, .block_n = 128, .block_k = 64, .warps_m = 2, .warps_n = 2, .stages = 3},
    .schedule = {.split_k = 1, .tile_swizzle = 8}, .vec = 8,
};
using P = Params<4, 0>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_b = Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)};
    Loaded<o_b, 8> v_b;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_b = load_operand<Operands::o_b, 8, false>(p, at);  // %b = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_t5 = sum0;  // %t5 = contract(%x, %w_bf16)
    const Vec<8> v_y = map<8, op_add>(v_t5, in.v_b.values());  // %y = add(%t5, %b)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(2048, 1)}, 8, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 1)
ctn_int4_rounded_k1_gemm_m128n128k64(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

// catenary | target sm_80 (a100) | kernel ctn_int4_rounded_k0_dequantise
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
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_int4_rounded_k0_dequantise.cu
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

// catenary | target sm_80 (a100) | kernel ctn_int4_rounded_k1_gemm_m128n128k32
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
// plan: gemm_sm80: tile 128x128x32, 2 x 2 warps, 4 stages, 64 KiB shared, 2 CTAs per SM
//   't5' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: workspace 'w_bf16'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_int4_rounded_k1_gemm_m128n128k32.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(4096, 1), .n = 2048, .k = 1024},
    .a = {.slot = 0, .stride_row = 1024, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 1024, .stride_k = 1, .copy_bytes = 16},
    .tile = {.block_m = 128, .block_n = 128, .block_k = 32, .warps_m = 2, .warps_n = 2, .stages = 4},
    .schedule = {.split_k = 1, .tile_swizzle = 8}, .vec = 8,
};
using P = Params<4, 0>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_b = Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)};
    Loaded<o_b, 8> v_b;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_b = load_operand<Operands::o_b, 8, false>(p, at);  // %b = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_t5 = sum0;  // %t5 = contract(%x, %w_bf16)
    const Vec<8> v_y = map<8, op_add>(v_t5, in.v_b.values());  // %y = add(%t5, %b)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(2048, 1)}, 8, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_int4_rounded_k1_gemm_m128n128k32(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

