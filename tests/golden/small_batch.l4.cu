// catenary | target sm_89 (l4) | kernel ctn_small_batch_k0_gemm_m32n64k128
// chain:
//   chain small_batch[M in 1..64](
//       input x: bf16[M, 4096],
//       weight w: bf16[2048, 4096],
//       weight b: bf16[2048]) {
//     h = contract "mk,nk->mn"(x, w)
//     t4 = add(h, b)
//     y = silu(t4)
//     return y: bf16
//   }
// plan: gemm_sm80: tile 32x64x128, 1 x 4 warps, 3 stages, 72 KiB shared, 1 CTA per SM
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_89,code=sm_89 -I<catenary>/templates -cubin ctn_small_batch_k0_gemm_m32n64k128.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(64, 1), .n = 2048, .k = 4096},
    .a = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .tile = {.block_m = 32, .block_n = 64, .block_k = 128, .warps_m = 1, .warps_n = 4, .stages = 3},
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
    const Vec<8>& v_h = sum0;  // %h = contract(%x, %w)
    const Vec<8> v_t4 = map<8, op_add>(v_h, in.v_b.values());  // %t4 = add(%h, %b)
    const Vec<8> v_y = map<8, op_silu>(v_t4);  // %y = silu(%t4)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(2048, 1)}, 8, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 1)
ctn_small_batch_k0_gemm_m32n64k128(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

// catenary | target sm_89 (l4) | kernel ctn_small_batch_k0_gemm_m64n64k64
// chain:
//   chain small_batch[M in 1..64](
//       input x: bf16[M, 4096],
//       weight w: bf16[2048, 4096],
//       weight b: bf16[2048]) {
//     h = contract "mk,nk->mn"(x, w)
//     t4 = add(h, b)
//     y = silu(t4)
//     return y: bf16
//   }
// plan: gemm_sm80: tile 64x64x64, 2 x 2 warps, 4 stages, 64 KiB shared, 1 CTA per SM
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_89,code=sm_89 -I<catenary>/templates -cubin ctn_small_batch_k0_gemm_m64n64k64.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(64, 1), .n = 2048, .k = 4096},
    .a = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .tile = {.block_m = 64, .block_n = 64, .block_k = 64, .warps_m = 2, .warps_n = 2, .stages = 4},
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
    const Vec<8>& v_h = sum0;  // %h = contract(%x, %w)
    const Vec<8> v_t4 = map<8, op_add>(v_h, in.v_b.values());  // %t4 = add(%h, %b)
    const Vec<8> v_y = map<8, op_silu>(v_t4);  // %y = silu(%t4)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(2048, 1)}, 8, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 1)
ctn_small_batch_k0_gemm_m64n64k64(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

