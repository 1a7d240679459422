// SPDX-License-Identifier: Apache-2.0
#include "tools/targets.h"

#include "runtime/driver/driver.h"

namespace catenary::tools {

Expected<Target> choose_target(const std::string& text) {
  if (!text.empty()) return find_target(text);
  Expected<cuda::DeviceInfo> device = cuda::probe(0);
  if (device) return device->target;
  llvm::consumeError(device.takeError());
  return default_target();
}

}  // namespace catenary::tools
