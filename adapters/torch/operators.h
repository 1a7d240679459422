// SPDX-License-Identifier: Apache-2.0
// The operators of the namespace catenary, as torch's dispatcher calls them.
#pragma once

#include "adapters/torch/shim.h"

namespace catenary::torch_adapter {

struct OperatorOptions {
  std::string libtorch_cpu;   // path of the library that is loaded
  std::string libtorch_cuda;  // empty: for CPU tensors only
  bool define_schemas = false;
};

// Registers the operators' implementations for the life of the process; with `define_schemas` their
// schemas too, which the Python package otherwise defines. A second call does nothing. Errors:
// those of open_shim().
Error register_operators(const OperatorOptions& options);

}  // namespace catenary::torch_adapter
