// SPDX-License-Identifier: Apache-2.0
// One launch of an executable on host data: upload, launch, download.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/reference/reference.h"
#include "runtime/engine.h"

namespace catenary::tools {

// An output in host memory, in the layout of the chain.
struct HostOutput {
  TensorType type;  // no symbolic dimension
  std::vector<std::byte> bytes;
};

// Runs the chain once. Outputs are first filled with 0xff bytes (NaN in every float format), so
// that the comparison finds an element that no kernel writes, and are between guard bands.
// kMismatch: a kernel wrote to a guard band. Errors of the driver.
Expected<std::vector<HostOutput>> run_on_device(const Executable& executable,
                                                const VerifiedChain& chain,
                                                const ReferenceInputs& inputs);

}  // namespace catenary::tools
