// catenary | target sm_90a (h200) | kernel ctn_small_batch_k0_skinny_w16x1
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
// plan: skinny: 16 rows of W, 16 x 1 warps, 128 bytes of K per warp in shared memory and 128 in registers, 36 KiB shared, 2 CTAs per SM, cluster split-K 2
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_small_batch_k0_skinny_w16x1.cu
#include "kernels/skinny.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(64, 1), .n = 2048, .k = 4096},
    .x = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .tile = {.warps_k = 16, .warps_n = 1, .columns = 8},
    .loads = {.shared_blocks = 1, .register_blocks = 1, .copy_groups = 1, .x_chunks = 1, .x_columns = 8},
    .schedule = {.split_k = 1, .cluster_k = 2}, .vec = 2,
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

// catenary | target sm_90a (h200) | kernel ctn_small_batch_k0_skinny_w8x1
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
// plan: skinny: 32 rows of W, 8 x 1 warps, 128 bytes of K per warp in shared memory and 128 in registers, 36 KiB shared, 3 CTAs per SM, cluster split-K 4
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_small_batch_k0_skinny_w8x1.cu
#include "kernels/skinny.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(64, 1), .n = 2048, .k = 4096},
    .x = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .tile = {.warps_k = 8, .warps_n = 1, .row_tiles = 2, .columns = 8},
    .loads = {.shared_blocks = 1, .register_blocks = 1, .copy_groups = 1, .x_chunks = 1, .x_columns = 8},
    .schedule = {.split_k = 1, .cluster_k = 4}, .vec = 2,
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
extern "C" __global__ void __launch_bounds__(256, 3)
ctn_small_batch_k0_skinny_w8x1(const __grid_constant__ P p) { skinny<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_small_batch_k0_skinny_w8x1
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
// plan: skinny: 32 rows of W, 8 x 1 warps, 384 bytes of K per warp in shared memory and 128 in registers, 101 KiB shared, 2 CTAs per SM, cluster split-K 2
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_small_batch_k0_skinny_w8x1.cu
#include "kernels/skinny.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(64, 1), .n = 2048, .k = 4096},
    .x = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .tile = {.warps_k = 8, .warps_n = 1, .row_tiles = 2, .columns = 16},
    .loads = {.shared_blocks = 3, .register_blocks = 1, .copy_groups = 4, .x_chunks = 2, .x_columns = 16},
    .schedule = {.split_k = 1, .cluster_k = 2}, .vec = 2,
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
extern "C" __global__ void __launch_bounds__(256, 2)
ctn_small_batch_k0_skinny_w8x1(const __grid_constant__ P p) { skinny<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_small_batch_k0_skinny_w8x1
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
// plan: skinny: 32 rows of W, 8 x 1 warps, 384 bytes of K per warp in shared memory and 128 in registers, 101 KiB shared, 2 CTAs per SM, cluster split-K 2
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_small_batch_k0_skinny_w8x1.cu
#include "kernels/skinny.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(64, 1), .n = 2048, .k = 4096},
    .x = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .tile = {.warps_k = 8, .warps_n = 1, .row_tiles = 2, .columns = 24},
    .loads = {.shared_blocks = 3, .register_blocks = 1, .copy_groups = 4, .x_chunks = 4, .x_columns = 24},
    .schedule = {.split_k = 1, .cluster_k = 2}, .vec = 2,
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
extern "C" __global__ void __launch_bounds__(256, 2)
ctn_small_batch_k0_skinny_w8x1(const __grid_constant__ P p) { skinny<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_small_batch_k0_gemm_m64n32k64
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
// plan: gemm_sm90: tile 64x32x64, 1 cooperative warpgroup, 13 stages, cluster split-K 2, 2 CTAs per SM, 106 KiB shared
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
//   map 0: 'x' as 4096 x up to 64 bf16 in boxes of 64 x 32
//   map 1: 'w' as 4096 x 2048 bf16 in boxes of 64 x 32
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_small_batch_k0_gemm_m64n32k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(64, 1), .n = 2048, .k = 4096},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true},
    .tile = {.block_m = 64, .block_n = 32, .stages = 13, .a_rows = 32},
    .schedule = {.consumers = 1, .cluster_k = 2, .ctas_per_sm = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.vec = 4},
};
using P = Params<4, 0, 2>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_b = Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .weight = true, .before_wait = true, .stride = dims(1)};
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
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(2048, 1)}, 4, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 2)
ctn_small_batch_k0_gemm_m64n32k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_small_batch_k0_gemm_m64n64k64
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
// plan: gemm_sm90: tile 64x64x64, 1 cooperative warpgroup, 6 stages, cluster split-K 4, 2 CTAs per SM, 109 KiB shared
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
//   map 0: 'x' as 4096 x up to 64 bf16 in boxes of 64 x 64
//   map 1: 'w' as 4096 x 2048 bf16 in boxes of 64 x 64
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_small_batch_k0_gemm_m64n64k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(64, 1), .n = 2048, .k = 4096},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true},
    .tile = {.block_m = 64, .block_n = 64, .stages = 6},
    .schedule = {.consumers = 1, .cluster_k = 4, .ctas_per_sm = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.vec = 4},
};
using P = Params<4, 0, 2>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_b = Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .weight = true, .before_wait = true, .stride = dims(1)};
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
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(2048, 1)}, 4, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 2)
ctn_small_batch_k0_gemm_m64n64k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

