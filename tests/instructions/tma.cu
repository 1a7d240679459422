// SPDX-License-Identifier: Apache-2.0
// ptx/tma.cuh: boxes of every rank in their shared-memory layout, swizzle included.
#include "ptx/atomic.cuh"
#include "ptx/bulk.cuh"
#include "ptx/cluster.cuh"
#include "ptx/global.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;

struct P {
  TensorMap map;
  Params<3, 0> args;
};

// The words at ptr[1]: rank, boxes, bytes of a box, 1 to add rather than store; then five words of
// corner per box.
struct Boxes {
  const u8* at;
  CATENARY_DEVICE u32 rank() const { return ld_global_u32(at); }
  CATENARY_DEVICE u32 count() const { return ld_global_u32(at + 4); }
  CATENARY_DEVICE u32 bytes() const { return ld_global_u32(at + 8); }
  CATENARY_DEVICE bool adds() const { return ld_global_u32(at + 12) != 0; }
  template <int kRank>
  CATENARY_DEVICE void corner(u32 box, i32 (&to)[kRank]) const {
#pragma unroll
    for (int i = 0; i < kRank; ++i) {
      to[i] = static_cast<i32>(ld_global_u32(at + 16 + 4 * (5 * box + i)));
    }
  }
};

template <int kRank>
CATENARY_DEVICE void load(const P& p, const Boxes& boxes, u32 box, u32 to, u32 barrier) {
  i32 corner[kRank];
  boxes.corner(box, corner);
  tma_load(to, p.map, corner, barrier);
}

template <int kRank>
CATENARY_DEVICE void load_both(const P& p, const Boxes& boxes, u32 box, u32 to, u32 barrier) {
  i32 corner[kRank];
  boxes.corner(box, corner);
  tma_load_multicast(to, p.map, corner, barrier, 3, kEvictLast);
}

template <int kRank>
CATENARY_DEVICE void store(const P& p, const Boxes& boxes, u32 box, u32 from) {
  i32 corner[kRank];
  boxes.corner(box, corner);
  if (boxes.adds()) {
    tma_reduce_add(p.map, corner, from);
  } else {
    tma_store(p.map, corner, from);
  }
}
}  // namespace

// The map's tensor is at ptr[0]. The output: the bytes of each box. full: one arrival that expects
// a box; phase 0, 1, 0, ...
extern "C" __global__ void __launch_bounds__(128) tma_loads(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const Boxes boxes{static_cast<const u8*>(p.args.ptr[1])};
  u8* out = static_cast<u8*>(p.args.ptr[2]);
  const u32 smem = dynamic_smem();
  if (t == 0) tma_prefetch_descriptor(p.map);
  griddepcontrol_wait();
  const u32 rank = boxes.rank();
  const u32 bytes = boxes.bytes();
  const u32 full = smem + bytes;
  if (t == 0) {
    mbarrier_init(full, 1);
    fence_mbarrier_init();
  }
  cta_barrier();
  for (u32 box = 0; box < boxes.count(); ++box) {
    if (t == 0) {
      mbarrier_arrive_expect_tx(full, bytes);
      if (rank == 2) load<2>(p, boxes, box, smem, full);
      if (rank == 3) load<3>(p, boxes, box, smem, full);
      if (rank == 4) load<4>(p, boxes, box, smem, full);
      if (rank == 5) load<5>(p, boxes, box, smem, full);
    }
    mbarrier_wait(full, box % 2);
    for (u32 i = t; i < bytes / 16; i += 128) {
      st_global_v4(out + box * bytes + 16 * i, ld_shared_v4(smem + 16 * i));
    }
    // All have read the box before the next one is loaded.
    cta_barrier();
  }
}

// A cluster of two: CTA r loads box r for both. full: one arrival that expects both boxes.
extern "C" __global__ void __launch_bounds__(128) tma_multicast(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const Boxes boxes{static_cast<const u8*>(p.args.ptr[1])};
  const u32 smem = dynamic_smem();
  griddepcontrol_wait();
  const u32 rank = boxes.rank();
  const u32 bytes = boxes.bytes();
  const u32 full = smem + 2 * bytes;
  const u32 own = cluster_rank();
  u8* out = static_cast<u8*>(p.args.ptr[2]) + 2 * bytes * own;
  if (t == 0) {
    mbarrier_init(full, 1);
    fence_mbarrier_init();
  }
  cluster_arrive();
  cluster_wait();
  if (t == 0) {
    mbarrier_arrive_expect_tx(full, 2 * bytes);
    const u32 to = smem + own * bytes;
    if (rank == 2) load_both<2>(p, boxes, own, to, full);
    if (rank == 3) load_both<3>(p, boxes, own, to, full);
    if (rank == 4) load_both<4>(p, boxes, own, to, full);
    if (rank == 5) load_both<5>(p, boxes, own, to, full);
  }
  mbarrier_wait(full, 0);
  for (u32 i = t; i < bytes / 8; i += 128) {
    st_global_v4(out + 16 * i, ld_shared_v4(smem + 16 * i));
  }
  // The other CTA's loads to this CTA have completed; this CTA's loads to the other may be in
  // flight.
  cluster_arrive();
  cluster_wait();
}

// The bytes of each box are at ptr[0], the map's tensor is the output.
extern "C" __global__ void __launch_bounds__(128) tma_stores(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.args.ptr[0]);
  const Boxes boxes{static_cast<const u8*>(p.args.ptr[1])};
  const u32 smem = dynamic_smem();
  griddepcontrol_wait();
  const u32 rank = boxes.rank();
  const u32 bytes = boxes.bytes();
  for (u32 box = 0; box < boxes.count(); ++box) {
    for (u32 i = t; i < bytes / 16; i += 128) {
      st_shared_v4(smem + 16 * i, ld_global_v4(in + box * bytes + 16 * i));
    }
    fence_proxy_async_shared();
    cta_barrier();
    if (t == 0) {
      if (rank == 2) store<2>(p, boxes, box, smem);
      if (rank == 3) store<3>(p, boxes, box, smem);
      if (rank == 4) store<4>(p, boxes, box, smem);
      if (rank == 5) store<5>(p, boxes, box, smem);
      bulk_commit();
      bulk_wait_read<0>();
    }
    cta_barrier();
  }
  if (t == 0) bulk_wait<0>();
}
