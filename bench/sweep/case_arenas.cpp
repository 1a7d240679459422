// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/case_arenas.h"

#include <algorithm>

namespace catenary::bench {
namespace {

// All sets of a case's tensors and its peers' scratch.
constexpr i64 kMostCaseBytes = i64{24} << 30;

using Key = std::pair<DType, bool>;

Key key_of(const VerifiedChain& chain, ValueId id) {
  return {chain.info(id).type.dtype, chain.value(id).role == Role::kWeight};
}

// Bytes of one set by arena.
std::map<Key, i64> bytes_by_arena(const VerifiedChain& chain) {
  std::map<Key, i64> bytes;
  for (const ValueId id : chain.parameters()) {
    if (chain.info(id).type.dtype == DType::kI32) continue;
    bytes[key_of(chain, id)] += copy_bytes(chain.info(id).type);
  }
  return bytes;
}

}  // namespace

int rotation_of(const VerifiedChain& chain, i64 scratch_bytes, i64 l2_bytes, int most) {
  const i64 wanted = 2 * l2_bytes / std::max<i64>(input_bytes(chain), 1) + 1;
  const i64 fits = kMostCaseBytes / std::max<i64>(set_bytes(chain) + scratch_bytes, 1);
  return static_cast<int>(std::clamp<i64>(std::min(wanted, fits), 2, std::max(most, 2)));
}

void CaseArenas::reserve(const VerifiedChain& chain, int copies) {
  for (const auto& [key, bytes] : bytes_by_arena(chain)) {
    Arena& arena = arenas_[key];
    arena.set_bytes = std::max(arena.set_bytes, bytes);
    arena.bytes = std::max(arena.bytes, copies * bytes);
  }
}

Error CaseArenas::fill(const Session& session, RandomPool& pool) {
  for (auto& [key, arena] : arenas_) {
    const auto [dtype, weights] = key;
    auto memory = SharedArena::make(session, pool, dtype, arena.set_bytes, arena.bytes,
                                    weights ? 1.0 / 64 : 1, weights ? 0 : 16 * 300007);
    if (!memory) return memory.takeError();
    arena.memory = std::move(*memory);
  }
  return session.synchronize_context();
}

Expected<Tensors> CaseArenas::tensors(const VerifiedChain& chain, llvm::ArrayRef<i32> ends,
                                      int copies) const {
  Tensors tensors;
  const std::map<Key, i64> set = bytes_by_arena(chain);
  std::map<Key, i64> used;
  for (const ValueId id : chain.parameters()) {
    const TensorType& type = chain.info(id).type;
    TensorArena& tensor = tensors[chain.value(id).name];
    if (type.dtype == DType::kI32) {
      Expected<TensorArena> made = make_arena(type, copies);
      if (!made) return made.takeError();
      tensor = std::move(*made);
      if (Error error = fill_ends(ends, copies, tensor)) return error;
      continue;
    }
    const Key key = key_of(chain, id);
    tensor = arenas_.at(key).memory.view(type, used[key], set.at(key));
    used[key] += copy_bytes(type);
  }
  const std::vector<std::string> names = output_names(chain);
  for (size_t i = 0; i < names.size(); ++i) {
    Expected<TensorArena> output = make_arena(chain.output_type(static_cast<int>(i)), copies);
    if (!output) return output.takeError();
    tensors[names[i]] = std::move(*output);
  }
  return tensors;
}

}  // namespace catenary::bench
