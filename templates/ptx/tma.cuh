// SPDX-License-Identifier: Apache-2.0
// TMA loads, stores and reductions of boxes of tensors, sm_90. PTX ISA 9.7.9.25.5
// (cp.async.bulk.tensor). The tensor map gives element type, sizes, strides, box and swizzle;
// `corner` is the box's first element, innermost dimension first. Elements out of bounds are loaded
// as zeros and not stored. The innermost coordinate must be a multiple of 16 bytes, and coordinates
// of stores must not be negative (RESULTS hw-35). Shared addresses are multiples of 128, with a
// swizzle of its pattern (1024 for 128 B). Per thread; completion as in bulk.cuh.
//
// The map must be in a __grid_constant__ kernel parameter: its address is taken.
#pragma once

#include "ptx/device.cuh"
#include "shared/tensor_map.h"

namespace catenary {

// Global -> this CTA's shared memory; the mbarrier counts the bytes of the full box.
template <int kRank>
CATENARY_DEVICE void tma_load(u32 to, const TensorMap& map, const i32 (&corner)[kRank], u32 barrier,
                              u64 policy = kEvictNormal) {
  static_assert(kRank >= 2 && kRank <= 5, "a box has two to five dimensions");
  if constexpr (kRank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint "
        "[%0], [%1, {%4, %5}], [%2], %3;" ::"r"(to),
        "l"(&map), "r"(barrier), "l"(policy), "r"(corner[0]), "r"(corner[1])
        : "memory");
  } else if constexpr (kRank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint "
        "[%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(to),
        "l"(&map), "r"(barrier), "l"(policy), "r"(corner[0]), "r"(corner[1]), "r"(corner[2])
        : "memory");
  } else if constexpr (kRank == 4) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint "
        "[%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(to),
        "l"(&map), "r"(barrier), "l"(policy), "r"(corner[0]), "r"(corner[1]), "r"(corner[2]),
        "r"(corner[3])
        : "memory");
  } else if constexpr (kRank == 5) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint "
        "[%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(to),
        "l"(&map), "r"(barrier), "l"(policy), "r"(corner[0]), "r"(corner[1]), "r"(corner[2]),
        "r"(corner[3]), "r"(corner[4])
        : "memory");
  }
}

// The same box to the same offset in every CTA whose rank is a bit of `mask`; the mbarrier at the
// same offset in each of these CTAs counts the bytes it receives.
template <int kRank>
CATENARY_DEVICE void tma_load_multicast(u32 to, const TensorMap& map, const i32 (&corner)[kRank],
                                        u32 barrier, u16 mask, u64 policy = kEvictNormal) {
  static_assert(kRank >= 2 && kRank <= 5, "a box has two to five dimensions");
  if constexpr (kRank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster.L2::cache_hint "
        "[%0], [%1, {%5, %6}], [%2], %3, %4;" ::"r"(to),
        "l"(&map), "r"(barrier), "h"(mask), "l"(policy), "r"(corner[0]), "r"(corner[1])
        : "memory");
  } else if constexpr (kRank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster.L2::cache_hint "
        "[%0], [%1, {%5, %6, %7}], [%2], %3, %4;" ::"r"(to),
        "l"(&map), "r"(barrier), "h"(mask), "l"(policy), "r"(corner[0]), "r"(corner[1]),
        "r"(corner[2])
        : "memory");
  } else if constexpr (kRank == 4) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster.L2::cache_hint "
        "[%0], [%1, {%5, %6, %7, %8}], [%2], %3, %4;" ::"r"(to),
        "l"(&map), "r"(barrier), "h"(mask), "l"(policy), "r"(corner[0]), "r"(corner[1]),
        "r"(corner[2]), "r"(corner[3])
        : "memory");
  } else if constexpr (kRank == 5) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster.L2::cache_hint "
        "[%0], [%1, {%5, %6, %7, %8, %9}], [%2], %3, %4;" ::"r"(to),
        "l"(&map), "r"(barrier), "h"(mask), "l"(policy), "r"(corner[0]), "r"(corner[1]),
        "r"(corner[2]), "r"(corner[3]), "r"(corner[4])
        : "memory");
  }
}

template <int kRank>
CATENARY_DEVICE void tma_store(const TensorMap& map, const i32 (&corner)[kRank], u32 from,
                               u64 policy = kEvictNormal) {
  static_assert(kRank >= 2 && kRank <= 5, "a box has two to five dimensions");
  if constexpr (kRank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
        ".L2::cache_hint "
        "[%0, {%3, %4}], [%1], %2;" ::"l"(&map),
        "r"(from), "l"(policy), "r"(corner[0]), "r"(corner[1])
        : "memory");
  } else if constexpr (kRank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group"
        ".L2::cache_hint "
        "[%0, {%3, %4, %5}], [%1], %2;" ::"l"(&map),
        "r"(from), "l"(policy), "r"(corner[0]), "r"(corner[1]), "r"(corner[2])
        : "memory");
  } else if constexpr (kRank == 4) {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group"
        ".L2::cache_hint "
        "[%0, {%3, %4, %5, %6}], [%1], %2;" ::"l"(&map),
        "r"(from), "l"(policy), "r"(corner[0]), "r"(corner[1]), "r"(corner[2]), "r"(corner[3])
        : "memory");
  } else if constexpr (kRank == 5) {
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group"
        ".L2::cache_hint "
        "[%0, {%3, %4, %5, %6, %7}], [%1], %2;" ::"l"(&map),
        "r"(from), "l"(policy), "r"(corner[0]), "r"(corner[1]), "r"(corner[2]), "r"(corner[3]),
        "r"(corner[4])
        : "memory");
  }
}

// Adds the box to the tensor in the map's element type, each element atomically (relaxed, gpu
// scope), in no fixed order.
template <int kRank>
CATENARY_DEVICE void tma_reduce_add(const TensorMap& map, const i32 (&corner)[kRank], u32 from) {
  static_assert(kRank >= 2 && kRank <= 5, "a box has two to five dimensions");
  if constexpr (kRank == 2) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group "
        "[%0, {%2, %3}], [%1];" ::"l"(&map),
        "r"(from), "r"(corner[0]), "r"(corner[1])
        : "memory");
  } else if constexpr (kRank == 3) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group "
        "[%0, {%2, %3, %4}], "
        "[%1];" ::"l"(&map),
        "r"(from), "r"(corner[0]), "r"(corner[1]), "r"(corner[2])
        : "memory");
  } else if constexpr (kRank == 4) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.bulk_group "
        "[%0, {%2, %3, %4, %5}], "
        "[%1];" ::"l"(&map),
        "r"(from), "r"(corner[0]), "r"(corner[1]), "r"(corner[2]), "r"(corner[3])
        : "memory");
  } else if constexpr (kRank == 5) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.bulk_group "
        "[%0, {%2, %3, %4, %5, "
        "%6}], [%1];" ::"l"(&map),
        "r"(from), "r"(corner[0]), "r"(corner[1]), "r"(corner[2]), "r"(corner[3]), "r"(corner[4])
        : "memory");
  }
}

// Prefetches the map, not the data. Legal before griddepcontrol_wait.
CATENARY_DEVICE void tma_prefetch_descriptor(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

}  // namespace catenary
