// SPDX-License-Identifier: Apache-2.0
// Every PTX wrapper assembles: one kernel per header of templates/ptx, compiled by NVRTC, for the
// oldest architecture that has the instructions too. With no NVRTC on the machine there is nothing
// to compile with.
#include <doctest/doctest.h>

#include <filesystem>

#include "compiler/compile/nvrtc.h"
#include "tests/support/wrappers.h"

namespace catenary {
namespace {

// Kernels see `p` (global memory), `s` (shared), `n` (any number).
struct Sample {
  const char* header;
  const char* arch;  // oldest
  const char* declarations;
  const char* body;
};

const Sample kSamples[] = {
    {"global.cuh", "sm_80", "", R"(
  u16 a = ld_global_u16(p) + ld_global_constant_u16(p) + ld_global_u8(p);
  st_global_u8(p, ld_global_constant_u8(p));
  u32 b = ld_global_u32(p) + ld_global_constant_u32(p);
  U32x2 c = ld_global_v2(p), d = ld_global_constant_v2(p), e = ld_global_streamed_v2(p);
  U32x4 f = ld_global_v4(p), g = ld_global_constant_v4(p), h = ld_global_streamed_v4(p);
  U32x4 i = ld_global_weight_v4(p);
  st_global_u16(p, a);
  st_global_u32(p, b);
  st_global_v2(p, c), st_global_v2(p, d), st_global_v2(p, e);
  st_global_v4(p, f), st_global_v4(p, g), st_global_v4(p, i);
  st_global_streamed_v4(p, h);
  prefetch_l2(p);)"},
    {"registers.cuh", "sm_80", "#include \"ptx/atomic.cuh\"\n", R"(
  float halves[2][4] = {};
  for (float v : as_one_array(halves)) red_add_f32(p, v);)"},
    {"shared.cuh", "sm_80", "", R"(
  s = dynamic_smem();
  st_shared_u16(s, ld_shared_u16(s + 2));
  st_shared_u32(s, ld_shared_u32(s + 4));
  st_shared_f32(s, ld_shared_f32(s + 4));
  st_shared_f32x2(s, ld_shared_f32(s + 4), 1.0f);
  st_shared_v2(s, ld_shared_v2(s + 8));
  st_shared_v4(s, ld_shared_v4(s + 16));)"},
    {"cp_async.cuh", "sm_80", "", R"(
  cp_async_16(s, p, 16);
  cp_async_8(s, p, n);
  cp_async_4(s, p, 0);
  cp_async_commit();
  cp_async_wait<0>();)"},
    {"sync.cuh", "sm_80", "", R"(
  cta_barrier();
  warp_barrier();
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();)"},
    {"convert.cuh", "sm_80", "#include \"ptx/global.cuh\"\n", R"(
  float x = bits_to_f32(n) + bf16_to_f32(n) + f16_to_f32(static_cast<u16>(n));
  st_global_u16(p, f32_to_f16(x));
  st_global_u16(p, f32_to_bf16(x));
  st_global_u32(p, f32_to_bits(x) + f32_to_tf32(n));
  st_global_u32(p, f32_to_bf16x2(x, 1.0f) + f32_to_f16x2(1.0f, x));
  st_global_u16(p, f32_to_e4m3x2(x, 1.0f) + f32_to_e5m2x2(1.0f, x));
  st_global_u32(p, e4m3x2_to_f16x2(n) + e5m2x2_to_f16x2(n));)"},
    {"convert.cuh", "sm_89", "#include \"ptx/global.cuh\"\n", R"(
  st_global_u16(p, f32_to_e4m3x2(bits_to_f32(n), 1.0f) + f32_to_e5m2x2(1.0f, bits_to_f32(n)));
  st_global_u32(p, e4m3x2_to_f16x2(n) + e5m2x2_to_f16x2(n));)"},
    {"bits.cuh", "sm_80", "#include \"ptx/global.cuh\"\n", R"(
  u32 word = and_xor(n, 15u, 3u);
  renew(word);
  st_global_u32(p, word);)"},
    {"half2.cuh", "sm_80", "#include \"ptx/global.cuh\"\n", R"(
  st_global_u32(p, mul_bf16x2(n, n + 1) + mul_f16x2(n, n + 1));)"},
    {"half2.cuh", "sm_90", "#include \"ptx/global.cuh\"\n", R"(
  st_global_u32(p, sub_bf16x2(n, n + 1) + sub_f16x2(n, n + 1));)"},
    {"math.cuh", "sm_80", "#include \"ptx/convert.cuh\"\n#include \"ptx/global.cuh\"\n", R"(
  float x = bits_to_f32(n), y = bits_to_f32(n + 1);
  x = fma_rn(ex2_approx(x), rcp_approx(y), lg2_approx(x));
  y = sub_rn(add_rn(x, y), mul_rn(x, y));
  x = min_number(min_nan(x, y), max_nan(abs_f32(x), neg_f32(y)));
  x = fma_rn(rsqrt_approx(x), sqrt_rn(y), rcp_rn(x));
  st_global_u32(p, f32_to_bits(x));)"},
    {"mma.cuh", "sm_80", "#include \"ptx/shared.cuh\"\n", R"(
  U32x4 a = ldmatrix_x4(s), c = ldmatrix_x4_trans(s);
  U32x2 b = ldmatrix_x2(s), e = ldmatrix_x2_trans(s);
  float d[4] = {};
  mma_bf16(d, a, b.x, b.y);
  mma_f16(d, c, e.x, e.y);
  mma_tf32(d, a, ldmatrix_x1(s), ldmatrix_x1_trans(s));
  for (float v : d) st_shared_f32(s, v);)"},
    {"mma.cuh", "sm_90", "", R"(
  stmatrix_x1(s, n), stmatrix_x1_trans(s, n);
  stmatrix_x2(s, {n, n}), stmatrix_x2_trans(s, {n, n});
  stmatrix_x4(s, {n, n, n, n}), stmatrix_x4_trans(s, {n, n, n, n});)"},
    {"mbarrier.cuh", "sm_80", "", R"(
  mbarrier_init(s, n);
  mbarrier_arrive(s);
  cp_async_mbarrier_arrive(s);
  mbarrier_invalidate(s);)"},
    {"mbarrier.cuh", "sm_90", "", R"(
  fence_mbarrier_init();
  mbarrier_arrive_count(s, 2);
  mbarrier_arrive_remote(s);
  mbarrier_release_remote(s);
  mbarrier_expect_tx(s, 64);
  mbarrier_arrive_expect_tx(s, n);
  mbarrier_wait(s, 0);
  mbarrier_wait_cluster(s, 1);
  if (mbarrier_try_wait(s, n) || mbarrier_try_wait_cluster(s, n)) mbarrier_arrive(s);)"},
    {"bulk.cuh", "sm_90", "", R"(
  bulk_load(s, p, n, s);
  bulk_load(s, p, 64, s, kEvictFirst);
  bulk_load_multicast(s, p, n, s, 3, kEvictLast);
  bulk_store(p, s, n);
  bulk_reduce_add_f32(p, s, n), bulk_reduce_add_bf16(p, s, n), bulk_reduce_add_f16(p, s, n);
  bulk_copy_cluster(s, s, n, s);
  bulk_prefetch_l2(p, n);
  bulk_commit();
  bulk_wait<1>();
  bulk_wait_read<0>();)"},
    {"tma.cuh", "sm_90", R"(
template <int kRank>
CATENARY_DEVICE void all(const TensorMap& map, u32 s, const i32 (&corner)[kRank]) {
  tma_load(s, map, corner, s + 8);
  tma_load(s, map, corner, s + 8, kEvictLast);
  tma_load_multicast(s, map, corner, s + 8, 3);
  tma_store(map, corner, s);
  tma_store(map, corner, s, kEvictFirst);
  tma_reduce_add(map, corner, s);
}
)",
     R"(
  const i32 i = n;
  tma_prefetch_descriptor(map);
  all(map, s, {i, 1}), all(map, s, {i, 1, i}), all(map, s, {i, 1, i, 0}), all(map, s, {i, 1, i, i, 0});)"},
    {"cluster.cuh", "sm_90", "", R"(
  u32 r = map_shared(s, cluster_rank() ^ 1);
  cluster_arrive(), cluster_wait();
  st_cluster_f32(r, ld_cluster_f32(r));
  st_cluster_u32(r, ld_cluster_u32(r) + cluster_size());
  st_cluster_v4(r, ld_cluster_v4(r));
  st_async_u32(r, n, r), st_async_v2(r, {n, n}, r), st_async_v4(r, {n, n, n, n}, r);
  cluster_arrive_relaxed(), cluster_wait();)"},
    {"warp.cuh", "sm_80", "#include \"ptx/global.cuh\"\n", R"(
  n = shuffle_up(shuffle_xor(shuffle_index(n, 3), 16), 1) + shuffle_down(n, 2) + warp_index();
  n += vote_any(n > 3) + vote_all(n > 2) + vote_ballot(n > 1);
  named_barrier_sync<1>(128);
  named_barrier_arrive<15>(n);
  st_global_u32(p, n);)"},
    {"warp.cuh", "sm_90a", "#include \"ptx/global.cuh\"\n", R"(
  set_max_registers_increase<232>();
  if (elect_one()) st_global_u32(p, n);
  set_max_registers_decrease<40>();)"},
    {"atomic.cuh", "sm_80", "", R"(
  red_add_f32(p, 1.0f);
  red_add_f16x2(p, n);
  red_release_add_u32(p, n);
  st_release_u32(p, atom_add_u32(p, n) + ld_acquire_u32(p));
  fence_gpu();)"},
    {"atomic.cuh", "sm_90", "", R"(
  red_add_f32x2(p, 1.0f, 2.0f), red_add_f32x4(p, 1.0f, 2.0f, 3.0f, 4.0f);
  red_add_bf16x2(p, n);
  fence_proxy_async_shared();
  fence_proxy_async_global();)"},
};

// A kernel for one N: all types, with A in shared memory and in registers.
std::string wgmma_body(int columns) {
  const std::string n = std::to_string(columns);
  const std::string args = "(d, a, b, n != 0);\n";
  const std::string with_registers = "(d, {n, n, n, n}, b, n != 0);\n";
  return "  float d[" + std::to_string(columns / 2) +
         "] = {};\n"
         "  const u64 a = wgmma_descriptor(s, 16, 1024, catenary::Swizzle::k128);\n"
         "  const u64 b = advance_descriptor(a, 32);\n"
         "  wgmma_fence();\n"
         "  wgmma_bf16<" +
         n + ">" + args + "  wgmma_bf16<" + n + ", true, true>" + args + "  wgmma_f16<" + n +
         ", false, true>" + args + "  wgmma_tf32<" + n + ">" + args + "  wgmma_bf16_registers<" +
         n + ">" + with_registers + "  wgmma_f16_registers<" + n + ", true>" + with_registers +
         "  wgmma_tf32_registers<" + n + ">" + with_registers + "  wgmma_e4m3<" + n + ">" + args +
         "  wgmma_e5m2<" + n + ">" + args +
         "  wgmma_commit();\n  wgmma_wait<0>();\n  wgmma_pin(d);\n"
         "  float sum = 0;\n#pragma unroll\n  for (float v : d) sum += v;\n  red_add_f32(p, "
         "sum);\n";
}

CompileJob job(const std::string& header, const std::string& declarations, const std::string& body,
               const std::string& arch) {
  return {{"kern", "",
           "#include \"ptx/" + header +
               "\"\n#include \"shared/tensor_map.h\"\n"
               "using namespace catenary;\n" +
               declarations +
               "extern \"C\" __global__ void __launch_bounds__(128, 1)\n"
               "kern(void* p, u32 s, u32 n, const __grid_constant__ TensorMap map) {" +
               body + "\n}\n"},
          arch,
          {}};
}

const Nvrtc* nvrtc_or_skip() {
  auto nvrtc = Nvrtc::get();
  if (nvrtc) return *nvrtc;
  const ErrorReport report = take_report(nvrtc.takeError());
  CHECK_MESSAGE(!std::filesystem::exists("/usr/local/cuda/lib64/libnvrtc.so"), report.message);
  MESSAGE("skipped: no NVRTC");
  return nullptr;
}

void check_compiles(const Nvrtc& nvrtc, const std::vector<CompileJob>& jobs) {
  auto results = nvrtc.compile_all(jobs);
  REQUIRE(results.size() == jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    INFO(jobs[i].arch, "\n", jobs[i].source.body);
    if (results[i]) {
      CHECK(!results[i]->cubin.image.empty());
    } else {
      FAIL_CHECK(take_report(results[i].takeError()).message);
    }
  }
}

}  // namespace

TEST_CASE("every wrapper assembles, from the first architecture on that has it") {
  const Nvrtc* nvrtc = nvrtc_or_skip();
  if (!nvrtc) return;
  std::vector<CompileJob> jobs;
  for (const Sample& sample : kSamples) {
    jobs.push_back(job(sample.header, sample.declarations, sample.body, "sm_90a"));
    if (std::string(sample.arch) != "sm_90a") {
      jobs.push_back(job(sample.header, sample.declarations, sample.body, sample.arch));
    }
  }
  check_compiles(*nvrtc, jobs);
}

TEST_CASE("warpgroup products assemble for every N") {
  const Nvrtc* nvrtc = nvrtc_or_skip();
  if (!nvrtc) return;
  std::vector<CompileJob> jobs;
  for (int n = 8; n <= 256; n += 8) {
    jobs.push_back(job("wgmma_registers.cuh",
                       "#include \"ptx/atomic.cuh\"\n#include \"pipeline/descriptor.cuh\"\n",
                       "\n" + wgmma_body(n), "sm_90a"));
  }
  CHECK(jobs.size() == 32);
  check_compiles(*nvrtc, jobs);
}

TEST_CASE("the samples name every wrapper") {
  std::string text = wgmma_body(8);
  for (const Sample& sample : kSamples) text += std::string(sample.declarations) + sample.body;
  for (const test::Wrapper& wrapper : test::wrappers_of_folder("templates/ptx")) {
    CHECK_MESSAGE(test::has_word(text, wrapper.name), wrapper.name, " is in no sample");
  }
}

}  // namespace catenary
