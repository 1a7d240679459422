// SPDX-License-Identifier: Apache-2.0
#include "adapters/torch/versions.h"

#include <dlfcn.h>

#include "ir/names.h"

namespace catenary::torch_adapter {

Expected<Versions> Versions::open(const std::string& libtorch_cpu) {
  Versions made;
  void* const library = ::dlopen(libtorch_cpu.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  const auto find = [&](const char* name, auto& found) {
    if (library == nullptr) return;
    found = reinterpret_cast<std::remove_reference_t<decltype(found)>>(::dlsym(library, name));
  };
  // A handle is an at::Tensor*, and both take a reference to one.
  find("_ZN2at6native12is_inferenceERKNS_6TensorE", made.is_inference_);
  find("_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE", made.bump_);
  if (made.is_inference_ != nullptr && made.bump_ != nullptr) return made;
  return make_error(ErrorCode::kUnsupported,
                    "{} exports no function that counts a tensor's versions: use the operators in "
                    "Python",
                    quoted(libtorch_cpu));
}

void Versions::count(TensorHandle tensor) const {
  if (!is_inference_(tensor)) bump_(tensor);
}

}  // namespace catenary::torch_adapter
