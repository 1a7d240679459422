// catenary | target sm_90a (h100) | kernel ctn_lin_k0_gemm_m128n128k64
// chain:
//   chain lin(
//       input x: bf16[8192, 4096],
//       weight w: bf16[4096, 4096]) {
//     h = contract "mk,nk->mn"(x, w)
//     return h: bf16
//   }
// plan: gemm_sm90: tile 128x128x64, 2 ping-pong warpgroups, 6 stages, clusters of 2, 224 KiB shared
//   'h' is a contraction: it reads its operands from memory
//   slot 0: parameter 'x'
//   slot 1: parameter 'w'
//   slot 2: output 'h'
//   map 0: 'x' as 4096 x 8192 bf16 in boxes of 64 x 128
//   map 1: 'w' as 4096 x 4096 bf16 in boxes of 64 x 64
// rebuild: nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -I<catenary>/templates -cubin ctn_lin_k0_gemm_m128n128k64.cu
#include "kernels/gemm_sm90.cuh"
namespace {
using namespace catenary;
constexpr GemmSm90Config kConfig{
    .math = MathMode::kBF16,
    .m = 8192, .n = 4096, .k = 4096,
    .a = {.map = 0},
    .b = {.map = 1, .weight = true},
    .ping_pong = true, .block_m = 128, .block_n = 128, .consumers = 2, .stages = 6, .cluster = 2,
    .split_k = 1, .raster = 8, .vec = 8,
};
using P = Params<3, 0, 2>;
struct Epilogue {
  struct Operands {
  };
  static CATENARY_DEVICE void load_weights(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void load(const P& p, const Coord& at, Operands& in) {
  }
  static CATENARY_DEVICE void store(const P& p, const Coord& at, const Operands& in, const Vec<8>& sum0) {
    const Vec<8>& v_h = sum0;  // %h = contract(%x, %w)
    store_vec<Operand{.slot = 2, .dtype = DType::kBF16, .vec = 8, .streamed = true, .stride = dims(4096, 1)}, 8, false>(p, at, v_h);  // %h
  }
};
}  // namespace
extern "C" __global__ void __launch_bounds__(384, 1)
ctn_lin_k0_gemm_m128n128k64(const __grid_constant__ P p) { gemm_sm90<kConfig, Epilogue>(p); }
