// catenary | target sm_90a (h200) | kernel ctn_pseudo_linear_k0_pointwise_v4u1
// chain:
//   chain pseudo_linear(
//       input x: f32[32768, 4096],
//       weight w: f32[4096],
//       weight b: f32[4096]) {
//     t3 = mul(x, w)
//     t4 = add(t3, b)
//     y = relu(t4)
//     return y: f32
//   }
// plan: pointwise: pointwise, 4 elements x 1 vector per thread, 256 threads
//   'y' depends only on parameters, and the caller wants it in memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: parameter 'b'
//   slot 3: output 'y'
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_pseudo_linear_k0_pointwise_v4u1.cu
#include "kernels/pointwise.cuh"
namespace {
using namespace catenary;
__device__ constexpr PointwiseConfig kConfig{
    .size = extents(32768, 4096),
    .vec = 4, .unroll = 1, .threads = 256,
};
using P = Params<4, 0>;
struct Program {
  struct Operands {
    static constexpr Operand o_x = Operand{.slot = 0, .dtype = DType::kF32, .vec = 4, .streamed = true, .stride = dims(4096, 1)};
    Loaded<o_x, 4> v_x;
    static constexpr Operand o_w = Operand{.slot = 1, .dtype = DType::kF32, .vec = 4, .weight = true, .stride = dims(1)};
    Loaded<o_w, 4> v_w;
    static constexpr Operand o_b = Operand{.slot = 2, .dtype = DType::kF32, .vec = 4, .weight = true, .stride = dims(1)};
    Loaded<o_b, 4> v_b;
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
    in.v_w = load_operand<Operands::o_w, 4, false>(p, at);  // %w = weight
    in.v_b = load_operand<Operands::o_b, 4, false>(p, at);  // %b = weight
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
    in.v_x = load_operand<Operands::o_x, 4, false>(p, at);  // %x = input
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in) {
    const Vec<4> v_t3 = map<4, op_mul>(in.v_x.values(), in.v_w.values());  // %t3 = mul(%x, %w)
    const Vec<4> v_t4 = map<4, op_add>(v_t3, in.v_b.values());  // %t4 = add(%t3, %b)
    const Vec<4> v_y = map<4, op_relu>(v_t4);  // %y = relu(%t4)
    store_vec<Operand{.slot = 3, .dtype = DType::kF32, .vec = 4, .streamed = true, .stride = dims(4096, 1)}, 4, false>(p, at, v_y);  // %y
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(256, 1)
ctn_pseudo_linear_k0_pointwise_v4u1(const __grid_constant__ P p) { pointwise<kConfig, Program>(p); }

