// catenary | target sm_90a (h200) | kernel ctn_int4_decode_k0_skinny_dequant_w8t2
// chain:
//   chain int4_decode[M in 1..16](
//       input x: bf16[M, 4096],
//       weight qg: i4[14336, 4096] packed,
//       weight sg: bf16[14336, 32],
//       weight qu: i4[14336, 4096] packed,
//       weight su: bf16[14336, 32],
//       weight qd: i4[4096, 14336] packed,
//       weight sd: bf16[4096, 112],
//       input r: bf16[M, 4096]) {
//     wg = dequant(qg, sg) block (1, 128)
//     g = contract "mk,nk->mn"(x, wg)
//     wu = dequant(qu, su) block (1, 128)
//     u = contract "mk,nk->mn"(x, wu)
//     t12 = silu(g)
//     t13 = mul(t12, u)
//     h = cast(t13, bf16)
//     wd = dequant(qd, sd) block (1, 128)
//     t16 = contract "mk,nk->mn"(h, wd)
//     y = add(t16, r)
//     return y: bf16
//   }
// plan: skinny_dequant: 32 rows of W and of W2, 8 warps, 2 stages of 128 columns each, 98 KiB shared, 2 CTAs per SM
//   'g' is a contraction: it reads its operands from memory; 'u' shares an operand and an epilogue with it
//   slot 0: parameter 'x'
//   slot 1: parameter 'qg'
//   slot 2: parameter 'sg'
//   slot 3: parameter 'qu'
//   slot 4: parameter 'su'
//   slot 5: workspace 'h'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_decode_k0_skinny_dequant_w8t2.cu
#include "kernels/skinny_dequant.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(16, 1), .n = 14336, .k = 4096},
    .x = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 2, .dtype = DType::kBF16, .stride_row = 32, .stride_block = 1}},
    .w2 = {.slot = 3, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 4, .dtype = DType::kBF16, .stride_row = 32, .stride_block = 1}}, .dual = true,
    .tile = {.warps = 8, .row_tiles = 2, .columns = 8},
    .loads = {.stages = 2, .stage_chunks = 1, .x_stages = 2, .x_chunks = 1},
    .schedule = {.cluster_k = 1, .n_slices = 448}, .vec = 2,
};
using P = Params<6, 0>;
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<2>& sum0, const Vec<2>& sum1) {
    const Vec<2>& v_g = sum0;  // %g = contract(%x, %wg)
    const Vec<2>& v_u = sum1;  // %u = contract(%x, %wu)
    const Vec<2> v_t12 = map<2, op_silu>(v_g);  // %t12 = silu(%g)
    const Vec<2> v_t13 = map<2, op_mul>(v_t12, v_u);  // %t13 = mul(%t12, %u)
    const Vec<2> v_h = round_to<DType::kBF16, 2>(v_t13);  // %h = cast(%t13)
    store_vec<Operand{.slot = 5, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(14336, 1)}, 2, false>(p, at, v_h);  // %h
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 2)
ctn_int4_decode_k0_skinny_dequant_w8t2(const __grid_constant__ P p) { skinny_dequant<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_int4_decode_k1_skinny_dequant_w8t4
// chain:
//   chain int4_decode[M in 1..16](
//       input x: bf16[M, 4096],
//       weight qg: i4[14336, 4096] packed,
//       weight sg: bf16[14336, 32],
//       weight qu: i4[14336, 4096] packed,
//       weight su: bf16[14336, 32],
//       weight qd: i4[4096, 14336] packed,
//       weight sd: bf16[4096, 112],
//       input r: bf16[M, 4096]) {
//     wg = dequant(qg, sg) block (1, 128)
//     g = contract "mk,nk->mn"(x, wg)
//     wu = dequant(qu, su) block (1, 128)
//     u = contract "mk,nk->mn"(x, wu)
//     t12 = silu(g)
//     t13 = mul(t12, u)
//     h = cast(t13, bf16)
//     wd = dequant(qd, sd) block (1, 128)
//     t16 = contract "mk,nk->mn"(h, wd)
//     y = add(t16, r)
//     return y: bf16
//   }
// plan: skinny_dequant: 64 rows of W, 8 warps, 2 stages of 128 columns each, 99 KiB shared, 2 CTAs per SM, cluster split-K 4
//   't16' is a contraction: it reads its operands from memory
//   slot 0: workspace 'h'
//   slot 1: parameter 'qd'
//   slot 2: parameter 'sd'
//   slot 3: parameter 'r'
//   slot 4: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_decode_k1_skinny_dequant_w8t4.cu
#include "kernels/skinny_dequant.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(16, 1), .n = 4096, .k = 14336},
    .x = {.slot = 0, .stride_row = 14336, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 2, .dtype = DType::kBF16, .stride_row = 112, .stride_block = 1}},
    .tile = {.warps = 8, .row_tiles = 4, .columns = 8},
    .loads = {.stages = 2, .stage_chunks = 1, .x_stages = 2, .x_chunks = 1},
    .schedule = {.cluster_k = 4, .n_slices = 64}, .vec = 2,
};
using P = Params<5, 0>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_r = Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(4096, 1)};
    Loaded<o_r, 2> v_r;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_r = load_operand<Operands::o_r, 2, false>(p, at);  // %r = input
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<2>& sum0) {
    const Vec<2>& v_t16 = sum0;  // %t16 = contract(%h, %wd)
    const Vec<2> v_y = map<2, op_add>(v_t16, in.v_r.values());  // %y = add(%t16, %r)
    store_vec<Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .stride = dims(4096, 1)}, 2, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 2)
ctn_int4_decode_k1_skinny_dequant_w8t4(const __grid_constant__ P p) { skinny_dequant<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_int4_decode_k0_gemm_dequant_t7x8
// chain:
//   chain int4_decode[M in 1..16](
//       input x: bf16[M, 4096],
//       weight qg: i4[14336, 4096] packed,
//       weight sg: bf16[14336, 32],
//       weight qu: i4[14336, 4096] packed,
//       weight su: bf16[14336, 32],
//       weight qd: i4[4096, 14336] packed,
//       weight sd: bf16[4096, 112],
//       input r: bf16[M, 4096]) {
//     wg = dequant(qg, sg) block (1, 128)
//     g = contract "mk,nk->mn"(x, wg)
//     wu = dequant(qu, su) block (1, 128)
//     u = contract "mk,nk->mn"(x, wu)
//     t12 = silu(g)
//     t13 = mul(t12, u)
//     h = cast(t13, bf16)
//     wd = dequant(qd, sd) block (1, 128)
//     t16 = contract "mk,nk->mn"(h, wd)
//     y = add(t16, r)
//     return y: bf16
//   }
// plan: gemm_dequant: 112 rows of W and of W2 x 8 of X, 2 warpgroups, 3 stages of 256 columns, 99 KiB shared, 2 CTAs per SM, cluster split-K 2
//   'g' is a contraction: it reads its operands from memory; 'u' shares an operand and an epilogue with it
//   slot 0: parameter 'x'
//   slot 1: parameter 'qg'
//   slot 2: parameter 'sg'
//   slot 3: parameter 'qu'
//   slot 4: parameter 'su'
//   slot 5: workspace 'h'
//   map 0: 'x' as 4096 x up to 16 bf16 in boxes of 64 x 8
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_decode_k0_gemm_dequant_t7x8.cu
#include "kernels/gemm_dequant.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(16, 1), .n = 14336, .k = 4096},
    .x = {.map = 0},
    .w = {.slot = 1, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 2, .dtype = DType::kBF16, .stride_row = 32, .stride_block = 1}},
    .w2 = {.slot = 3, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 4, .dtype = DType::kBF16, .stride_row = 32, .stride_block = 1}}, .dual = true,
    .tile = {.row_tiles = 7, .columns = 8},
    .loads = {.stages = 3, .stage_blocks = 4},
    .schedule = {.warpgroups = 2, .cluster_k = 2, .n_slices = 128, .ctas_per_sm = 2}, .vec = 8,
};
using P = Params<6, 0, 1>;
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0, const Vec<8>& sum1) {
    const Vec<8>& v_g = sum0;  // %g = contract(%x, %wg)
    const Vec<8>& v_u = sum1;  // %u = contract(%x, %wu)
    const Vec<8> v_t12 = map<8, op_silu>(v_g);  // %t12 = silu(%g)
    const Vec<8> v_t13 = map<8, op_mul>(v_t12, v_u);  // %t13 = mul(%t12, %u)
    const Vec<8> v_h = round_to<DType::kBF16, 8>(v_t13);  // %h = cast(%t13)
    store_vec<Operand{.slot = 5, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(14336, 1)}, 8, false>(p, at, v_h);  // %h
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 2)
ctn_int4_decode_k0_gemm_dequant_t7x8(const __grid_constant__ P p) { gemm_dequant<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_int4_decode_k1_skinny_dequant_w8t4
// chain:
//   chain int4_decode[M in 1..16](
//       input x: bf16[M, 4096],
//       weight qg: i4[14336, 4096] packed,
//       weight sg: bf16[14336, 32],
//       weight qu: i4[14336, 4096] packed,
//       weight su: bf16[14336, 32],
//       weight qd: i4[4096, 14336] packed,
//       weight sd: bf16[4096, 112],
//       input r: bf16[M, 4096]) {
//     wg = dequant(qg, sg) block (1, 128)
//     g = contract "mk,nk->mn"(x, wg)
//     wu = dequant(qu, su) block (1, 128)
//     u = contract "mk,nk->mn"(x, wu)
//     t12 = silu(g)
//     t13 = mul(t12, u)
//     h = cast(t13, bf16)
//     wd = dequant(qd, sd) block (1, 128)
//     t16 = contract "mk,nk->mn"(h, wd)
//     y = add(t16, r)
//     return y: bf16
//   }
// plan: skinny_dequant: 64 rows of W, 8 warps, 2 stages of 128 columns each, 99 KiB shared, 2 CTAs per SM, cluster split-K 4
//   't16' is a contraction: it reads its operands from memory
//   slot 0: workspace 'h'
//   slot 1: parameter 'qd'
//   slot 2: parameter 'sd'
//   slot 3: parameter 'r'
//   slot 4: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_decode_k1_skinny_dequant_w8t4.cu
#include "kernels/skinny_dequant.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(16, 1), .n = 4096, .k = 14336},
    .x = {.slot = 0, .stride_row = 14336, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 2, .dtype = DType::kBF16, .stride_row = 112, .stride_block = 1}},
    .tile = {.warps = 8, .row_tiles = 4, .columns = 8},
    .loads = {.stages = 2, .stage_chunks = 1, .x_stages = 2, .x_chunks = 1},
    .schedule = {.cluster_k = 4, .n_slices = 64}, .vec = 2,
};
using P = Params<5, 0>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_r = Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(4096, 1)};
    Loaded<o_r, 2> v_r;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_r = load_operand<Operands::o_r, 2, false>(p, at);  // %r = input
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<2>& sum0) {
    const Vec<2>& v_t16 = sum0;  // %t16 = contract(%h, %wd)
    const Vec<2> v_y = map<2, op_add>(v_t16, in.v_r.values());  // %y = add(%t16, %r)
    store_vec<Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .stride = dims(4096, 1)}, 2, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 2)
ctn_int4_decode_k1_skinny_dequant_w8t4(const __grid_constant__ P p) { skinny_dequant<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_int4_decode_k0_gemm_dequant_t4x16
// chain:
//   chain int4_decode[M in 1..16](
//       input x: bf16[M, 4096],
//       weight qg: i4[14336, 4096] packed,
//       weight sg: bf16[14336, 32],
//       weight qu: i4[14336, 4096] packed,
//       weight su: bf16[14336, 32],
//       weight qd: i4[4096, 14336] packed,
//       weight sd: bf16[4096, 112],
//       input r: bf16[M, 4096]) {
//     wg = dequant(qg, sg) block (1, 128)
//     g = contract "mk,nk->mn"(x, wg)
//     wu = dequant(qu, su) block (1, 128)
//     u = contract "mk,nk->mn"(x, wu)
//     t12 = silu(g)
//     t13 = mul(t12, u)
//     h = cast(t13, bf16)
//     wd = dequant(qd, sd) block (1, 128)
//     t16 = contract "mk,nk->mn"(h, wd)
//     y = add(t16, r)
//     return y: bf16
//   }
// plan: gemm_dequant: 64 rows of W and of W2 x 16 of X, 2 warpgroups, 4 stages of 256 columns, 96 KiB shared, 2 CTAs per SM
//   'g' is a contraction: it reads its operands from memory; 'u' shares an operand and an epilogue with it
//   slot 0: parameter 'x'
//   slot 1: parameter 'qg'
//   slot 2: parameter 'sg'
//   slot 3: parameter 'qu'
//   slot 4: parameter 'su'
//   slot 5: workspace 'h'
//   map 0: 'x' as 4096 x up to 16 bf16 in boxes of 64 x 16
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_decode_k0_gemm_dequant_t4x16.cu
#include "kernels/gemm_dequant.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(16, 1), .n = 14336, .k = 4096},
    .x = {.map = 0},
    .w = {.slot = 1, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 2, .dtype = DType::kBF16, .stride_row = 32, .stride_block = 1}},
    .w2 = {.slot = 3, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 4, .dtype = DType::kBF16, .stride_row = 32, .stride_block = 1}}, .dual = true,
    .tile = {.row_tiles = 4, .columns = 16},
    .loads = {.stages = 4, .stage_blocks = 4},
    .schedule = {.warpgroups = 2, .cluster_k = 1, .n_slices = 264, .ctas_per_sm = 2}, .vec = 8,
};
using P = Params<6, 0, 1>;
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0, const Vec<8>& sum1) {
    const Vec<8>& v_g = sum0;  // %g = contract(%x, %wg)
    const Vec<8>& v_u = sum1;  // %u = contract(%x, %wu)
    const Vec<8> v_t12 = map<8, op_silu>(v_g);  // %t12 = silu(%g)
    const Vec<8> v_t13 = map<8, op_mul>(v_t12, v_u);  // %t13 = mul(%t12, %u)
    const Vec<8> v_h = round_to<DType::kBF16, 8>(v_t13);  // %h = cast(%t13)
    store_vec<Operand{.slot = 5, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(14336, 1)}, 8, false>(p, at, v_h);  // %h
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 2)
ctn_int4_decode_k0_gemm_dequant_t4x16(const __grid_constant__ P p) { gemm_dequant<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_int4_decode_k1_gemm_dequant_t4x16
// chain:
//   chain int4_decode[M in 1..16](
//       input x: bf16[M, 4096],
//       weight qg: i4[14336, 4096] packed,
//       weight sg: bf16[14336, 32],
//       weight qu: i4[14336, 4096] packed,
//       weight su: bf16[14336, 32],
//       weight qd: i4[4096, 14336] packed,
//       weight sd: bf16[4096, 112],
//       input r: bf16[M, 4096]) {
//     wg = dequant(qg, sg) block (1, 128)
//     g = contract "mk,nk->mn"(x, wg)
//     wu = dequant(qu, su) block (1, 128)
//     u = contract "mk,nk->mn"(x, wu)
//     t12 = silu(g)
//     t13 = mul(t12, u)
//     h = cast(t13, bf16)
//     wd = dequant(qd, sd) block (1, 128)
//     t16 = contract "mk,nk->mn"(h, wd)
//     y = add(t16, r)
//     return y: bf16
//   }
// plan: gemm_dequant: 64 rows of W x 16 of X, 1 warpgroup, 6 stages of 256 columns, 99 KiB shared, 2 CTAs per SM, cluster split-K 4
//   't16' is a contraction: it reads its operands from memory
//   slot 0: workspace 'h'
//   slot 1: parameter 'qd'
//   slot 2: parameter 'sd'
//   slot 3: parameter 'r'
//   slot 4: output 'y'
//   map 0: 'h' as 14336 x up to 16 bf16 in boxes of 64 x 16
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_decode_k1_gemm_dequant_t4x16.cu
#include "kernels/gemm_dequant.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(16, 1), .n = 4096, .k = 14336},
    .x = {.map = 0},
    .w = {.slot = 1, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 2, .dtype = DType::kBF16, .stride_row = 112, .stride_block = 1}},
    .tile = {.row_tiles = 4, .columns = 16},
    .loads = {.stages = 6, .stage_blocks = 4},
    .schedule = {.warpgroups = 1, .cluster_k = 4, .n_slices = 64, .ctas_per_sm = 2}, .vec = 8,
};
using P = Params<5, 0, 1>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_r = Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(4096, 1)};
    Loaded<o_r, 8> v_r;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_r = load_operand<Operands::o_r, 8, false>(p, at);  // %r = input
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_t16 = sum0;  // %t16 = contract(%h, %wd)
    const Vec<8> v_y = map<8, op_add>(v_t16, in.v_r.values());  // %y = add(%t16, %r)
    store_vec<Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .stride = dims(4096, 1)}, 8, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 2)
ctn_int4_decode_k1_gemm_dequant_t4x16(const __grid_constant__ P p) { gemm_dequant<kConfig, Epilogue>(p); }

