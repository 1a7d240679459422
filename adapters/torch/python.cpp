// SPDX-License-Identifier: Apache-2.0
#include "adapters/torch/python.h"

#include <dlfcn.h>

#include <optional>

namespace catenary::torch_adapter::python {
namespace {

std::optional<Api> find() {
  Api found;
#define CATENARY_PYTHON(name, result, parameters)                                    \
  found.name = reinterpret_cast<decltype(found.name)>(::dlsym(RTLD_DEFAULT, #name)); \
  if (found.name == nullptr) return std::nullopt;
#define CATENARY_PYTHON_OBJECT(name, type) CATENARY_PYTHON(name, , )
#include "adapters/torch/python.def"
#undef CATENARY_PYTHON
#undef CATENARY_PYTHON_OBJECT
  return found;
}

}  // namespace

const Api* api() {
  static const std::optional<Api> found = find();
  return found ? &*found : nullptr;
}

}  // namespace catenary::torch_adapter::python
