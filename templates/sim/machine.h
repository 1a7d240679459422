// SPDX-License-Identifier: Apache-2.0
// The machine of a host-compiled kernel: one member per instruction with an effect beyond its
// registers. The host shims in sim/ptx/ call these, simulator/ implements them. Every call has the
// template line that it comes from.
//
// Shared-memory addresses are 32-bit: bits 0..23 are the offset in the CTA's window, bits 24..31
// are zero for the calling CTA, else the rank in the cluster plus one (the result of `mapa`).
#pragma once

#include "shared/int.h"

namespace catenary::sim {

// A line of a template. The default arguments make it the line of the outermost call.
struct Site {
  const char* file;
  u32 line;
  const char* op;  // the wrapper's name
};

constexpr Site here(const char* file = __builtin_FILE(), u32 line = __builtin_LINE()) {
  return {file, line, ""};
}
constexpr Site in(Site at, const char* op) { return {at.file, at.line, op}; }

// Indices of the running thread; x components only, since grids have one dimension.
struct Position {
  u32 thread = 0;
  u32 threads = 0;
  u32 cta = 0;
  u32 ctas = 0;
  u32 cta_in_cluster = 0;
  u32 cluster_ctas = 1;
};

enum class Number : u8 { kF32, kBF16, kF16, kTF32, kU32, kE4M3, kE5M2 };
enum class Shuffle : u8 { kIndex, kXor, kUp, kDown };
enum class Vote : u8 { kAny, kAll, kBallot };
enum class Read : u8 { kPlain, kConstant };  // kConstant: ld.global.nc, legal before the wait

// Operands of one wgmma. A is a descriptor, or fragments in registers.
struct WgmmaOperands {
  Number number;
  u32 n;                   // columns of D: a multiple of 8, 8 to 256
  u64 a_descriptor;        // used where a_registers is null
  const u32* a_registers;  // four registers, m64k32, m64k16 or m64k8
  u64 b_descriptor;
  bool scale_d;  // false: D = A * B
  bool trans_a;  // true: MN-major
  bool trans_b;
};

struct Machine {
  Position at;

  // Global memory. `to` and `from` are device addresses.
  virtual void load_global(void* to, const void* from, u32 bytes, Read read, Site site) = 0;
  virtual void store_global(void* to, const void* from, u32 bytes, Site site) = 0;
  // red.global.add of `count` numbers; release: at gpu scope.
  virtual void reduce_global(void* to, const void* from, u32 count, Number number, bool release,
                             Site site) = 0;
  virtual u32 atomic_add_global(void* to, u32 value, Site site) = 0;  // acq_rel, gpu scope
  virtual u32 load_acquire_global(const void* from, Site site) = 0;
  virtual void store_release_global(void* to, u32 value, Site site) = 0;

  // Shared memory of this CTA, or of another CTA of the cluster by a mapped address.
  virtual u32 dynamic_smem() = 0;
  virtual void load_shared(void* to, u32 from, u32 bytes, Site site) = 0;
  virtual void store_shared(u32 to, const void* from, u32 bytes, Site site) = 0;

  // cp.async.
  virtual void cp_async(u32 to, const void* from, u32 bytes, u32 valid, Site site) = 0;
  virtual void cp_async_commit(Site site) = 0;
  virtual void cp_async_wait(u32 pending, Site site) = 0;
  virtual void cp_async_arrive(u32 barrier, Site site) = 0;  // cp.async.mbarrier.arrive.noinc

  // Warp collectives. Values and results are the calling lane's.
  virtual void warp_barrier(u32 mask, Site site) = 0;
  virtual void ldmatrix(u32* to, u32 from, u32 count, bool trans, Site site) = 0;
  virtual void stmatrix(u32 to, const u32* from, u32 count, bool trans, Site site) = 0;
  virtual void mma(float* d, const u32* a, const u32* b, Number number, Site site) = 0;
  virtual u32 shuffle(u32 value, u32 lane, Shuffle kind, u32 mask, Site site) = 0;
  virtual u32 vote(u32 predicate, Vote kind, u32 mask, Site site) = 0;
  virtual bool elect(u32 mask, Site site) = 0;

  // CTA barriers. threads == 0: all of the CTA. wait == false: bar.arrive.
  virtual void barrier(u32 id, u32 threads, bool wait, Site site) = 0;
  virtual void set_max_registers(u32 count, bool increase, Site site) = 0;

  // Programmatic dependent launch.
  virtual void griddepcontrol_wait(Site site) = 0;
  virtual void griddepcontrol_launch_dependents(Site site) = 0;

  // mbarrier objects: 8 bytes of shared memory each.
  virtual void mbarrier_init(u32 barrier, u32 count, Site site) = 0;
  virtual void mbarrier_invalidate(u32 barrier, Site site) = 0;
  virtual void mbarrier_arrive(u32 barrier, u32 count, Site site) = 0;  // barrier may be remote
  virtual void mbarrier_expect(u32 barrier, u32 bytes, bool arrive, Site site) = 0;
  virtual bool mbarrier_try_wait(u32 barrier, u32 phase, Site site) = 0;

  // cp.async.bulk. mask == 0: only this CTA; else bit r: the CTA of rank r in the cluster.
  virtual void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier, u32 mask, Site site) = 0;
  virtual void bulk_store(void* to, u32 from, u32 bytes, Site site) = 0;
  virtual void bulk_reduce(void* to, u32 from, u32 bytes, Number number, Site site) = 0;
  virtual void bulk_copy_cluster(u32 to, u32 from, u32 bytes, u32 barrier, Site site) = 0;
  virtual void bulk_prefetch(const void* from, u32 bytes, Site site) = 0;
  virtual void bulk_commit(Site site) = 0;
  virtual void bulk_wait(u32 pending, bool read_only, Site site) = 0;

  // cp.async.bulk.tensor. `map` is an encoded tensor map; coordinates innermost first.
  virtual void tma_load(u32 to, const void* map, const i32* at, u32 rank, u32 barrier, u32 mask,
                        Site site) = 0;
  virtual void tma_store(const void* map, const i32* at, u32 rank, u32 from, Site site) = 0;
  virtual void tma_reduce(const void* map, const i32* at, u32 rank, u32 from, Site site) = 0;
  virtual void tma_prefetch_descriptor(const void* map, Site site) = 0;  // the map, not the data

  // wgmma. D is the caller's accumulators: n / 2 floats per thread.
  virtual void wgmma_fence(Site site) = 0;
  virtual void wgmma(float* d, const WgmmaOperands& operands, Site site) = 0;
  virtual void wgmma_commit(Site site) = 0;
  virtual void wgmma_wait(u32 pending, Site site) = 0;
  // An operand of an instruction that has the bits kAccumulatorInFlight.
  virtual void use_register(u32 bits, Site site) = 0;

  // Clusters.
  virtual u32 map_shared(u32 address, u32 rank, Site site) = 0;
  virtual void cluster_arrive(bool release, Site site) = 0;
  virtual void cluster_wait(Site site) = 0;
  virtual void store_async(u32 to, const void* from, u32 bytes, u32 barrier, Site site) = 0;

  // Fences.
  virtual void fence_proxy_async(Site site) = 0;
  virtual void fence_mbarrier_init(Site site) = 0;
  virtual void fence_gpu(Site site) = 0;  // fence.acq_rel.gpu

 protected:
  ~Machine() = default;
};

// The value of D between a wgmma and its wait: a NaN that no arithmetic gives.
inline constexpr u32 kAccumulatorInFlight = 0x7fb00bad;

// A pack may hold objects that another version of the library compiled: an object of another
// version is not called. Changes with this file.
inline constexpr u32 kMachineVersion = 1;

// Entry points of an object that was compiled from one kernel (sim/entry.h defines them).
using VersionFunction = u32 (*)();  // kMachineVersion of its compile
using BindFunction = void (*)(Machine* machine);
using CallFunction = void (*)(const void* parameters);  // runs the kernel as the thread `at`
using MinCtasFunction = u32 (*)();  // of its launch bounds
inline constexpr const char* kVersionName = "catenary_sim_version";
inline constexpr const char* kBindName = "catenary_sim_bind";
inline constexpr const char* kCallName = "catenary_sim_call";
inline constexpr const char* kMinCtasName = "catenary_sim_min_ctas";

}  // namespace catenary::sim
