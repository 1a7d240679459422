// catenary | target sm_90a (h200) | kernel ctn_int4_decode_k0_skinny_dequant_w4t2
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
// plan: skinny_dequant: 32 rows of W and of W2, 4 warps, 2 stages of 256 columns each, 97 KiB shared, 2 CTAs per SM
//   'g' is a contraction: it reads its operands from memory; 'u' shares an operand and an epilogue with it
//   slot 0: parameter 'x'
//   slot 1: parameter 'qg'
//   slot 2: parameter 'sg'
//   slot 3: parameter 'qu'
//   slot 4: parameter 'su'
//   slot 5: workspace 'h'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_decode_k0_skinny_dequant_w4t2.cu
#include "kernels/skinny_dequant.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(16, 1), .n = 14336, .k = 4096},
    .x = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 2, .dtype = DType::kBF16, .stride_row = 32, .stride_block = 1}},
    .w2 = {.slot = 3, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 4, .dtype = DType::kBF16, .stride_row = 32, .stride_block = 1}}, .dual = true,
    .tile = {.warps = 4, .row_tiles = 2, .columns = 8},
    .loads = {.stages = 2, .stage_chunks = 2, .x_stages = 2, .x_chunks = 2},
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
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_int4_decode_k0_skinny_dequant_w4t2(const __grid_constant__ P p) { skinny_dequant<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_int4_decode_k1_skinny_dequant_w4t4
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
// plan: skinny_dequant: 64 rows of W, 4 warps, 2 stages of 256 columns each, 98 KiB shared, 2 CTAs per SM, cluster split-K 4
//   't16' is a contraction: it reads its operands from memory
//   slot 0: workspace 'h'
//   slot 1: parameter 'qd'
//   slot 2: parameter 'sd'
//   slot 3: parameter 'r'
//   slot 4: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_decode_k1_skinny_dequant_w4t4.cu
#include "kernels/skinny_dequant.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(16, 1), .n = 4096, .k = 14336},
    .x = {.slot = 0, .stride_row = 14336, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 2, .dtype = DType::kBF16, .stride_row = 112, .stride_block = 1}},
    .tile = {.warps = 4, .row_tiles = 4, .columns = 8},
    .loads = {.stages = 2, .stage_chunks = 2, .x_stages = 2, .x_chunks = 2},
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
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_int4_decode_k1_skinny_dequant_w4t4(const __grid_constant__ P p) { skinny_dequant<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_int4_decode_k0_skinny_dequant_w4t2
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
// plan: skinny_dequant: 32 rows of W and of W2, 4 warps, 2 stages of 256 columns each, 98 KiB shared, 2 CTAs per SM
//   'g' is a contraction: it reads its operands from memory; 'u' shares an operand and an epilogue with it
//   slot 0: parameter 'x'
//   slot 1: parameter 'qg'
//   slot 2: parameter 'sg'
//   slot 3: parameter 'qu'
//   slot 4: parameter 'su'
//   slot 5: workspace 'h'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_decode_k0_skinny_dequant_w4t2.cu
#include "kernels/skinny_dequant.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(16, 1), .n = 14336, .k = 4096},
    .x = {.slot = 0, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 2, .dtype = DType::kBF16, .stride_row = 32, .stride_block = 1}},
    .w2 = {.slot = 3, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 4, .dtype = DType::kBF16, .stride_row = 32, .stride_block = 1}}, .dual = true,
    .tile = {.warps = 4, .row_tiles = 2, .columns = 16},
    .loads = {.stages = 2, .stage_chunks = 2, .x_stages = 2, .x_chunks = 1},
    .schedule = {.cluster_k = 1, .n_slices = 448}, .vec = 4,
};
using P = Params<6, 0>;
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<4>& sum0, const Vec<4>& sum1) {
    const Vec<4>& v_g = sum0;  // %g = contract(%x, %wg)
    const Vec<4>& v_u = sum1;  // %u = contract(%x, %wu)
    const Vec<4> v_t12 = map<4, op_silu>(v_g);  // %t12 = silu(%g)
    const Vec<4> v_t13 = map<4, op_mul>(v_t12, v_u);  // %t13 = mul(%t12, %u)
    const Vec<4> v_h = round_to<DType::kBF16, 4>(v_t13);  // %h = cast(%t13)
    store_vec<Operand{.slot = 5, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(14336, 1)}, 4, false>(p, at, v_h);  // %h
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_int4_decode_k0_skinny_dequant_w4t2(const __grid_constant__ P p) { skinny_dequant<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_int4_decode_k1_skinny_dequant_w4t4
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
// plan: skinny_dequant: 64 rows of W, 4 warps, 2 stages of 256 columns each, 101 KiB shared, 2 CTAs per SM, cluster split-K 4
//   't16' is a contraction: it reads its operands from memory
//   slot 0: workspace 'h'
//   slot 1: parameter 'qd'
//   slot 2: parameter 'sd'
//   slot 3: parameter 'r'
//   slot 4: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_decode_k1_skinny_dequant_w4t4.cu
#include "kernels/skinny_dequant.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = Extent(16, 1), .n = 4096, .k = 14336},
    .x = {.slot = 0, .stride_row = 14336, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 2, .dtype = DType::kBF16, .stride_row = 112, .stride_block = 1}},
    .tile = {.warps = 4, .row_tiles = 4, .columns = 16},
    .loads = {.stages = 2, .stage_chunks = 2, .x_stages = 2, .x_chunks = 1},
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
extern "C" __global__ void __launch_bounds__(128, 2)
ctn_int4_decode_k1_skinny_dequant_w4t4(const __grid_constant__ P p) { skinny_dequant<kConfig, Epilogue>(p); }

