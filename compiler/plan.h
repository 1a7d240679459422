// SPDX-License-Identifier: Apache-2.0
// VerifiedChain, Target -> Plan: which kernels run, over which tensors, with which config struct.
// Pure and deterministic: one chain, target and options give one plan, on every machine.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "compiler/target.h"
#include "ir/verify/verify.h"
#include "shared/config.h"

namespace catenary {

enum class Family : u8 { kPointwise, kReduce, kGemmSm80, kGemmSm90, kSkinny };
std::string_view family_text(Family family);

// One line of a kernel's elementwise program. Programs are straight-line SSA: `args` index earlier
// lines of the same program.
struct ProgramLine {
  enum class Kind : u8 {
    kAccumulator,  // result number `index` of the kernel's contraction or sum
    kLoad,         // element of a tensor (operand)
    kConstant,     // attributes[0]
    kScalar,       // Params::scalar[index]
    kCompute,      // op(args...; attributes...)
    kRound,        // args[0] rounded to `dtype`, kept as f32
    kStore,        // args[0] to a tensor (operand), rounded to its dtype
  };
  Kind kind = Kind::kCompute;
  std::string name;     // the IR value's name; emitted variables are called v_<name>
  std::string comment;  // the IR text of the line
  Op op = Op::kAdd;
  int index = 0;
  llvm::SmallVector<int, 2> args;
  double attributes[2] = {0, 0};
  DType dtype = DType::kF32;  // kRound
  Operand operand;            // kLoad, kStore
};
using Program = std::vector<ProgramLine>;

// What one pointer of Params::ptr stands for.
struct SlotBinding {
  enum class Kind : u8 { kParameter, kOutput, kWorkspace };
  Kind kind = Kind::kParameter;
  int index = 0;             // parameter: position among parameters(); output: its number
  i64 workspace_offset = 0;  // bytes
  std::string name;          // for explain and errors
  i64 align = 16;            // bytes the pointer must be a multiple of
  i64 bytes = 0;             // span in memory; 0: never touched
};

// A tensor map that the kernel takes (Params::map): the memory behind a slot as a tensor, and the
// box of it that one copy moves. Innermost dimension first; elements along it are neighbours. The
// runtime encodes it at each launch, when address and symbol are known.
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
  bool as_tf32 = false;  // f32 elements; copies to shared memory round them to tf32, ties to even
};

// Why the hardware cannot take the map, or its slot may not be aligned enough; empty: it can.
std::string map_problem(const MapBinding& map, const SlotBinding& slot);

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
  // No more than the largest i64: products beyond it stay there.
  i64 ctas(i64 symbol) const;
};

// What the cost model says of a kernel, in microseconds, bytes and flops; all at the symbol's upper
// bound.
struct Prediction {
  double us = 0;
  double memory_us = 0;  // bytes at the target's DRAM rate
  double math_us = 0;    // flops at the target's rate for the kernel's instruction
  double launch_us = 0;
  double waves = 0;
  i64 bytes = 0;     // each operand once
  double flops = 0;  // may pass 2^63
};

// A candidate that lost, for explain.
struct RunnerUp {
  std::string config;  // "tile 128x128x32, 3 stages, ..."
  double us = 0;
  std::string rejected;  // why it cannot run; empty: it was only slower
};

// A tile that the planner considered for a contraction, by the name that forces it.
struct TileOption {
  std::string name;
  int split_k = 1;
  double us = 0;         // predicted
  std::string rejected;  // why it cannot run; empty: it can
  bool chosen = false;
};

using KernelConfig =
    std::variant<PointwiseConfig, ReduceConfig, GemmSm80Config, GemmSm90Config, SkinnyConfig>;

struct KernelPlan {
  Family family = Family::kPointwise;
  std::string symbol;  // extern "C" name, e.g. ctn_geglu_mlp_k0_gemm_m128n128k64
  KernelConfig config;
  Program prologue;                            // kReduce: what is summed; stores nothing
  llvm::SmallVector<int, 2> prologue_results;  // kReduce: lines of prologue that are summed
  Program program;                             // epilogue (or the whole of a pointwise kernel)
  std::vector<SlotBinding> slots;
  std::vector<MapBinding> maps;
  llvm::SmallVector<int, 2> scalars;  // parameter positions behind Params::scalar
  GridRule grid;
  int cluster = 1;  // CTAs of a cluster; divides the grid
  int threads = 0;
  i64 smem_bytes = 0;       // dynamic
  int min_ctas = 1;         // launch bounds
  std::string why;          // the group and the reason it ends where it ends
  std::string config_text;  // one line for people
  Prediction predicted;
  std::vector<RunnerUp> runner_ups;
  std::vector<TileOption> tiles;  // of a contraction: all that were considered, of every family
  std::string problem;            // of a contraction: its identity for measured choices
  std::string tuned;              // TunedChoice::note, if one was taken
  std::vector<ValueId> values;    // IR values this kernel computes, ascending
};

// A map of the kernel for people: "'x' as 4096 x 2560 bf16 in boxes of 64 x 128".
std::string map_text(const KernelPlan& kernel, const MapBinding& map);

// Kernels for one range of the symbol (the whole range where there is none), in launch order.
struct PlanBucket {
  i64 lo = 0;
  i64 hi = 0;
  std::vector<KernelPlan> kernels;
  // pdl[i]: kernel i may be launched programmatically dependent on kernel i-1 (i > 0), or
  // on the stream's previous kernel if the caller allows it (i == 0). False before sm_90.
  std::vector<bool> pdl;
};

struct Plan {
  Target target;
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

// A tile that was measured to be the best for one contraction. Planning takes it as it would take a
// forced one; where it cannot, the cost model decides.
struct TunedChoice {
  std::string problem;  // KernelPlan::problem
  std::string tile;
  int split_k = 1;
  std::string note;  // of the measurement, for explain; not empty
};

struct PlanOptions {
  bool fuse = true;  // false: one kernel per op, for comparison
  int split_k = 0;   // 0: the cost model decides; else forced
  // A tile's name ("128x128x32w2x2s3", "skinny16x1s3r1g2p2"); empty: the cost model decides.
  std::string force_tile;
  std::vector<std::string> rejected;  // KernelPlan::config_text of candidates not to choose again
  std::vector<TunedChoice> tuned;     // nothing where a tile or a split is forced
};

// kUnsupported or kResourceLimit with the tightest limit when nothing fits.
Expected<Plan> make_plan(const VerifiedChain& chain, const Target& target,
                         const PlanOptions& options = {});

// The bucket that `symbol` falls in (0 for a chain without one), or -1.
int find_bucket(const Plan& plan, i64 symbol);

}  // namespace catenary
