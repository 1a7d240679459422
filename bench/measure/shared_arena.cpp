// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/shared_arena.h"

namespace catenary::bench {

Expected<SharedArena> SharedArena::make(const Session& session, RandomPool& pool, i64 largest,
                                        i64 bytes, double scale, i64 phase) {
  constexpr i64 kWidth = 2;  // bytes of a bf16
  // The host keeps one copy, which is as large as any view's.
  Expected<TensorArena> arena =
      make_arena(bf16_tensor({largest / kWidth}), static_cast<int>(ceil_div(bytes, largest)));
  if (!arena) return arena.takeError();
  if (Error error = fill_random(session, pool.block(DType::kBF16, scale), phase, *arena)) {
    return error;
  }
  SharedArena shared;
  shared.whole_ = std::move(*arena);
  return shared;
}

TensorArena SharedArena::view(TensorType type) const {
  TensorArena arena;
  arena.type = std::move(type);
  arena.copy_bytes = copy_bytes(arena.type);
  arena.borrowed = whole_.base();
  arena.borrowed_host = whole_.host;
  return arena;
}

}  // namespace catenary::bench
