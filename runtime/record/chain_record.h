// SPDX-License-Identifier: Apache-2.0
// The launch facts of a chain: what binding and launching it take. Made from a compiled chain, or
// read from a pack, so that a chain of a pack needs no planner, no emission and no compiler.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/record/compiled_chain.h"

namespace catenary {

// One tensor argument of a launch.
struct TensorRecord {
  std::string name;
  Role role = Role::kInput;  // kInput or kWeight; of an output: kInput
  bool output = false;
  TensorType type;    // its align is the declared one
  i64 align = 1;      // bytes that the address must be a multiple of, for the kernels that take it
  int in_place = -1;  // output: the input whose memory it takes
  bool operator==(const TensorRecord&) const = default;
};

// The source of one pointer of the parameter struct.
struct SlotRecord {
  int tensor = -1;  // index into ChainRecord::tensors; -1: the workspace, at byte `offset`
  i64 offset = 0;
  bool operator==(const SlotRecord&) const = default;
};

struct KernelRecord {
  std::string symbol;  // the entry point in the machine code
  std::string family;
  std::string config_text;  // one line for people
  GridRule grid;
  int threads = 0;
  int cluster = 1;     // CTAs
  i64 smem_bytes = 0;  // dynamic, per CTA
  bool pdl = false;    // planned to start before the previous kernel has ended
  std::vector<SlotRecord> slots;
  std::vector<MapBinding> maps;
  std::vector<int> scalars;  // indices into the scalar arguments
  KernelKey identity;        // kernels of one identity have the same machine code
  std::shared_ptr<const Cubin> cubin;
};

// Kernels for one range of the symbol, in launch order.
struct BucketRecord {
  i64 lo = 0;
  i64 hi = 0;
  std::vector<KernelRecord> kernels;
};

// What people read of a chain; no launch needs it.
class ChainTexts {
 public:
  virtual ~ChainTexts() = default;
  // The plan, as explain_text() or explain_json() print it.
  virtual Expected<std::string> explain(bool json) const = 0;
  // The emitted source of kernel `index`, counted over all buckets in order.
  virtual Expected<std::string> source(size_t index) const = 0;
};

struct ChainRecord {
  std::string text;  // the chain, as print() gives it
  std::string name;
  std::optional<Symbol> symbol;
  std::vector<TensorRecord> tensors;  // the tensor parameters in order, then the outputs
  size_t num_inputs = 0;              // tensors before the outputs
  size_t num_scalars = 0;
  i64 workspace_bytes = 0;
  std::vector<BucketRecord> buckets;  // ascending, contiguous; one without a symbol
  Target target;                      // what it is planned for
  std::string arch;                   // of the machine code: "sm_90a", "host:sm_90a"
  ChainOptions options;
  u32 launch_abi = 0;  // launch version of the pack that it is from; 0: it was compiled
  std::shared_ptr<const ChainTexts> texts;  // not null
  std::string from;  // "entry 0123456789abcdef of the pack llm.ctnpack"; empty: it was compiled
};

// Never fails: what a launch cannot take is found when the record is bound to a device.
std::shared_ptr<const ChainRecord> make_record(std::shared_ptr<const CompiledChain> compiled);

}  // namespace catenary
