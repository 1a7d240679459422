// catenary | target sm_90a (h200) | kernel ctn_softmax_k0_gemm_m64n32k64
// chain:
//   chain softmax(
//       input x: bf16[64, 512],
//       weight w: bf16[1024, 512]) {
//     y = contract "mk,nk->mn"(x, w)
//     top = reduce_max "mn->m"(y)
//     t4 = sub(y @ "mn", top @ "m")
//     e = exp(t4)
//     total = sum "mn->m"(e)
//     t7 = recip(total)
//     p = mul(e @ "mn", t7 @ "m")
//     return p: bf16
//   }
// plan: gemm_sm90: tile 64x32x64, 1 cooperative warpgroup, 8 stages, cluster split-K 4, 2 CTAs per SM, 103 KiB shared
//   'y' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: workspace 'y'
//   map 0: 'x' as 512 x 64 bf16 in boxes of 64 x 64
//   map 1: 'w' as 512 x 1024 bf16 in boxes of 64 x 32
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_softmax_k0_gemm_m64n32k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 64, .n = 1024, .k = 512},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true},
    .tile = {.block_m = 64, .block_n = 32, .stages = 8},
    .schedule = {.consumers = 1, .cluster_k = 4, .ctas_per_sm = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.vec = 4},
};
using P = Params<3, 0, 2>;
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<4>& sum0) {
    const Vec<4>& v_y = sum0;  // %y = contract(%x, %w)
    store_vec<Operand{.slot = 2, .dtype = DType::kF32, .vec = 4, .stride = dims(1024, 1)}, 4, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 2)
ctn_softmax_k0_gemm_m64n32k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_softmax_k1_reduce_l1s256
// chain:
//   chain softmax(
//       input x: bf16[64, 512],
//       weight w: bf16[1024, 512]) {
//     y = contract "mk,nk->mn"(x, w)
//     top = reduce_max "mn->m"(y)
//     t4 = sub(y @ "mn", top @ "m")
//     e = exp(t4)
//     total = sum "mn->m"(e)
//     t7 = recip(total)
//     p = mul(e @ "mn", t7 @ "m")
//     return p: bf16
//   }
// plan: reduce: reduce, 1 lane x 256 slices, 4 terms per lane
//   'top' is a maximum: it reads its operands from memory
//   slot 0: workspace 'y'
//   slot 1: workspace 'top'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_softmax_k1_reduce_l1s256.cu
#include "kernels/reduce.cuh"
namespace {
using namespace catenary;
__device__ constexpr ReduceConfig kConfig{
    .size = extents(64, 1024), .term_rank = 1,
    .sums = 1, .vec = 4, .lanes = 1, .slices = 256, .along_terms = true, .op = ReduceOp::kMax,
};
using P = Params<2, 0>;
struct Prologue {
  struct Operands {
    static constexpr Operand o_y = Operand{.slot = 0, .dtype = DType::kF32, .vec = 4, .stride = dims(1024, 1)};
    Loaded<o_y, 4> v_y;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_y = load_operand<Operands::o_y, 4, false>(p, at);  // %y = contract(%x, %w)
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, Vec<4>* out) {
    out[0] = in.v_y.values();
  }
};
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<1>& sum0) {
    const Vec<1>& v_top = sum0;  // %top = reduce_max(%y)
    store_vec<Operand{.slot = 1, .dtype = DType::kF32, .stride = dims(1, 0)}, 1, false>(p, at, v_top);  // %top
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 1)
ctn_softmax_k1_reduce_l1s256(const __grid_constant__ P p) { reduce<kConfig, Prologue, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_softmax_k2_reduce_l1s256
// chain:
//   chain softmax(
//       input x: bf16[64, 512],
//       weight w: bf16[1024, 512]) {
//     y = contract "mk,nk->mn"(x, w)
//     top = reduce_max "mn->m"(y)
//     t4 = sub(y @ "mn", top @ "m")
//     e = exp(t4)
//     total = sum "mn->m"(e)
//     t7 = recip(total)
//     p = mul(e @ "mn", t7 @ "m")
//     return p: bf16
//   }
// plan: reduce: reduce, 1 lane x 256 slices, 4 terms per lane
//   'total' is a sum: it reads its operands from memory; it computes 'e' again: storing that would move more bytes
//   slot 0: workspace 'y'
//   slot 1: workspace 'top'
//   slot 2: workspace 't7'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_softmax_k2_reduce_l1s256.cu
#include "kernels/reduce.cuh"
namespace {
using namespace catenary;
__device__ constexpr ReduceConfig kConfig{
    .size = extents(64, 1024), .term_rank = 1,
    .sums = 1, .vec = 4, .lanes = 1, .slices = 256, .along_terms = true,
};
using P = Params<3, 0>;
struct Prologue {
  struct Operands {
    static constexpr Operand o_y = Operand{.slot = 0, .dtype = DType::kF32, .vec = 4, .stride = dims(1024, 1)};
    Loaded<o_y, 4> v_y;
    static constexpr Operand o_top = Operand{.slot = 1, .dtype = DType::kF32, .stride = dims(1, 0)};
    Loaded<o_top, 4> v_top;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_y = load_operand<Operands::o_y, 4, false>(p, at);  // %y = contract(%x, %w)
    in.v_top = load_operand<Operands::o_top, 4, false>(p, at);  // %top = reduce_max(%y)
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, Vec<4>* out) {
    const Vec<4> v_t4 = map<4, op_sub>(in.v_y.values(), in.v_top.values());  // %t4 = sub(%y, %top)
    const Vec<4> v_e = map<4, op_exp>(v_t4);  // %e = exp(%t4)
    out[0] = v_e;
  }
};
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<1>& sum0) {
    const Vec<1>& v_total = sum0;  // %total = sum(%e)
    const Vec<1> v_t7 = map<1, op_recip>(v_total);  // %t7 = recip(%total)
    store_vec<Operand{.slot = 2, .dtype = DType::kF32, .stride = dims(1, 0)}, 1, false>(p, at, v_t7);  // %t7
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 1)
ctn_softmax_k2_reduce_l1s256(const __grid_constant__ P p) { reduce<kConfig, Prologue, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_softmax_k3_pointwise_v8u1
// chain:
//   chain softmax(
//       input x: bf16[64, 512],
//       weight w: bf16[1024, 512]) {
//     y = contract "mk,nk->mn"(x, w)
//     top = reduce_max "mn->m"(y)
//     t4 = sub(y @ "mn", top @ "m")
//     e = exp(t4)
//     total = sum "mn->m"(e)
//     t7 = recip(total)
//     p = mul(e @ "mn", t7 @ "m")
//     return p: bf16
//   }
// plan: pointwise: pointwise, 8 elements x 1 vector per thread, 64 threads
//   'p' is [64, 1024], the kernel before it computes [64]; it computes 'e' again: storing that would move more bytes
//   slot 0: workspace 'y'
//   slot 1: workspace 'top'
//   slot 2: workspace 't7'
//   slot 3: output 'p'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_softmax_k3_pointwise_v8u1.cu
#include "kernels/pointwise.cuh"
namespace {
using namespace catenary;
__device__ constexpr PointwiseConfig kConfig{
    .size = extents(64, 1024),
    .vec = 8, .unroll = 1, .threads = 64,
};
using P = Params<4, 0>;
struct Program {
  struct Operands {
    static constexpr Operand o_y = Operand{.slot = 0, .dtype = DType::kF32, .vec = 4, .streamed = true, .stride = dims(1024, 1)};
    Loaded<o_y, 8> v_y;
    static constexpr Operand o_top = Operand{.slot = 1, .dtype = DType::kF32, .stride = dims(1, 0)};
    Loaded<o_top, 8> v_top;
    static constexpr Operand o_t7 = Operand{.slot = 2, .dtype = DType::kF32, .stride = dims(1, 0)};
    Loaded<o_t7, 8> v_t7;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_y = load_operand<Operands::o_y, 8, false>(p, at);  // %y = contract(%x, %w)
    in.v_top = load_operand<Operands::o_top, 8, false>(p, at);  // %top = reduce_max(%y)
    in.v_t7 = load_operand<Operands::o_t7, 8, false>(p, at);  // %t7 = recip(%total)
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in) {
    const Vec<8> v_t4 = map<8, op_sub>(in.v_y.values(), in.v_top.values());  // %t4 = sub(%y, %top)
    const Vec<8> v_e = map<8, op_exp>(v_t4);  // %e = exp(%t4)
    const Vec<8> v_p = map<8, op_mul>(v_e, in.v_t7.values());  // %p = mul(%e, %t7)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(1024, 1)}, 8, false>(p, at, v_p);  // %p
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(64, 1)
ctn_softmax_k3_pointwise_v8u1(const __grid_constant__ P p) { pointwise<kConfig, Program>(p); }

