// SPDX-License-Identifier: Apache-2.0
// VerifiedChain, Target -> Plan: which kernels run, over which tensors, with which config struct.
// Pure and deterministic: one chain, target and options give one plan, on every machine.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/kernel_plan.h"
#include "compiler/measured.h"
#include "compiler/target.h"
#include "ir/forms.h"

namespace catenary {

// Kernels for one range of the symbol (the whole range where there is none), in launch order.
struct PlanBucket {
  i64 lo = 0;
  i64 hi = 0;
  std::vector<KernelPlan> kernels;
  // pdl[i]: kernel i may be launched programmatically dependent on kernel i-1 (i > 0), or on the
  // stream's previous kernel if the caller allows it (i == 0). False before sm_90, and where it
  // loses time.
  std::vector<bool> pdl;
  // Why norms keep kernels of their own, or their roundings where those may be dropped: one
  // sentence each.
  std::vector<std::string> kept_apart;
  int form = -1;  // of Plan::forms, whose kernels these are; -1: of the chain as written
};

struct Plan {
  Target target;
  std::vector<ChainForm> forms;     // other ones of the chain that are allowed
  std::vector<PlanBucket> buckets;  // ascending, contiguous; one without a symbol
  i64 workspace_bytes = 0;          // largest over the buckets
  // Against running every op on its own: the bytes and flops of the unfused chain.
  i64 unfused_bytes = 0;
  i64 fused_bytes = 0;
  int unfused_kernels = 0;
  int fused_kernels = 0;
  // Sum over the kernels of max(bytes / DRAM rate, flops / rate of the kernel's instruction).
  double roofline_us = 0;
};

// A candidate that was measured to be the best for one contraction. Planning takes it as it would
// take a forced one; where it cannot, the cost model decides.
struct TunedChoice {
  CandidateId id;
  std::string note;  // of the measurement, for explain; not empty
};

// A candidate of one contraction that the compiler rejected: it is not chosen again.
struct RejectedCandidate {
  std::string signature;  // KernelPlan::signature
  CandidateId id;
  bool operator==(const RejectedCandidate&) const = default;
};

struct PlanOptions {
  bool fuse = true;  // false: one kernel per op, for comparison
  int split_k = 0;   // 0: the cost model decides; else forced
  // A row's sums are formed in one order for every M: one instruction, no k-slices. The bits of a
  // row then depend neither on M nor on other rows. A chain may ask for it too.
  bool batch_invariant = false;
  // Norms before contractions may take their algebraic form (ir/algebraic_norms.h). A chain may
  // allow it too, and then its reference allows it as well.
  bool algebraic_norms = false;
  // Norms, gains and row reductions are parts of the products beside them wherever a kernel can do
  // it, not only where that is predicted to be faster. For tests.
  bool prefer_inside = false;
  // A tile's name ("128x128x32w2x2s3", "skinny16x1s3r1g2p2"); empty: the cost model decides.
  std::string force_tile;
  std::vector<RejectedCandidate> rejected;
  // The measured choice for a contraction's signature, if there is one; not asked where a tile or a
  // split is forced.
  std::function<std::optional<TunedChoice>(const std::string& signature)> tuned;
  // Asked after `tuned` and before the cost model. Empty: the cost model decides.
  llvm::ArrayRef<MeasuredRow> measured = measured_rows();
};

// kUnsupported or kResourceLimit with the tightest limit when nothing fits.
Expected<Plan> make_plan(const VerifiedChain& chain, const Target& target,
                         const PlanOptions& options = {});

// The chain that the bucket's kernels compute.
const VerifiedChain& chain_of(const VerifiedChain& written, const Plan& plan,
                              const PlanBucket& bucket);

// The bucket that `symbol` falls in (0 for a chain without one), or -1.
int find_bucket(const Plan& plan, i64 symbol);

}  // namespace catenary
