// catenary | target sm_90a (h200) | kernel ctn_int4_experts_k0_skinny_dequant_w4t1
// chain:
//   chain int4_experts(
//       input x: bf16[64, 2048],
//       weight qg: u4[32, 768, 2048] packed,
//       weight sg: bf16[32, 768, 16],
//       weight zg: i8[32, 768, 16],
//       weight qu: u4[32, 768, 2048] packed,
//       weight su: bf16[32, 768, 16],
//       weight zu: i8[32, 768, 16],
//       input ends: i32[32]) {
//     wg = dequant(qg, sg, zg) block (1, 128)
//     wu = dequant(qu, su, zu) block (1, 128)
//     g = contract "mk,enk->mn"(x, wg) ragged m by ends over e
//     u = contract "mk,enk->mn"(x, wu) ragged m by ends over e
//     t12 = silu(g)
//     h = mul(t12, u)
//     return h: bf16
//   }
// plan: skinny_dequant: 16 rows of W and of W2, 4 warps, 1 stage of 512 columns each, 69 KiB shared, 3 CTAs per SM, 8 ragged rows at a time
//   'g' is a contraction: it reads its operands from memory; 'u' shares an operand and an epilogue with it
//   slot 0: parameter 'x'
//   slot 1: parameter 'qg'
//   slot 2: parameter 'sg'
//   slot 3: parameter 'zg'
//   slot 4: parameter 'ends'
//   slot 5: parameter 'qu'
//   slot 6: parameter 'su'
//   slot 7: parameter 'zu'
//   slot 8: output 'h'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_experts_k0_skinny_dequant_w4t1.cu
#include "kernels/skinny_dequant_m_grouped.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = 64, .n = 768, .k = 2048},
    .x = {.slot = 0, .stride_row = 2048, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .dtype = DType::kU4, .block_columns = 128, .scale = {.slot = 2, .dtype = DType::kBF16, .stride_row = 16, .stride_block = 1, .stride_group = 12288}, .has_zero = true, .zero = {.slot = 3, .dtype = DType::kI8, .stride_row = 16, .stride_block = 1, .stride_group = 12288}, .stride_group = 1572864},
    .w2 = {.slot = 5, .dtype = DType::kU4, .block_columns = 128, .scale = {.slot = 6, .dtype = DType::kBF16, .stride_row = 16, .stride_block = 1, .stride_group = 12288}, .has_zero = true, .zero = {.slot = 7, .dtype = DType::kI8, .stride_row = 16, .stride_block = 1, .stride_group = 12288}, .stride_group = 1572864}, .dual = true,
    .tile = {.warps = 4, .row_tiles = 1, .columns = 8},
    .loads = {.w_is_weight = false, .stages = 1, .stage_chunks = 4, .x_stages = 1, .x_chunks = 4},
    .schedule = {.cluster_k = 1, .n_slices = 48}, .vec = 2,
    .ragged = {.kind = Ragged::kMGrouped, .group_ends_slot = 4, .num_groups = 32},
};
using P = Params<9, 0>;
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
    const Vec<2> v_h = map<2, op_mul>(v_t12, v_u);  // %h = mul(%t12, %u)
    store_vec<Operand{.slot = 8, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(768, 1)}, 2, false>(p, at, v_h);  // %h
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 3)
ctn_int4_experts_k0_skinny_dequant_w4t1(const __grid_constant__ P p) { skinny_dequant_m_grouped<kConfig, Epilogue>(p); }

