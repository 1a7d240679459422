// catenary | target sm_90a (h200) | kernel ctn_layer_norm_k0_skinny_w4x1
// chain:
//   chain layer_norm(
//       input x: bf16[8, 768],
//       weight g: f32[768],
//       weight b: f32[768],
//       weight w: bf16[2304, 768],
//       weight c: f32[2304]) {
//     t5 = sum "mk->m"(x)
//     t6 = constant(0.0013020833333333333)
//     mean = mul(t5, t6)
//     d = sub(x @ "mk", mean @ "m")
//     t9 = square(d)
//     t10 = sum "mk->m"(t9)
//     t11 = constant(0.0013020833333333333)
//     t12 = mul(t10, t11)
//     t13 = constant(1e-05)
//     t14 = add(t12, t13)
//     scale = rsqrt(t14)
//     t16 = mul(d, scale @ "m")
//     t17 = mul(t16, g @ "k")
//     t18 = add(t17, b @ "k")
//     n = cast(t18, bf16)
//     t20 = contract "mk,nk->mn"(n, w)
//     y = add(t20, c)
//     return y: bf16
//   }
// plan: skinny: 66 slices of N with at most 36 rows of W, 4 x 1 warps, 128 bytes of K per warp in shared memory and 128 in registers, 21 KiB shared, 3 CTAs per SM, cluster split-K 2
//   't20' is a contraction: it reads its operands from memory; it forms 'n' from 'x' as it loads it, after a pass over its rows for 't5', then one for 't10'
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'g'
//   slot 3: parameter 'b'
//   slot 4: parameter 'c'
//   slot 5: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_layer_norm_k0_skinny_w4x1.cu
#include "kernels/skinny.cuh"
namespace {
using namespace catenary;
__device__ constexpr SkinnyConfig kConfig{
    .space = {.math = MathMode::kBF16, .m = 8, .n = 2304, .k = 768},
    .x = {.slot = 0, .stride_row = 768, .stride_k = 1, .copy_bytes = 16},
    .w = {.slot = 1, .stride_row = 768, .stride_k = 1, .copy_bytes = 16},
    .formed = {.used = true, .data = DType::kBF16, .sums = 2, .rows = 2},
    .tile = {.warps_k = 4, .warps_n = 1, .row_tiles = 3, .columns = 8},
    .loads = {.shared_blocks = 1, .register_blocks = 1, .copy_groups = 1, .x_chunks = 1, .x_columns = 8},
    .schedule = {.split_k = 1, .cluster_k = 2, .n_slices = 66}, .vec = 2,
};
using P = Params<6, 0>;
struct Epilogue {
  struct Operands {
    static constexpr Operand o_c = Operand{.slot = 4, .dtype = DType::kF32, .vec = 4, .weight = true, .before_wait = true, .stride = dims(1)};
    Loaded<o_c, 2> v_c;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_c = load_operand<Operands::o_c, 2, false>(p, at);  // %c = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<2>& sum0) {
    const Vec<2>& v_t20 = sum0;  // %t20 = contract(%n, %w)
    const Vec<2> v_y = map<2, op_add>(v_t20, in.v_c.values());  // %y = add(%t20, %c)
    store_vec<Operand{.slot = 5, .dtype = DType::kBF16, .vec = 8, .stride = dims(2304, 1)}, 2, false>(p, at, v_y);  // %y
  }
};
struct Terms0 {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, const Vec<8>* given, Vec<8>* out) {
    const Vec<8>& v_x = given[0];  // %x = input
    out[0] = v_x;
  }
};
struct Rows0 {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, const Vec<1>* given, Vec<1>* out) {
    const Vec<1>& v_t5 = given[0];  // %t5 = sum(%x)
    const float v_t6 = 0x1.555556p-10f;  // %t6 = constant
    const Vec<1> v_mean = map<1, op_mul>(v_t5, v_t6);  // %mean = mul(%t5, %t6)
    out[0] = v_mean;
  }
};
struct Terms1 {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, const Vec<8>* given, Vec<8>* out) {
    const Vec<8>& v_x = given[0];  // %x = input
    const Vec<8>& v_mean = given[1];  // %mean = mul(%t5, %t6)
    const Vec<8> v_d = map<8, op_sub>(v_x, v_mean);  // %d = sub(%x, %mean)
    const Vec<8> v_t9 = map<8, op_square>(v_d);  // %t9 = square(%d)
    out[0] = v_t9;
  }
};
struct Rows1 {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, const Vec<1>* given, Vec<1>* out) {
    const Vec<1>& v_t10 = given[1];  // %t10 = sum(%t9)
    const float v_t11 = 0x1.555556p-10f;  // %t11 = constant
    const Vec<1> v_t12 = map<1, op_mul>(v_t10, v_t11);  // %t12 = mul(%t10, %t11)
    const float v_t13 = 0x1.4f8b58p-17f;  // %t13 = constant
    const Vec<1> v_t14 = map<1, op_add>(v_t12, v_t13);  // %t14 = add(%t12, %t13)
    const Vec<1> v_scale = map<1, op_rsqrt>(v_t14);  // %scale = rsqrt(%t14)
    out[0] = v_scale;
  }
};
struct Formed {
  struct Operands {
    static constexpr Operand o_g = Operand{.slot = 2, .dtype = DType::kF32, .vec = 4, .weight = true, .stride = dims(1)};
    Loaded<o_g, 8> v_g;
    static constexpr Operand o_b = Operand{.slot = 3, .dtype = DType::kF32, .vec = 4, .weight = true, .stride = dims(1)};
    Loaded<o_b, 8> v_b;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_g = load_operand<Operands::o_g, 8, false>(p, at);  // %g = weight
    in.v_b = load_operand<Operands::o_b, 8, false>(p, at);  // %b = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void values(const P& p, const Coord& at, const Operands& in, const Vec<8>* given, Vec<8>* out) {
    const Vec<8>& v_x = given[0];  // %x = input
    const Vec<8>& v_mean = given[1];  // %mean = mul(%t5, %t6)
    const Vec<8> v_d = map<8, op_sub>(v_x, v_mean);  // %d = sub(%x, %mean)
    const Vec<8>& v_scale = given[2];  // %scale = rsqrt(%t14)
    const Vec<8> v_t16 = map<8, op_mul>(v_d, v_scale);  // %t16 = mul(%d, %scale)
    const Vec<8> v_t17 = map<8, op_mul>(v_t16, in.v_g.values());  // %t17 = mul(%t16, %g)
    const Vec<8> v_t18 = map<8, op_add>(v_t17, in.v_b.values());  // %t18 = add(%t17, %b)
    const Vec<8> v_n = round_to<DType::kBF16, 8>(v_t18);  // %n = cast(%t18)
    out[0] = v_n;
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(128, 3)
ctn_layer_norm_k0_skinny_w4x1(const __grid_constant__ P p) { skinny<kConfig, Epilogue, FormedX<Formed, RowPass<Terms0, 1, Rows0, 1>, RowPass<Terms1, 1, Rows1, 1>>>(p); }

