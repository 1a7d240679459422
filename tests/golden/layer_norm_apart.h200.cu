// catenary | target sm_90a (h200) | kernel ctn_layer_norm_apart_k0_reduce_l32s16
// chain:
//   chain layer_norm_apart(
//       input x: bf16[65, 768],
//       weight g: f32[768],
//       weight w: bf16[768, 768],
//       weight v: bf16[768, 768]) {
//     t4 = sum "mk->m"(x)
//     t5 = constant(0.0013020833333333333)
//     mean = mul(t4, t5)
//     d = sub(x @ "mk", mean @ "m")
//     t8 = square(d)
//     t9 = sum "mk->m"(t8)
//     t10 = constant(0.0013020833333333333)
//     t11 = mul(t9, t10)
//     t12 = constant(1e-05)
//     t13 = add(t11, t12)
//     scale = rsqrt(t13)
//     t15 = mul(d, scale @ "m")
//     t16 = mul(t15, g @ "k")
//     n = cast(t16, bf16)
//     t18 = contract "mk,nk->mn"(n, w)
//     t19 = add(t18, n)
//     y = cast(t19, bf16)
//     t21 = square(y)
//     t22 = sum "mk->m"(t21)
//     t23 = constant(0.0013020833333333333)
//     t24 = mul(t22, t23)
//     t25 = constant(1e-05)
//     t26 = add(t24, t25)
//     again = rsqrt(t26)
//     t28 = mul(y @ "mk", again @ "m")
//     r = cast(t28, bf16)
//     z = contract "mk,nk->mn"(r, v)
//     return z: bf16
//   }
// plan: reduce: reduce, 32 lanes x 16 slices, 1 elements per lane
//   't4' is a sum: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: workspace 'mean'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_layer_norm_apart_k0_reduce_l32s16.cu
#include "kernels/reduce.cuh"
namespace {
using namespace catenary;
__device__ constexpr ReduceConfig kConfig{
    .size = extents(768, 1, 1, 1, 1, 1, 1, 65), .term_rank = 1,
    .sums = 1, .vec = 1, .lanes = 32, .slices = 16,
};
using P = Params<2, 0>;
struct Prologue {
  struct Operands {
    static constexpr Operand o_x = Operand{.slot = 0, .dtype = DType::kBF16, .streamed = true, .stride = dims(1, 0, 0, 0, 0, 0, 0, 768)};
    Loaded<o_x, 1> v_x;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_x = load_operand<Operands::o_x, 1, false>(p, at);  // %x = input
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, Vec<1>* out) {
    out[0] = in.v_x.values();
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
    const Vec<1>& v_t4 = sum0;  // %t4 = sum(%x)
    const float v_t5 = 0x1.555556p-10f;  // %t5 = constant
    const Vec<1> v_mean = map<1, op_mul>(v_t4, v_t5);  // %mean = mul(%t4, %t5)
    store_vec<Operand{.slot = 1, .dtype = DType::kF32, .vec = 4, .stride = dims(1)}, 1, false>(p, at, v_mean);  // %mean
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(512, 1)
ctn_layer_norm_apart_k0_reduce_l32s16(const __grid_constant__ P p) { reduce<kConfig, Prologue, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_layer_norm_apart_k1_pointwise_v8u1
// chain:
//   chain layer_norm_apart(
//       input x: bf16[65, 768],
//       weight g: f32[768],
//       weight w: bf16[768, 768],
//       weight v: bf16[768, 768]) {
//     t4 = sum "mk->m"(x)
//     t5 = constant(0.0013020833333333333)
//     mean = mul(t4, t5)
//     d = sub(x @ "mk", mean @ "m")
//     t8 = square(d)
//     t9 = sum "mk->m"(t8)
//     t10 = constant(0.0013020833333333333)
//     t11 = mul(t9, t10)
//     t12 = constant(1e-05)
//     t13 = add(t11, t12)
//     scale = rsqrt(t13)
//     t15 = mul(d, scale @ "m")
//     t16 = mul(t15, g @ "k")
//     n = cast(t16, bf16)
//     t18 = contract "mk,nk->mn"(n, w)
//     t19 = add(t18, n)
//     y = cast(t19, bf16)
//     t21 = square(y)
//     t22 = sum "mk->m"(t21)
//     t23 = constant(0.0013020833333333333)
//     t24 = mul(t22, t23)
//     t25 = constant(1e-05)
//     t26 = add(t24, t25)
//     again = rsqrt(t26)
//     t28 = mul(y @ "mk", again @ "m")
//     r = cast(t28, bf16)
//     z = contract "mk,nk->mn"(r, v)
//     return z: bf16
//   }
// plan: pointwise: pointwise, 8 elements x 1 vectors per thread, 64 threads
//   'd' is [65, 768], the kernel before it computes [65]
//   slot 0: parameter 'x'
//   slot 1: workspace 'mean'
//   slot 2: workspace 'd'
//   slot 3: workspace 't8'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_layer_norm_apart_k1_pointwise_v8u1.cu
#include "kernels/pointwise.cuh"
namespace {
using namespace catenary;
__device__ constexpr PointwiseConfig kConfig{
    .size = extents(65, 768),
    .vec = 8, .unroll = 1, .threads = 64,
};
using P = Params<4, 0>;
struct Program {
  struct Operands {
    static constexpr Operand o_x = Operand{.slot = 0, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(768, 1)};
    Loaded<o_x, 8> v_x;
    static constexpr Operand o_mean = Operand{.slot = 1, .dtype = DType::kF32, .stride = dims(1, 0)};
    Loaded<o_mean, 8> v_mean;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_x = load_operand<Operands::o_x, 8, false>(p, at);  // %x = input
    in.v_mean = load_operand<Operands::o_mean, 8, false>(p, at);  // %mean = mul(%t4, %t5)
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in) {
    const Vec<8> v_d = map<8, op_sub>(in.v_x.values(), in.v_mean.values());  // %d = sub(%x, %mean)
    store_vec<Operand{.slot = 2, .dtype = DType::kF32, .vec = 4, .stride = dims(768, 1)}, 8, false>(p, at, v_d);  // %d
    const Vec<8> v_t8 = map<8, op_square>(v_d);  // %t8 = square(%d)
    store_vec<Operand{.slot = 3, .dtype = DType::kF32, .vec = 4, .stride = dims(768, 1)}, 8, false>(p, at, v_t8);  // %t8
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(64, 1)
ctn_layer_norm_apart_k1_pointwise_v8u1(const __grid_constant__ P p) { pointwise<kConfig, Program>(p); }

// catenary | target sm_90a (h200) | kernel ctn_layer_norm_apart_k2_reduce_l32s8
// chain:
//   chain layer_norm_apart(
//       input x: bf16[65, 768],
//       weight g: f32[768],
//       weight w: bf16[768, 768],
//       weight v: bf16[768, 768]) {
//     t4 = sum "mk->m"(x)
//     t5 = constant(0.0013020833333333333)
//     mean = mul(t4, t5)
//     d = sub(x @ "mk", mean @ "m")
//     t8 = square(d)
//     t9 = sum "mk->m"(t8)
//     t10 = constant(0.0013020833333333333)
//     t11 = mul(t9, t10)
//     t12 = constant(1e-05)
//     t13 = add(t11, t12)
//     scale = rsqrt(t13)
//     t15 = mul(d, scale @ "m")
//     t16 = mul(t15, g @ "k")
//     n = cast(t16, bf16)
//     t18 = contract "mk,nk->mn"(n, w)
//     t19 = add(t18, n)
//     y = cast(t19, bf16)
//     t21 = square(y)
//     t22 = sum "mk->m"(t21)
//     t23 = constant(0.0013020833333333333)
//     t24 = mul(t22, t23)
//     t25 = constant(1e-05)
//     t26 = add(t24, t25)
//     again = rsqrt(t26)
//     t28 = mul(y @ "mk", again @ "m")
//     r = cast(t28, bf16)
//     z = contract "mk,nk->mn"(r, v)
//     return z: bf16
//   }
// plan: reduce: reduce, 32 lanes x 8 slices, 1 elements per lane, 32 parts of the terms
//   't9' is a sum: it reads its operands from memory
//   slot 0: workspace 't8'
//   slot 1: workspace 'parts of the terms'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_layer_norm_apart_k2_reduce_l32s8.cu
#include "kernels/reduce.cuh"
namespace {
using namespace catenary;
__device__ constexpr ReduceConfig kConfig{
    .size = extents(768, 1, 1, 1, 1, 1, 32, 65), .term_rank = 1,
    .sums = 1, .vec = 1, .lanes = 32, .slices = 8, .parts = 32, .part_dim = 6,
};
using P = Params<2, 0>;
struct Prologue {
  struct Operands {
    static constexpr Operand o_t8 = Operand{.slot = 0, .dtype = DType::kF32, .streamed = true, .stride = dims(1, 0, 0, 0, 0, 0, 0, 768)};
    Loaded<o_t8, 1> v_t8;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_t8 = load_operand<Operands::o_t8, 1, false>(p, at);  // %t8 = square(%d)
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, Vec<1>* out) {
    out[0] = in.v_t8.values();
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
    const Vec<1>& v_all = sum0;  // terms of this part
    store_vec<Operand{.slot = 1, .dtype = DType::kF32, .stride = dims(65, 1)}, 1, false>(p, at, v_all);  // %part
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 1)
ctn_layer_norm_apart_k2_reduce_l32s8(const __grid_constant__ P p) { reduce<kConfig, Prologue, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_layer_norm_apart_k2_reduce_l32s8p32
// chain:
//   chain layer_norm_apart(
//       input x: bf16[65, 768],
//       weight g: f32[768],
//       weight w: bf16[768, 768],
//       weight v: bf16[768, 768]) {
//     t4 = sum "mk->m"(x)
//     t5 = constant(0.0013020833333333333)
//     mean = mul(t4, t5)
//     d = sub(x @ "mk", mean @ "m")
//     t8 = square(d)
//     t9 = sum "mk->m"(t8)
//     t10 = constant(0.0013020833333333333)
//     t11 = mul(t9, t10)
//     t12 = constant(1e-05)
//     t13 = add(t11, t12)
//     scale = rsqrt(t13)
//     t15 = mul(d, scale @ "m")
//     t16 = mul(t15, g @ "k")
//     n = cast(t16, bf16)
//     t18 = contract "mk,nk->mn"(n, w)
//     t19 = add(t18, n)
//     y = cast(t19, bf16)
//     t21 = square(y)
//     t22 = sum "mk->m"(t21)
//     t23 = constant(0.0013020833333333333)
//     t24 = mul(t22, t23)
//     t25 = constant(1e-05)
//     t26 = add(t24, t25)
//     again = rsqrt(t26)
//     t28 = mul(y @ "mk", again @ "m")
//     r = cast(t28, bf16)
//     z = contract "mk,nk->mn"(r, v)
//     return z: bf16
//   }
// plan: reduce: reduce, 32 lanes x 8 slices, 1 elements per lane, of 32 parts
//   combines the parts of the terms
//   slot 0: workspace 'scale'
//   slot 1: workspace 'parts of the terms'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_layer_norm_apart_k2_reduce_l32s8p32.cu
#include "kernels/reduce.cuh"
namespace {
using namespace catenary;
__device__ constexpr ReduceConfig kConfig{
    .size = extents(32, 1, 1, 1, 1, 1, 1, 65), .term_rank = 1,
    .sums = 1, .vec = 1, .lanes = 32, .slices = 8,
};
using P = Params<2, 0>;
struct Prologue {
  struct Operands {
    static constexpr Operand o_part = Operand{.slot = 1, .dtype = DType::kF32, .stride = dims(65, 0, 0, 0, 0, 0, 0, 1)};
    Loaded<o_part, 1> v_part;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_part = load_operand<Operands::o_part, 1, false>(p, at);  // of one part's terms
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, Vec<1>* out) {
    out[0] = in.v_part.values();
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
    const Vec<1>& v_t9 = sum0;  // %t9 = sum(%t8)
    const float v_t10 = 0x1.555556p-10f;  // %t10 = constant
    const Vec<1> v_t11 = map<1, op_mul>(v_t9, v_t10);  // %t11 = mul(%t9, %t10)
    const float v_t12 = 0x1.4f8b58p-17f;  // %t12 = constant
    const Vec<1> v_t13 = map<1, op_add>(v_t11, v_t12);  // %t13 = add(%t11, %t12)
    const Vec<1> v_scale = map<1, op_rsqrt>(v_t13);  // %scale = rsqrt(%t13)
    store_vec<Operand{.slot = 0, .dtype = DType::kF32, .vec = 4, .stride = dims(1)}, 1, false>(p, at, v_scale);  // %scale
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 1)
ctn_layer_norm_apart_k2_reduce_l32s8p32(const __grid_constant__ P p) { reduce<kConfig, Prologue, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_layer_norm_apart_k4_pointwise_v8u1
// chain:
//   chain layer_norm_apart(
//       input x: bf16[65, 768],
//       weight g: f32[768],
//       weight w: bf16[768, 768],
//       weight v: bf16[768, 768]) {
//     t4 = sum "mk->m"(x)
//     t5 = constant(0.0013020833333333333)
//     mean = mul(t4, t5)
//     d = sub(x @ "mk", mean @ "m")
//     t8 = square(d)
//     t9 = sum "mk->m"(t8)
//     t10 = constant(0.0013020833333333333)
//     t11 = mul(t9, t10)
//     t12 = constant(1e-05)
//     t13 = add(t11, t12)
//     scale = rsqrt(t13)
//     t15 = mul(d, scale @ "m")
//     t16 = mul(t15, g @ "k")
//     n = cast(t16, bf16)
//     t18 = contract "mk,nk->mn"(n, w)
//     t19 = add(t18, n)
//     y = cast(t19, bf16)
//     t21 = square(y)
//     t22 = sum "mk->m"(t21)
//     t23 = constant(0.0013020833333333333)
//     t24 = mul(t22, t23)
//     t25 = constant(1e-05)
//     t26 = add(t24, t25)
//     again = rsqrt(t26)
//     t28 = mul(y @ "mk", again @ "m")
//     r = cast(t28, bf16)
//     z = contract "mk,nk->mn"(r, v)
//     return z: bf16
//   }
// plan: pointwise: pointwise, 8 elements x 1 vectors per thread, 64 threads
//   't15' is [65, 768], the kernel before it computes [65]
//   slot 0: workspace 'd'
//   slot 1: workspace 'scale'
//   slot 2: parameter 'g'
//   slot 3: workspace 'n'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_layer_norm_apart_k4_pointwise_v8u1.cu
#include "kernels/pointwise.cuh"
namespace {
using namespace catenary;
__device__ constexpr PointwiseConfig kConfig{
    .size = extents(65, 768),
    .vec = 8, .unroll = 1, .threads = 64,
};
using P = Params<4, 0>;
struct Program {
  struct Operands {
    static constexpr Operand o_d = Operand{.slot = 0, .dtype = DType::kF32, .vec = 4, .streamed = true, .stride = dims(768, 1)};
    Loaded<o_d, 8> v_d;
    static constexpr Operand o_scale = Operand{.slot = 1, .dtype = DType::kF32, .stride = dims(1, 0)};
    Loaded<o_scale, 8> v_scale;
    static constexpr Operand o_g = Operand{.slot = 2, .dtype = DType::kF32, .vec = 4, .weight = true, .stride = dims(1)};
    Loaded<o_g, 8> v_g;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_g = load_operand<Operands::o_g, 8, false>(p, at);  // %g = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_d = load_operand<Operands::o_d, 8, false>(p, at);  // %d = sub(%x, %mean)
    in.v_scale = load_operand<Operands::o_scale, 8, false>(p, at);  // %scale = rsqrt(%t13)
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in) {
    const Vec<8> v_t15 = map<8, op_mul>(in.v_d.values(), in.v_scale.values());  // %t15 = mul(%d, %scale)
    const Vec<8> v_t16 = map<8, op_mul>(v_t15, in.v_g.values());  // %t16 = mul(%t15, %g)
    const Vec<8> v_n = round_to<DType::kBF16, 8>(v_t16);  // %n = cast(%t16)
    store_vec<Operand{.slot = 3, .dtype = DType::kBF16, .vec = 8, .stride = dims(768, 1)}, 8, false>(p, at, v_n);  // %n
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(64, 1)
ctn_layer_norm_apart_k4_pointwise_v8u1(const __grid_constant__ P p) { pointwise<kConfig, Program>(p); }

// catenary | target sm_90a (h200) | kernel ctn_layer_norm_apart_k5_gemm_m64n32k64
// chain:
//   chain layer_norm_apart(
//       input x: bf16[65, 768],
//       weight g: f32[768],
//       weight w: bf16[768, 768],
//       weight v: bf16[768, 768]) {
//     t4 = sum "mk->m"(x)
//     t5 = constant(0.0013020833333333333)
//     mean = mul(t4, t5)
//     d = sub(x @ "mk", mean @ "m")
//     t8 = square(d)
//     t9 = sum "mk->m"(t8)
//     t10 = constant(0.0013020833333333333)
//     t11 = mul(t9, t10)
//     t12 = constant(1e-05)
//     t13 = add(t11, t12)
//     scale = rsqrt(t13)
//     t15 = mul(d, scale @ "m")
//     t16 = mul(t15, g @ "k")
//     n = cast(t16, bf16)
//     t18 = contract "mk,nk->mn"(n, w)
//     t19 = add(t18, n)
//     y = cast(t19, bf16)
//     t21 = square(y)
//     t22 = sum "mk->m"(t21)
//     t23 = constant(0.0013020833333333333)
//     t24 = mul(t22, t23)
//     t25 = constant(1e-05)
//     t26 = add(t24, t25)
//     again = rsqrt(t26)
//     t28 = mul(y @ "mk", again @ "m")
//     r = cast(t28, bf16)
//     z = contract "mk,nk->mn"(r, v)
//     return z: bf16
//   }
// plan: gemm_sm90: tile 64x32x64, 1 cooperative warpgroups, 8 stages, cluster split-K 2, 2 CTAs per SM, 101 KiB shared
//   't18' is a contraction: it reads its operands from memory
//   slot 0: workspace 'n'
//   slot 1: parameter 'w'
//   slot 2: workspace 'y'
//   slot 3: workspace 't21'
//   map 0: 'n' as 768 x 65 bf16 in boxes of 64 x 64
//   map 1: 'w' as 768 x 768 bf16 in boxes of 64 x 32
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_layer_norm_apart_k5_gemm_m64n32k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 65, .n = 768, .k = 768},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true},
    .tile = {.block_m = 64, .block_n = 32, .stages = 8},
    .schedule = {.consumers = 1, .cluster_k = 2, .ctas_per_sm = 2, .split_k = 1, .tile_swizzle = 8},
    .epilogue = {.vec = 4},
};
using P = Params<4, 0, 2>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_n = Operand{.slot = 0, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(768, 1)};
    Loaded<o_n, 4> v_n;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_n = load_operand<Operands::o_n, 4, false>(p, at);  // %n = cast(%t16)
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<4>& sum0) {
    const Vec<4>& v_t18 = sum0;  // %t18 = contract(%n, %w)
    const Vec<4> v_t19 = map<4, op_add>(v_t18, in.v_n.values());  // %t19 = add(%t18, %n)
    const Vec<4> v_y = round_to<DType::kBF16, 4>(v_t19);  // %y = cast(%t19)
    store_vec<Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .stride = dims(768, 1)}, 4, false>(p, at, v_y);  // %y
    const Vec<4> v_t21 = map<4, op_square>(v_y);  // %t21 = square(%y)
    store_vec<Operand{.slot = 3, .dtype = DType::kF32, .vec = 4, .stride = dims(768, 1)}, 4, false>(p, at, v_t21);  // %t21
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 2)
ctn_layer_norm_apart_k5_gemm_m64n32k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_layer_norm_apart_k6_reduce_l32s8
// chain:
//   chain layer_norm_apart(
//       input x: bf16[65, 768],
//       weight g: f32[768],
//       weight w: bf16[768, 768],
//       weight v: bf16[768, 768]) {
//     t4 = sum "mk->m"(x)
//     t5 = constant(0.0013020833333333333)
//     mean = mul(t4, t5)
//     d = sub(x @ "mk", mean @ "m")
//     t8 = square(d)
//     t9 = sum "mk->m"(t8)
//     t10 = constant(0.0013020833333333333)
//     t11 = mul(t9, t10)
//     t12 = constant(1e-05)
//     t13 = add(t11, t12)
//     scale = rsqrt(t13)
//     t15 = mul(d, scale @ "m")
//     t16 = mul(t15, g @ "k")
//     n = cast(t16, bf16)
//     t18 = contract "mk,nk->mn"(n, w)
//     t19 = add(t18, n)
//     y = cast(t19, bf16)
//     t21 = square(y)
//     t22 = sum "mk->m"(t21)
//     t23 = constant(0.0013020833333333333)
//     t24 = mul(t22, t23)
//     t25 = constant(1e-05)
//     t26 = add(t24, t25)
//     again = rsqrt(t26)
//     t28 = mul(y @ "mk", again @ "m")
//     r = cast(t28, bf16)
//     z = contract "mk,nk->mn"(r, v)
//     return z: bf16
//   }
// plan: reduce: reduce, 32 lanes x 8 slices, 1 elements per lane, 32 parts of the terms
//   't22' is a sum: it reads its operands from memory
//   slot 0: workspace 't21'
//   slot 1: workspace 'parts of the terms'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_layer_norm_apart_k6_reduce_l32s8.cu
#include "kernels/reduce.cuh"
namespace {
using namespace catenary;
__device__ constexpr ReduceConfig kConfig{
    .size = extents(768, 1, 1, 1, 1, 1, 32, 65), .term_rank = 1,
    .sums = 1, .vec = 1, .lanes = 32, .slices = 8, .parts = 32, .part_dim = 6,
};
using P = Params<2, 0>;
struct Prologue {
  struct Operands {
    static constexpr Operand o_t21 = Operand{.slot = 0, .dtype = DType::kF32, .streamed = true, .stride = dims(1, 0, 0, 0, 0, 0, 0, 768)};
    Loaded<o_t21, 1> v_t21;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_t21 = load_operand<Operands::o_t21, 1, false>(p, at);  // %t21 = square(%y)
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, Vec<1>* out) {
    out[0] = in.v_t21.values();
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
    const Vec<1>& v_all = sum0;  // terms of this part
    store_vec<Operand{.slot = 1, .dtype = DType::kF32, .stride = dims(65, 1)}, 1, false>(p, at, v_all);  // %part
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 1)
ctn_layer_norm_apart_k6_reduce_l32s8(const __grid_constant__ P p) { reduce<kConfig, Prologue, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_layer_norm_apart_k6_reduce_l32s8p32
// chain:
//   chain layer_norm_apart(
//       input x: bf16[65, 768],
//       weight g: f32[768],
//       weight w: bf16[768, 768],
//       weight v: bf16[768, 768]) {
//     t4 = sum "mk->m"(x)
//     t5 = constant(0.0013020833333333333)
//     mean = mul(t4, t5)
//     d = sub(x @ "mk", mean @ "m")
//     t8 = square(d)
//     t9 = sum "mk->m"(t8)
//     t10 = constant(0.0013020833333333333)
//     t11 = mul(t9, t10)
//     t12 = constant(1e-05)
//     t13 = add(t11, t12)
//     scale = rsqrt(t13)
//     t15 = mul(d, scale @ "m")
//     t16 = mul(t15, g @ "k")
//     n = cast(t16, bf16)
//     t18 = contract "mk,nk->mn"(n, w)
//     t19 = add(t18, n)
//     y = cast(t19, bf16)
//     t21 = square(y)
//     t22 = sum "mk->m"(t21)
//     t23 = constant(0.0013020833333333333)
//     t24 = mul(t22, t23)
//     t25 = constant(1e-05)
//     t26 = add(t24, t25)
//     again = rsqrt(t26)
//     t28 = mul(y @ "mk", again @ "m")
//     r = cast(t28, bf16)
//     z = contract "mk,nk->mn"(r, v)
//     return z: bf16
//   }
// plan: reduce: reduce, 32 lanes x 8 slices, 1 elements per lane, of 32 parts
//   combines the parts of the terms
//   slot 0: workspace 'again'
//   slot 1: workspace 'parts of the terms'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_layer_norm_apart_k6_reduce_l32s8p32.cu
#include "kernels/reduce.cuh"
namespace {
using namespace catenary;
__device__ constexpr ReduceConfig kConfig{
    .size = extents(32, 1, 1, 1, 1, 1, 1, 65), .term_rank = 1,
    .sums = 1, .vec = 1, .lanes = 32, .slices = 8,
};
using P = Params<2, 0>;
struct Prologue {
  struct Operands {
    static constexpr Operand o_part = Operand{.slot = 1, .dtype = DType::kF32, .stride = dims(65, 0, 0, 0, 0, 0, 0, 1)};
    Loaded<o_part, 1> v_part;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_part = load_operand<Operands::o_part, 1, false>(p, at);  // of one part's terms
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, Vec<1>* out) {
    out[0] = in.v_part.values();
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
    const Vec<1>& v_t22 = sum0;  // %t22 = sum(%t21)
    const float v_t23 = 0x1.555556p-10f;  // %t23 = constant
    const Vec<1> v_t24 = map<1, op_mul>(v_t22, v_t23);  // %t24 = mul(%t22, %t23)
    const float v_t25 = 0x1.4f8b58p-17f;  // %t25 = constant
    const Vec<1> v_t26 = map<1, op_add>(v_t24, v_t25);  // %t26 = add(%t24, %t25)
    const Vec<1> v_again = map<1, op_rsqrt>(v_t26);  // %again = rsqrt(%t26)
    store_vec<Operand{.slot = 0, .dtype = DType::kF32, .vec = 4, .stride = dims(1)}, 1, false>(p, at, v_again);  // %again
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 1)
ctn_layer_norm_apart_k6_reduce_l32s8p32(const __grid_constant__ P p) { reduce<kConfig, Prologue, Epilogue>(p); }

// catenary | target sm_90a (h200) | kernel ctn_layer_norm_apart_k8_pointwise_v8u1
// chain:
//   chain layer_norm_apart(
//       input x: bf16[65, 768],
//       weight g: f32[768],
//       weight w: bf16[768, 768],
//       weight v: bf16[768, 768]) {
//     t4 = sum "mk->m"(x)
//     t5 = constant(0.0013020833333333333)
//     mean = mul(t4, t5)
//     d = sub(x @ "mk", mean @ "m")
//     t8 = square(d)
//     t9 = sum "mk->m"(t8)
//     t10 = constant(0.0013020833333333333)
//     t11 = mul(t9, t10)
//     t12 = constant(1e-05)
//     t13 = add(t11, t12)
//     scale = rsqrt(t13)
//     t15 = mul(d, scale @ "m")
//     t16 = mul(t15, g @ "k")
//     n = cast(t16, bf16)
//     t18 = contract "mk,nk->mn"(n, w)
//     t19 = add(t18, n)
//     y = cast(t19, bf16)
//     t21 = square(y)
//     t22 = sum "mk->m"(t21)
//     t23 = constant(0.0013020833333333333)
//     t24 = mul(t22, t23)
//     t25 = constant(1e-05)
//     t26 = add(t24, t25)
//     again = rsqrt(t26)
//     t28 = mul(y @ "mk", again @ "m")
//     r = cast(t28, bf16)
//     z = contract "mk,nk->mn"(r, v)
//     return z: bf16
//   }
// plan: pointwise: pointwise, 8 elements x 1 vectors per thread, 64 threads
//   't28' is [65, 768], the kernel before it computes [65]
//   slot 0: workspace 'y'
//   slot 1: workspace 'again'
//   slot 2: workspace 'r'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_layer_norm_apart_k8_pointwise_v8u1.cu
#include "kernels/pointwise.cuh"
namespace {
using namespace catenary;
__device__ constexpr PointwiseConfig kConfig{
    .size = extents(65, 768),
    .vec = 8, .unroll = 1, .threads = 64,
};
using P = Params<3, 0>;
struct Program {
  struct Operands {
    static constexpr Operand o_y = Operand{.slot = 0, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(768, 1)};
    Loaded<o_y, 8> v_y;
    static constexpr Operand o_again = Operand{.slot = 1, .dtype = DType::kF32, .stride = dims(1, 0)};
    Loaded<o_again, 8> v_again;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_y = load_operand<Operands::o_y, 8, false>(p, at);  // %y = cast(%t19)
    in.v_again = load_operand<Operands::o_again, 8, false>(p, at);  // %again = rsqrt(%t26)
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in) {
    const Vec<8> v_t28 = map<8, op_mul>(in.v_y.values(), in.v_again.values());  // %t28 = mul(%y, %again)
    const Vec<8> v_r = round_to<DType::kBF16, 8>(v_t28);  // %r = cast(%t28)
    store_vec<Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .stride = dims(768, 1)}, 8, false>(p, at, v_r);  // %r
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(64, 1)
ctn_layer_norm_apart_k8_pointwise_v8u1(const __grid_constant__ P p) { pointwise<kConfig, Program>(p); }

// catenary | target sm_90a (h200) | kernel ctn_layer_norm_apart_k9_gemm_m64n32k64
// chain:
//   chain layer_norm_apart(
//       input x: bf16[65, 768],
//       weight g: f32[768],
//       weight w: bf16[768, 768],
//       weight v: bf16[768, 768]) {
//     t4 = sum "mk->m"(x)
//     t5 = constant(0.0013020833333333333)
//     mean = mul(t4, t5)
//     d = sub(x @ "mk", mean @ "m")
//     t8 = square(d)
//     t9 = sum "mk->m"(t8)
//     t10 = constant(0.0013020833333333333)
//     t11 = mul(t9, t10)
//     t12 = constant(1e-05)
//     t13 = add(t11, t12)
//     scale = rsqrt(t13)
//     t15 = mul(d, scale @ "m")
//     t16 = mul(t15, g @ "k")
//     n = cast(t16, bf16)
//     t18 = contract "mk,nk->mn"(n, w)
//     t19 = add(t18, n)
//     y = cast(t19, bf16)
//     t21 = square(y)
//     t22 = sum "mk->m"(t21)
//     t23 = constant(0.0013020833333333333)
//     t24 = mul(t22, t23)
//     t25 = constant(1e-05)
//     t26 = add(t24, t25)
//     again = rsqrt(t26)
//     t28 = mul(y @ "mk", again @ "m")
//     r = cast(t28, bf16)
//     z = contract "mk,nk->mn"(r, v)
//     return z: bf16
//   }
// plan: gemm_sm90: tile 64x32x64, 1 cooperative warpgroups, 8 stages, cluster split-K 2, 2 CTAs per SM, 101 KiB shared
//   'z' is a contraction: it reads its operands from memory
//   slot 0: workspace 'r'
//   slot 1: parameter 'v'
//   slot 2: output 'z'
//   map 0: 'r' as 768 x 65 bf16 in boxes of 64 x 64
//   map 1: 'v' as 768 x 768 bf16 in boxes of 64 x 32
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_layer_norm_apart_k9_gemm_m64n32k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
__device__ constexpr GemmSm90Config kConfig{
    .space = {.math = MathMode::kBF16, .m = 65, .n = 768, .k = 768},
    .a = {.map = 0},
    .b = {.map = 1, .weight = true},
    .tile = {.block_m = 64, .block_n = 32, .stages = 8},
    .schedule = {.consumers = 1, .cluster_k = 2, .ctas_per_sm = 2, .split_k = 1, .tile_swizzle = 8},
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
    const Vec<4>& v_z = sum0;  // %z = contract(%r, %v)
    store_vec<Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .stride = dims(768, 1)}, 4, false>(p, at, v_z);  // %z
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 2)
ctn_layer_norm_apart_k9_gemm_m64n32k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }

