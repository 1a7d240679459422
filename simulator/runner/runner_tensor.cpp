// SPDX-License-Identifier: Apache-2.0
// TMA loads, stores and reductions (PTX ISA 9.7.9.25.5): boxes of tensors, by an encoded map. The
// part of a box outside its tensor is loaded as zeros and not stored; a load always delivers the
// bytes of the full box.
#include <algorithm>
#include <cstring>

#include "simulator/model/number.h"
#include "simulator/runner/runner.h"

namespace catenary::sim {
namespace {

constexpr u32 kSharedAlign = 128;

// The box of an operation in flight.
struct Box {
  TensorMapSpec spec;
  std::vector<BoxRow> rows;
};

}  // namespace

TensorMapSpec Runner::read_map(const void* map, const i32* corner, u32 rank, Site site) {
  TensorMap bytes;
  std::memcpy(&bytes, map, sizeof bytes);
  const std::optional<TensorMapSpec> spec = decode_tensor_map(bytes);
  if (!spec) {
    fault(FaultKind::kTensorMap, site,
          "uses a tensor map that cuTensorMapEncodeTiled has not encoded");
  }
  if (rank != 0 && spec->rank != rank) {
    fault(FaultKind::kTensorMap, site, "uses a tensor map of {} dimensions with {} coordinates",
          spec->rank, rank);
  }
  const u64 bytes_of_box = box_bytes(*spec);
  const size_t smem = self().cta->smem.size();
  if (bytes_of_box > smem) {
    fault(FaultKind::kTensorMap, site, "uses a tensor map whose box has {} bytes of {} in the CTA",
          bytes_of_box, smem);
  }
  // Measured on an H200: any other corner is an illegal instruction. The PTX ISA does not state it.
  if (const i64 inner = corner == nullptr ? 0 : i64{corner[0]} * dtype_bytes(spec->dtype);
      inner % 16 != 0) {
    fault(FaultKind::kMisaligned, site,
          "starts a box at innermost coordinate {}, {} bytes after a multiple of 16", corner[0],
          (inner % 16 + 16) % 16);
  }
  return *spec;
}

void Runner::tma_load(u32 to, const void* map, const i32* at, u32 rank, u32 barrier, u32 mask,
                      Site site) {
  preempt();
  Thread& thread = self();
  auto box = std::make_shared<Box>();
  box->spec = read_map(map, at, rank, site);
  box->rows = box_rows(box->spec, at);
  for (const BoxRow& row : box->rows) {
    if (row.bytes == 0) continue;
    global_read(thread, reinterpret_cast<const void*>(row.global), row.bytes,
                dtype_bytes(box->spec.dtype), Read::kPlain, site);
  }
  const u32 bytes = static_cast<u32>(box_bytes(box->spec));
  for_each_rank(to, barrier, mask, site, [&](u32 to_rank, u32 barrier_rank) {
    const SharedLocation location = shared_location(to_rank, bytes, kSharedAlign, site);
    issue_transaction(location, bytes, find_mbarrier(barrier_rank, false, site), true, site,
                      [box, location, address = kWindow + location.offset] {
                        scatter_box(box->spec, box->rows, address, location.bytes);
                      });
  });
}

void Runner::tensor_write(const void* map, const i32* at, u32 rank, u32 from, bool add, Site site) {
  preempt();
  Thread& thread = self();
  const Components& components = thread.cta->cluster->components;
  const u32 group = thread.bulk.open;
  auto box = std::make_shared<Box>();
  box->spec = read_map(map, at, rank, site);
  if (box->spec.as_tf32) {
    fault(FaultKind::kTensorMap, site,
          "stores through a tensor map of tf32, which is for loads: encode one of f32");
  }
  // Measured on an H200: an illegal instruction, while a box beyond the high end is clipped.
  if (std::any_of(at, at + rank, [](i32 coordinate) { return coordinate < 0; })) {
    fault(FaultKind::kOutOfBounds, site, "stores a box with a negative coordinate");
  }
  box->rows = box_rows(box->spec, at);
  const SharedLocation location =
      shared_location(from, static_cast<u32>(box_bytes(box->spec)), kSharedAlign, site);
  if (location.cta != thread.cta) {
    fault(FaultKind::kOperand, site,
          "stores from shared memory of CTA {}: the source is of its own CTA", location.cta->index);
  }
  const u32 address = kWindow + location.offset;
  const u32 row_bytes = box->spec.box[0] * dtype_bytes(box->spec.dtype);
  const auto read = [&](u32 offset, u32 bytes) {
    const SharedLocation part{location.cta, location.offset + offset, location.bytes + offset};
    shared_read(thread, part, bytes, components.bulk_reads(thread.number), group, true, site);
  };
  for (const BoxRow& row : box->rows) {
    if (row.bytes == 0) continue;
    if (row.bytes == row_bytes) {
      read(static_cast<u32>(row.shared), row_bytes);  // a swizzle stays within a row
    } else {
      for_each_chunk(row, box->spec.swizzle, address,
                     [&](const BoxChunk& chunk) { read(chunk.shared, chunk.bytes); });
    }
    global_write(thread, reinterpret_cast<void*>(row.global), row.bytes,
                 dtype_bytes(box->spec.dtype), components.bulk_writes(thread.number), group, add,
                 site);
  }
  issue_store(
      site,
      [box, location, address] {
        return gather_box(box->spec, box->rows, address, location.bytes);
      },
      [box, add](const std::vector<u8>& data) {
        const Number number = number_of(box->spec);
        for (const BoxRow& row : box->rows) {
          u8* global = reinterpret_cast<u8*>(row.global);
          const u8* part = data.data() + row.shared + row.first;
          if (add) {
            add_numbers(global, part, row.bytes / number_bytes(number), number);
          } else if (row.bytes != 0) {
            std::memcpy(global, part, row.bytes);
          }
        }
      });
}

void Runner::tma_store(const void* map, const i32* at, u32 rank, u32 from, Site site) {
  tensor_write(map, at, rank, from, false, site);
}

void Runner::tma_reduce(const void* map, const i32* at, u32 rank, u32 from, Site site) {
  tensor_write(map, at, rank, from, true, site);
}

void Runner::tma_prefetch_descriptor(const void* map, Site site) {
  read_map(map, nullptr, 0, site);
}

}  // namespace catenary::sim
