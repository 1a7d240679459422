// SPDX-License-Identifier: Apache-2.0
// One planned kernel: its family and config, its programs, what its pointers and tensor maps are,
// its grid and what it is predicted to cost.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "compiler/fusion/program.h"
#include "compiler/kernel_config.h"
#include "ir/verify/verify.h"

namespace catenary {

class KernelFamily;

// A tensor map that the kernel takes (Params::map): the memory of a slot as a tensor, and the box
// that one TMA instruction moves. Innermost dimension first; its elements are adjacent. The runtime
// encodes it at each launch, when address and symbol are known.
struct MapBinding {
  struct Dimension {
    Extent size;
    i64 stride = 0;  // bytes; of the innermost dimension: one element
    i32 box = 1;
    bool operator==(const Dimension&) const = default;
  };
  int slot = 0;
  DType dtype = DType::kBF16;
  llvm::SmallVector<Dimension, 5> dims;
  Swizzle swizzle = Swizzle::kNone;
  bool as_tf32 = false;  // f32 elements; TMA loads round them to tf32, ties to even
  bool operator==(const MapBinding&) const = default;
};

// Why the hardware cannot take the map, or its slot may not be aligned enough; empty: it can.
std::string map_limit(const MapBinding& map, const SlotBinding& slot);

// CTAs of one launch: fixed * (ceil(size / block) + extra), where size is `size`, or symbol * scale
// when scale is not 0; at most `limit`, if that is not 0. Zero means that there is nothing to
// launch.
struct GridRule {
  i64 fixed = 1;
  i64 size = 1;
  i64 scale = 0;
  i64 block = 1;
  i64 extra = 0;
  i64 limit = 0;
  // No more than the largest i64: products beyond it saturate.
  i64 ctas(i64 symbol) const;
};

// What the cost model says of a kernel, in microseconds, bytes and flop, all at the symbol's upper
// bound: us = start + |max(sm, l2, power), latency, dram| + tail + reduction. families/roofline.h
// defines the terms.
struct Prediction {
  double us = 0;
  double start_us = 0;
  double sm_us = 0;
  double l2_us = 0;
  double power_us = 0;
  double latency_us = 0;
  double dram_us = 0;
  double tail_us = 0;
  double reduction_us = 0;
  double waves = 0;
  i64 bytes = 0;        // each operand once
  double flops = 0;     // may pass 2^63
  double floor_us = 0;  // no kernel is faster: bytes and flop at the target's published rates
};

// A kernel that a family could launch for a contraction: what forces it, what a tuning record names
// and what is not tried again after the compiler rejected it.
struct CandidateId {
  std::string family;
  std::string tile;  // the family's own name of its tile, "128x128x64p2s4"
  int split_k = 1;
  auto operator<=>(const CandidateId&) const = default;
};

// A candidate that the planner considered, for explain and for tuning.
struct CandidateSummary {
  CandidateId id;
  std::string text;      // "tile 128x128x32, 3 stages, ..."
  double us = 0;         // predicted
  std::string rejected;  // why it cannot run; empty: it can
  bool chosen = false;
};

// A family that has no kernel for a contraction, and why.
struct FamilyRefusal {
  std::string family;
  std::string reason;
};

// A contraction that runs beside the first one of a launch, in CTAs of its own after that one's.
struct KernelPart {
  KernelConfig config;
  Program program;
  i64 ctas =
      0;  // for each row tile; all parts have equally many row tiles. Persistent: of the launch
  // Do both compute the same? Not whether their programs store to the same memory.
  bool operator==(const KernelPart& other) const {
    return config == other.config && ctas == other.ctas;
  }
  bool operator!=(const KernelPart& other) const { return !(*this == other); }
};

struct KernelPlan {
  const KernelFamily* family = nullptr;
  std::string symbol;  // extern "C" name, e.g. ctn_geglu_mlp_k0_gemm_m128n128k64
  KernelConfig config;
  Program prologue;                            // reduce: what is summed, and stores beside it
  llvm::SmallVector<int, 2> prologue_results;  // reduce: lines of prologue that are summed
  std::optional<FormedPrograms> formed;        // skinny: how X is formed, of all parts
  Program program;                             // epilogue (or the whole of a pointwise kernel)
  std::vector<KernelPart> beside;  // further contractions of the launch; slots are of all parts
  std::vector<SlotBinding> slots;
  std::vector<MapBinding> maps;
  llvm::SmallVector<int, 2> scalars;  // parameter positions of Params::scalar
  GridRule grid;
  int cluster = 1;  // CTAs of a cluster; divides the grid
  int threads = 0;
  i64 smem_bytes = 0;  // dynamic
  int min_ctas = 1;    // launch bounds
  // Whether CTAs that start before the previous kernel has ended save time (PDL, sm_90 and newer).
  bool gains_by_pdl = true;
  std::string why;          // the group and the reason it ends where it ends
  std::string config_text;  // one line for people
  Prediction predicted;
  // The rest is of a contraction's first kernel.
  CandidateId candidate;
  std::string signature;                     // the contraction's identity for measured choices
  std::string tuned;                         // TunedChoice::note, if one was taken
  std::vector<CandidateSummary> candidates;  // of every family, best first
  std::vector<FamilyRefusal> refusals;
  std::vector<ValueId> values;  // IR values this kernel computes, ascending
};

// A map of the kernel for people: "'x' as 4096 x 2560 bf16 in boxes of 64 x 128".
std::string map_text(const KernelPlan& kernel, const MapBinding& map);

}  // namespace catenary
