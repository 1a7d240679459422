// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/shared_arena.h"

namespace catenary::bench {

Expected<SharedArena> SharedArena::make(const Session& session, RandomPool& pool, DType dtype,
                                        i64 largest, i64 bytes, double scale, i64 phase) {
  // The host keeps the first `largest` bytes.
  const i64 elements = largest * 8 / dtype_info(dtype).bits;
  Expected<TensorArena> arena =
      make_arena(contiguous_tensor(dtype, {elements}), static_cast<int>(ceil_div(bytes, largest)));
  if (!arena) return arena.takeError();
  if (Error error = fill_random(session, pool.block(dtype, scale), phase, *arena)) {
    return error;
  }
  SharedArena shared;
  shared.whole_ = std::move(*arena);
  return shared;
}

TensorArena SharedArena::view(TensorType type, i64 offset, i64 distance) const {
  TensorArena arena;
  arena.type = std::move(type);
  arena.copy_bytes = distance;
  arena.borrowed = whole_.base() + static_cast<u64>(offset);
  arena.borrowed_host = llvm::ArrayRef(whole_.host).drop_front(static_cast<size_t>(offset));
  return arena;
}

}  // namespace catenary::bench
