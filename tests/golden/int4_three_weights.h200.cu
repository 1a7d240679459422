// catenary | target sm_90a (h200) | kernel ctn_int4_three_weights_k0_skinny_dequant_w8t3_x3
// chain:
//   chain int4_three_weights(
//       input x: bf16[1, 4096],
//       weight qq: i4[4096, 4096] packed,
//       weight sq: bf16[4096, 32],
//       weight qk: i4[1024, 4096] packed,
//       weight sk: bf16[1024, 32],
//       weight qv: i4[1024, 4096] packed,
//       weight sv: bf16[1024, 32]) {
//     t7 = dequant(qq, sq) block (1, 128)
//     q = contract "mk,nk->mn"(x, t7)
//     t9 = dequant(qk, sk) block (1, 128)
//     k = contract "mk,nk->mn"(x, t9)
//     t11 = dequant(qv, sv) block (1, 128)
//     v = contract "mk,nk->mn"(x, t11)
//     return q: bf16, k: bf16, v: bf16
//   }
// plan: skinny_dequant: 48 rows of W, 8 warps, 1 stage of 256 columns each, 54 KiB shared, 2 CTAs per SM, cluster split-K 2, 3 contractions side by side
//   'q' is a contraction: it reads its operands from memory; 'k' shares an operand and the launch with it; 'v' shares an operand and the launch with it
//   slot 0: parameter 'x'
//   slot 1: parameter 'qq'
//   slot 2: parameter 'sq'
//   slot 3: output 'q'
//   slot 4: output 'k'
//   slot 5: parameter 'qk'
//   slot 6: parameter 'sk'
//   slot 7: output 'v'
//   slot 8: parameter 'qv'
//   slot 9: parameter 'sv'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_int4_three_weights_k0_skinny_dequant_w8t3_x3.cu
#include "kernels/skinny_dequant.cuh"
namespace {
using namespace catenary;
using P = Params<10, 0>;
namespace part0 {
__device__ constexpr SkinnyDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = 1, .n = 4096, .k = 4096},
    .x = {.slot = 0, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 2, .dtype = DType::kBF16, .stride_row = 32, .stride_block = 1}},
    .tile = {.warps = 8, .row_tiles = 3, .columns = 8},
    .loads = {.stages = 1, .stage_chunks = 2, .x_stages = 1, .x_chunks = 2},
    .schedule = {.cluster_k = 2, .n_slices = 86}, .vec = 2,
};
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<2>& sum0) {
    const Vec<2>& v_q = sum0;  // %q = contract(%x, %t7)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(1)}, 2, false>(p, at, v_q);  // %q
  }
};
struct Part {
  static constexpr u32 kCtas = 172;
  static CATENARY_DEVICE void run(const P& p, const CtaRange& ctas) { skinny_dequant<kConfig, Epilogue>(p, ctas); }
};
}  // namespace part0
namespace part1 {
__device__ constexpr SkinnyDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = 1, .n = 1024, .k = 4096},
    .x = {.slot = 0, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 5, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 6, .dtype = DType::kBF16, .stride_row = 32, .stride_block = 1}},
    .tile = {.warps = 8, .row_tiles = 3, .columns = 8},
    .loads = {.stages = 1, .stage_chunks = 2, .x_stages = 1, .x_chunks = 2},
    .schedule = {.cluster_k = 2, .n_slices = 22}, .vec = 2,
};
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<2>& sum0) {
    const Vec<2>& v_k = sum0;  // %k = contract(%x, %t9)
    store_vec<Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .stride = dims(1)}, 2, false>(p, at, v_k);  // %k
  }
};
struct Part {
  static constexpr u32 kCtas = 44;
  static CATENARY_DEVICE void run(const P& p, const CtaRange& ctas) { skinny_dequant<kConfig, Epilogue>(p, ctas); }
};
}  // namespace part1
namespace part2 {
__device__ constexpr SkinnyDequantConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = 1, .n = 1024, .k = 4096},
    .x = {.slot = 0, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 8, .dtype = DType::kI4, .block_columns = 128, .scale = {.slot = 9, .dtype = DType::kBF16, .stride_row = 32, .stride_block = 1}},
    .tile = {.warps = 8, .row_tiles = 3, .columns = 8},
    .loads = {.stages = 1, .stage_chunks = 2, .x_stages = 1, .x_chunks = 2},
    .schedule = {.cluster_k = 2, .n_slices = 22}, .vec = 2,
};
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<2>& sum0) {
    const Vec<2>& v_v = sum0;  // %v = contract(%x, %t11)
    store_vec<Operand{.slot = 7, .dtype = DType::kBF16, .vec = 8, .stride = dims(1)}, 2, false>(p, at, v_v);  // %v
  }
};
struct Part {
  static constexpr u32 kCtas = 44;
  static CATENARY_DEVICE void run(const P& p, const CtaRange& ctas) { skinny_dequant<kConfig, Epilogue>(p, ctas); }
};
}  // namespace part2
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 2)
ctn_int4_three_weights_k0_skinny_dequant_w8t3_x3(const __grid_constant__ P p) { run_beside<part0::Part, part1::Part, part2::Part>(p); }

