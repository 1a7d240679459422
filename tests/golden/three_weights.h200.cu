// catenary | target sm_90a (h200) | kernel ctn_three_weights_k0_skinny_w16x1_x3
// chain:
//   chain three_weights(
//       input x: bf16[1, 4096],
//       weight wq: bf16[4096, 4096],
//       weight wk: bf16[1024, 4096],
//       weight wv: bf16[1024, 4096],
//       weight bq: bf16[4096]) {
//     t5 = contract "mk,nk->mn"(x, wq)
//     q = add(t5, bq)
//     k = contract "mk,nk->mn"(x, wk)
//     v = contract "mk,nk->mn"(x, wv)
//     return q: bf16, k: bf16, v: bf16
//   }
// plan: skinny: 526 slices of N with at most 12 rows of W, 16 x 1 warps, 384 bytes of K per warp in shared memory and 128 in registers, 75 KiB shared, 2 CTAs per SM, 3 contractions side by side
//   't5' is a contraction: it reads its operands from memory; 'k' shares an operand and the launch with it; 'v' shares an operand and the launch with it
//   slot 0: parameter 'x'
//   slot 1: parameter 'wq'
//   slot 2: parameter 'bq'
//   slot 3: output 'q'
//   slot 4: output 'k'
//   slot 5: parameter 'wk'
//   slot 6: output 'v'
//   slot 7: parameter 'wv'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_three_weights_k0_skinny_w16x1_x3.cu
#include "kernels/skinny.cuh"
namespace {
using namespace catenary;
using P = Params<8, 0>;
namespace part0 {
__device__ constexpr SkinnyConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = 1, .n = 4096, .k = 4096},
    .x = {.slot = 0, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .tile = {.warps_k = 16, .warps_n = 1, .columns = 8},
    .loads = {.shared_blocks = 3, .register_blocks = 1, .copy_groups = 2, .x_chunks = 2, .x_columns = 8},
    .schedule = {.split_k = 1, .n_slices = 342}, .vec = 2,
};
struct Epilogue {
  struct Operands {
    static constexpr Operand o_bq = Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .weight = true, .before_wait = true, .stride = dims(1)};
    Loaded<o_bq, 2> v_bq;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_bq = load_operand<Operands::o_bq, 2, false>(p, at);  // %bq = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<2>& sum0) {
    const Vec<2>& v_t5 = sum0;  // %t5 = contract(%x, %wq)
    const Vec<2> v_q = map<2, op_add>(v_t5, in.v_bq.values());  // %q = add(%t5, %bq)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(1)}, 2, false>(p, at, v_q);  // %q
  }
};
struct Part {
  static constexpr u32 kCtas = 342;
  static CATENARY_DEVICE void run(const P& p, const CtaRange& ctas) { skinny<kConfig, Epilogue>(p, ctas); }
};
}  // namespace part0
namespace part1 {
__device__ constexpr SkinnyConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = 1, .n = 1024, .k = 4096},
    .x = {.slot = 0, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 5, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .tile = {.warps_k = 16, .warps_n = 1, .columns = 8},
    .loads = {.shared_blocks = 3, .register_blocks = 1, .copy_groups = 2, .x_chunks = 2, .x_columns = 8},
    .schedule = {.split_k = 1, .n_slices = 86}, .vec = 2,
};
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<2>& sum0) {
    const Vec<2>& v_k = sum0;  // %k = contract(%x, %wk)
    store_vec<Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .stride = dims(1)}, 2, false>(p, at, v_k);  // %k
  }
};
struct Part {
  static constexpr u32 kCtas = 86;
  static CATENARY_DEVICE void run(const P& p, const CtaRange& ctas) { skinny<kConfig, Epilogue>(p, ctas); }
};
}  // namespace part1
namespace part2 {
__device__ constexpr SkinnyConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = 1, .n = 1024, .k = 4096},
    .x = {.slot = 0, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 7, .stride_row = 4096, .stride_k = 1, .copy_bytes = 16},
    .tile = {.warps_k = 16, .warps_n = 1, .columns = 8},
    .loads = {.shared_blocks = 3, .register_blocks = 1, .copy_groups = 2, .x_chunks = 2, .x_columns = 8},
    .schedule = {.split_k = 1, .n_slices = 86}, .vec = 2,
};
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<2>& sum0) {
    const Vec<2>& v_v = sum0;  // %v = contract(%x, %wv)
    store_vec<Operand{.slot = 6, .dtype = DType::kBF16, .vec = 8, .stride = dims(1)}, 2, false>(p, at, v_v);  // %v
  }
};
struct Part {
  static constexpr u32 kCtas = 86;
  static CATENARY_DEVICE void run(const P& p, const CtaRange& ctas) { skinny<kConfig, Epilogue>(p, ctas); }
};
}  // namespace part2
}  // namespace
extern "C" __global__ void __launch_bounds__(512, 2)
ctn_three_weights_k0_skinny_w16x1_x3(const __grid_constant__ P p) { run_beside<part0::Part, part1::Part, part2::Part>(p); }

