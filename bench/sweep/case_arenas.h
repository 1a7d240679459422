// SPDX-License-Identifier: Apache-2.0
// Random tensors for many cases in turn: per dtype an arena for weights and one for other inputs.
// The tensors of a case are views of these, one set after the other.
#pragma once

#include "bench/measure/shared_arena.h"

namespace catenary::bench {

// The number of tensor sets in rotation: inputs and weights are more than twice the L2 if `most`
// sets and 24 GiB allow that. At least 2. `scratch_bytes`: of the peers, for each set.
int rotation_of(const VerifiedChain& chain, i64 scratch_bytes, i64 l2_bytes, int most);

class CaseArenas {
 public:
  // Makes room for `copies` sets of the parameters of `chain`.
  void reserve(const VerifiedChain& chain, int copies);

  // Allocates and fills. The device has finished when it returns.
  Error fill(const Session& session, RandomPool& pool);

  // The parameters of `chain` as views, i32 ones filled with `ends`, and its output, without
  // contents.
  Expected<Tensors> tensors(const VerifiedChain& chain, llvm::ArrayRef<i32> ends, int copies) const;

 private:
  struct Arena {
    i64 set_bytes = 0;  // the largest set
    i64 bytes = 0;      // the most that any case needs
    SharedArena memory;
  };
  using Key = std::pair<DType, bool>;  // a dtype, and whether it is of weights
  std::map<Key, Arena> arenas_;
};

}  // namespace catenary::bench
