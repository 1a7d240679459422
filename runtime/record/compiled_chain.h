// SPDX-License-Identifier: Apache-2.0
// A chain after planning, emission and compiling, with all that these steps know of it. What loads
// it takes its launch facts only (chain_record.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/emit/source.h"
#include "compiler/plan.h"

namespace catenary {

// The options of a compile that decide which kernels a chain gets. A chain that is compiled with
// other ones is another product of the same chain.
struct ChainOptions {
  bool fuse = true;
  int split_k = 0;              // 0: the cost model decides
  std::string force_tile = "";  // empty: the cost model decides
  bool allow_spills = false;
  bool batch_invariant = false;
  bool operator==(const ChainOptions&) const = default;
};

// One kernel of a bucket, compiled for the plan's arch.
struct CompiledKernel {
  KernelSource source;
  KernelKey key;
  std::shared_ptr<const Cubin> cubin;
};

// A chain whose kernels are machine code: everything short of a device.
struct CompiledChain {
  VerifiedChain chain;
  Plan plan;
  std::vector<std::vector<CompiledKernel>> buckets;  // as plan.buckets
  ChainOptions options = {};
};

}  // namespace catenary
