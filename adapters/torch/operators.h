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

// The shim that the operators were registered with. Null: they are not registered.
const Shim* registered_shim();

// What torch's error says of an operator's error.
std::string error_sentence(Error error);

}  // namespace catenary::torch_adapter
