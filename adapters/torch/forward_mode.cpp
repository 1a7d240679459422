// SPDX-License-Identifier: Apache-2.0
#include "adapters/torch/forward_mode.h"

#include <dlfcn.h>

namespace catenary::torch_adapter {

ForwardMode ForwardMode::open(const std::string& libtorch_cpu) {
  ForwardMode made;
  void* const library = ::dlopen(libtorch_cpu.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return made;
  const auto find = [&](const char* name, auto& found) {
    found = reinterpret_cast<std::remove_reference_t<decltype(found)>>(::dlsym(library, name));
  };
  find("_ZN5torch8autograd14ForwardADLevel14try_get_by_idxEm", made.level_);
  find("_ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE", made.tangent_);
  find("_ZN3c1019UndefinedTensorImpl10_singletonE", made.undefined_);
  return made;
}

bool ForwardMode::has_tangent(TensorHandle tensor) const {
  if (!is_known() || !is_active()) return false;
  // A handle is an at::Tensor*, whose only member is the pointer to the implementation.
  const Impl* const self = *reinterpret_cast<const Impl* const*>(tensor);
  return *tangent_(self, 0, tensor) != undefined_;
}

}  // namespace catenary::torch_adapter
