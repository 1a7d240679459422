// catenary | target sm_80 (a100) | kernel ctn_small_batch_k0_skinny_w16x1
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
// plan: skinny: 216 slices of N with at most 10 rows of W, 16 x 1 warps, 384 bytes of K per warp in shared memory and 128 in registers, 62 KiB shared, by cp.async, 2 CTAs per SM
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_small_batch_k0_skinny_w16x1.cu
#include "kernels/skinny.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(64, 1), .n = 2048, .k = 4096},
    .x = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .tile = {.warps_k = 16, .warps_n = 1, .columns = 8},
    .loads = {.bulk = false, .shared_blocks = 3, .register_blocks = 1, .copy_groups = 2, .x_chunks = 2, .x_columns = 8},
    .schedule = {.split_k = 1, .n_slices = 216}, .vec = 2,
};
using P = Params<4, 0>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_b = Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .weight = true, .before_wait = true, .stride = dims(1)};
    Loaded<o_b, 2> v_b;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_b = load_operand<Operands::o_b, 2, false>(p, at);  // %b = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<2>& sum0) {
    const Vec<2>& v_h = sum0;  // %h = contract(%x, %w)
    const Vec<2> v_t4 = map<2, op_add>(v_h, in.v_b.values());  // %t4 = add(%h, %b)
    const Vec<2> v_y = map<2, op_silu>(v_t4);  // %y = silu(%t4)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(2048, 1)}, 2, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(512, 2)
ctn_small_batch_k0_skinny_w16x1(const __grid_constant__ P p) { skinny<kConfig, Epilogue>(p); }

// catenary | target sm_80 (a100) | kernel ctn_small_batch_k0_gemm_m16n64k128
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
// plan: gemm_sm80: tile 16x64x128, 1 x 4 warps, 5 stages, 100 KiB shared, 1 CTA per SM, split-K 3
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: workspace 'partial sums'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_small_batch_k0_gemm_m16n64k128.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(64, 1), .n = 2048, .k = 4096},
    .a = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .tile = {.block_m = 16, .block_n = 64, .block_k = 128, .warps_m = 1, .warps_n = 4, .stages = 5},
    .schedule = {.split_k = 3, .tile_swizzle = 8}, .vec = 8,
};
using P = Params<3, 0>;
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_sum0 = sum0;  // sum over this split's k-slice
    store_vec<Operand{.slot = 2, .dtype = DType::kF32, .vec = 4, .stride = dims(32768, 2048, 1)}, 8, false>(p, at, v_sum0);  // %sum0
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 1)
ctn_small_batch_k0_gemm_m16n64k128(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

// catenary | target sm_80 (a100) | kernel ctn_small_batch_k0_fixup_s3
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
// plan: reduce: adds 3 partial sums in ascending order
//   adds the partial sums of split-K
//   slot 0: parameter 'b'
//   slot 1: output 'y'
//   slot 2: workspace 'partial sums'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_small_batch_k0_fixup_s3.cu
#include "kernels/reduce.cuh"
namespace {
using namespace catenary;
__device__ constexpr ReduceConfig kConfig{
    .size = extents(3, 1, 1, 1, 1, 1, Extent(64, 1), 2048), .term_rank = 1,
    .sums = 1, .vec = 4, .lanes = 256, .slices = 1,
};
using P = Params<3, 0>;
struct Prologue {
  struct Operands {
    static constexpr Operand o_part0 = Operand{.slot = 2, .dtype = DType::kF32, .vec = 4, .stride = dims(32768, 0, 0, 0, 0, 0, 2048, 1)};
    Loaded<o_part0, 4> v_part0;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_part0 = load_operand<Operands::o_part0, 4, false>(p, at);  // one split's sum
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, Vec<4>* out) {
    out[0] = in.v_part0.values();
  }
};
struct Epilogue {
  struct Operands {
    static constexpr Operand o_b = Operand{.slot = 0, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)};
    Loaded<o_b, 4> v_b;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_b = load_operand<Operands::o_b, 4, false>(p, at);  // %b = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<4>& sum0) {
    const Vec<4>& v_h = sum0;  // %h = contract(%x, %w)
    const Vec<4> v_t4 = map<4, op_add>(v_h, in.v_b.values());  // %t4 = add(%h, %b)
    const Vec<4> v_y = map<4, op_silu>(v_t4);  // %y = silu(%t4)
    store_vec<Operand{.slot = 1, .dtype = DType::kBF16, .vec = 8, .stride = dims(2048, 1)}, 4, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 1)
ctn_small_batch_k0_fixup_s3(const __grid_constant__ P p) { reduce<kConfig, Prologue, Epilogue>(p); }

// catenary | target sm_80 (a100) | kernel ctn_small_batch_k0_gemm_m16n128k64
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
// plan: gemm_sm80: tile 16x128x64, 1 x 4 warps, 6 stages, 108 KiB shared, 1 CTA per SM, split-K 3
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: workspace 'partial sums'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_small_batch_k0_gemm_m16n128k64.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(64, 1), .n = 2048, .k = 4096},
    .a = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .tile = {.block_m = 16, .block_n = 128, .block_k = 64, .warps_m = 1, .warps_n = 4, .stages = 6},
    .schedule = {.split_k = 3, .tile_swizzle = 8}, .vec = 8,
};
using P = Params<3, 0>;
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_sum0 = sum0;  // sum over this split's k-slice
    store_vec<Operand{.slot = 2, .dtype = DType::kF32, .vec = 4, .stride = dims(65536, 2048, 1)}, 8, false>(p, at, v_sum0);  // %sum0
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 1)
ctn_small_batch_k0_gemm_m16n128k64(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

// catenary | target sm_80 (a100) | kernel ctn_small_batch_k0_fixup_s3
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
// plan: reduce: adds 3 partial sums in ascending order
//   adds the partial sums of split-K
//   slot 0: parameter 'b'
//   slot 1: output 'y'
//   slot 2: workspace 'partial sums'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_small_batch_k0_fixup_s3.cu
#include "kernels/reduce.cuh"
namespace {
using namespace catenary;
__device__ constexpr ReduceConfig kConfig{
    .size = extents(3, 1, 1, 1, 1, 1, Extent(64, 1), 2048), .term_rank = 1,
    .sums = 1, .vec = 4, .lanes = 256, .slices = 1,
};
using P = Params<3, 0>;
struct Prologue {
  struct Operands {
    static constexpr Operand o_part0 = Operand{.slot = 2, .dtype = DType::kF32, .vec = 4, .stride = dims(65536, 0, 0, 0, 0, 0, 2048, 1)};
    Loaded<o_part0, 4> v_part0;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_part0 = load_operand<Operands::o_part0, 4, false>(p, at);  // one split's sum
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, Vec<4>* out) {
    out[0] = in.v_part0.values();
  }
};
struct Epilogue {
  struct Operands {
    static constexpr Operand o_b = Operand{.slot = 0, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)};
    Loaded<o_b, 4> v_b;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_b = load_operand<Operands::o_b, 4, false>(p, at);  // %b = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<4>& sum0) {
    const Vec<4>& v_h = sum0;  // %h = contract(%x, %w)
    const Vec<4> v_t4 = map<4, op_add>(v_h, in.v_b.values());  // %t4 = add(%h, %b)
    const Vec<4> v_y = map<4, op_silu>(v_t4);  // %y = silu(%t4)
    store_vec<Operand{.slot = 1, .dtype = DType::kBF16, .vec = 8, .stride = dims(2048, 1)}, 4, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 1)
ctn_small_batch_k0_fixup_s3(const __grid_constant__ P p) { reduce<kConfig, Prologue, Epilogue>(p); }

// catenary | target sm_80 (a100) | kernel ctn_small_batch_k0_gemm_m32n64k128
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
// plan: gemm_sm80: tile 32x64x128, 1 x 4 warps, 3 stages, 72 KiB shared, 2 CTAs per SM, split-K 3
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: workspace 'partial sums'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_small_batch_k0_gemm_m32n64k128.cu
#include "kernels/gemm_sm80.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm80Config kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(64, 1), .n = 2048, .k = 4096},
    .a = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .b = {.slot = 1, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .tile = {.block_m = 32, .block_n = 64, .block_k = 128, .warps_m = 1, .warps_n = 4, .stages = 3},
    .schedule = {.split_k = 3, .tile_swizzle = 8}, .vec = 8,
};
using P = Params<3, 0>;
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_sum0 = sum0;  // sum over this split's k-slice
    store_vec<Operand{.slot = 2, .dtype = DType::kF32, .vec = 4, .stride = dims(131072, 2048, 1)}, 8, false>(p, at, v_sum0);  // %sum0
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_small_batch_k0_gemm_m32n64k128(const __grid_constant__ P p) { gemm_sm80<kConfig, Epilogue>(p); }

// catenary | target sm_80 (a100) | kernel ctn_small_batch_k0_fixup_s3
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
// plan: reduce: adds 3 partial sums in ascending order
//   adds the partial sums of split-K
//   slot 0: parameter 'b'
//   slot 1: output 'y'
//   slot 2: workspace 'partial sums'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80 -I<catenary>/templates -cubin ctn_small_batch_k0_fixup_s3.cu
#include "kernels/reduce.cuh"
namespace {
using namespace catenary;
__device__ constexpr ReduceConfig kConfig{
    .size = extents(3, 1, 1, 1, 1, 1, Extent(64, 1), 2048), .term_rank = 1,
    .sums = 1, .vec = 4, .lanes = 256, .slices = 1,
};
using P = Params<3, 0>;
struct Prologue {
  struct Operands {
    static constexpr Operand o_part0 = Operand{.slot = 2, .dtype = DType::kF32, .vec = 4, .stride = dims(131072, 0, 0, 0, 0, 0, 2048, 1)};
    Loaded<o_part0, 4> v_part0;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_part0 = load_operand<Operands::o_part0, 4, false>(p, at);  // one split's sum
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, Vec<4>* out) {
    out[0] = in.v_part0.values();
  }
};
struct Epilogue {
  struct Operands {
    static constexpr Operand o_b = Operand{.slot = 0, .dtype = DType::kBF16, .vec = 8, .weight = true, .stride = dims(1)};
    Loaded<o_b, 4> v_b;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_b = load_operand<Operands::o_b, 4, false>(p, at);  // %b = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<4>& sum0) {
    const Vec<4>& v_h = sum0;  // %h = contract(%x, %w)
    const Vec<4> v_t4 = map<4, op_add>(v_h, in.v_b.values());  // %t4 = add(%h, %b)
    const Vec<4> v_y = map<4, op_silu>(v_t4);  // %y = silu(%t4)
    store_vec<Operand{.slot = 1, .dtype = DType::kBF16, .vec = 8, .stride = dims(2048, 1)}, 4, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 1)
ctn_small_batch_k0_fixup_s3(const __grid_constant__ P p) { reduce<kConfig, Prologue, Epilogue>(p); }

