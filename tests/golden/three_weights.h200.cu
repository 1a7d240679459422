// catenary | target sm_90a (h200) | kernel ctn_three_weights_k0_gemm_m64n96k64_x3
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
// plan: gemm_sm90: tile 64x96x64, 1 cooperative warpgroups, 17 stages, cluster split-K 2, 1 CTA per SM, 222 KiB shared, 3 contractions side by side
//   't5' is a contraction: it reads its operands from memory; 'k' shares an operand and the launch with it; 'v' shares an operand and the launch with it
//   slot 0: parameter 'x'
//   slot 1: parameter 'wq'
//   slot 2: parameter 'bq'
//   slot 3: output 'q'
//   slot 4: output 'k'
//   slot 5: parameter 'wk'
//   slot 6: output 'v'
//   slot 7: parameter 'wv'
//   map 0: 'x' as 4096 x 1 bf16 in boxes of 64 x 8
//   map 1: 'wq' as 4096 x 4096 bf16 in boxes of 64 x 96
//   map 2: 'wk' as 4096 x 1024 bf16 in boxes of 64 x 96
//   map 3: 'wv' as 4096 x 1024 bf16 in boxes of 64 x 96
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_three_weights_k0_gemm_m64n96k64_x3.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
using P = Params<8, 0, 4>;
namespace part0 {
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 1, .n = 4096, .k = 4096},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true},
    .tile = {.block_m = 64, .block_n = 96, .stages = 17, .a_rows = 8},
    .schedule = {.consumers = 1, .cluster_k = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.vec = 4},
};
struct Epilogue {
  struct Operands {
    static constexpr Operand o_bq = Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .weight = true, .before_wait = true, .stride = dims(1)};
    Loaded<o_bq, 4> v_bq;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_bq = load_operand<Operands::o_bq, 4, false>(p, at);  // %bq = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<4>& sum0) {
    const Vec<4>& v_t5 = sum0;  // %t5 = contract(%x, %wq)
    const Vec<4> v_q = map<4, op_add>(v_t5, in.v_bq.values());  // %q = add(%t5, %bq)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(1)}, 4, false>(p, at, v_q);  // %q
  }
};
struct Part {
  static constexpr u32 kCtas = 86;
  static CATENARY_DEVICE void run(const P& p, const CtaRange& ctas) { gemm_sm90<kConfig, Epilogue>(p, ctas); }
};
}  // namespace part0
namespace part1 {
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 1, .n = 1024, .k = 4096},
    .a = {.map = 0},
    .b = {.map = 2, .weight = true},
    .tile = {.block_m = 64, .block_n = 96, .stages = 17, .a_rows = 8},
    .schedule = {.consumers = 1, .cluster_k = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.vec = 4},
};
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<4>& sum0) {
    const Vec<4>& v_k = sum0;  // %k = contract(%x, %wk)
    store_vec<Operand{.slot = 4, .dtype = DType::kBF16, .vec = 8, .stride = dims(1)}, 4, false>(p, at, v_k);  // %k
  }
};
struct Part {
  static constexpr u32 kCtas = 22;
  static CATENARY_DEVICE void run(const P& p, const CtaRange& ctas) { gemm_sm90<kConfig, Epilogue>(p, ctas); }
};
}  // namespace part1
namespace part2 {
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 1, .n = 1024, .k = 4096},
    .a = {.map = 0},
    .b = {.map = 3, .weight = true},
    .tile = {.block_m = 64, .block_n = 96, .stages = 17, .a_rows = 8},
    .schedule = {.consumers = 1, .cluster_k = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.vec = 4},
};
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<4>& sum0) {
    const Vec<4>& v_v = sum0;  // %v = contract(%x, %wv)
    store_vec<Operand{.slot = 6, .dtype = DType::kBF16, .vec = 8, .stride = dims(1)}, 4, false>(p, at, v_v);  // %v
  }
};
struct Part {
  static constexpr u32 kCtas = 22;
  static CATENARY_DEVICE void run(const P& p, const CtaRange& ctas) { gemm_sm90<kConfig, Epilogue>(p, ctas); }
};
}  // namespace part2
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 1)
ctn_three_weights_k0_gemm_m64n96k64_x3(const __grid_constant__ P p) { run_beside<part0::Part, part1::Part, part2::Part>(p); }

