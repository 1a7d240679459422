// SPDX-License-Identifier: Apache-2.0
#include "tools/targets.h"

#include "ir/names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "runtime/driver/driver.h"

namespace catenary::tools {

Expected<Target> choose_target(const std::string& text) {
  if (!text.empty()) return find_target(text);
  Expected<cuda::DeviceInfo> device = cuda::probe(0);
  if (device) return device->target;
  llvm::consumeError(device.takeError());
  return default_target();
}

Expected<std::vector<std::string>> target_names(llvm::ArrayRef<std::string> values) {
  std::vector<std::string> names;
  for (const std::string& value : values) {
    llvm::SmallVector<llvm::StringRef, 4> parts;
    llvm::StringRef(value).split(parts, ',');
    for (const llvm::StringRef part : parts) {
      if (part.empty()) {
        return make_error(ErrorCode::kInvalidArgument,
                          "--arch {} has an empty name: separate names by one comma, as in "
                          "sm_80,sm_90a",
                          catenary::quoted(value));
      }
      if (!llvm::is_contained(names, part.str())) names.push_back(part.str());
    }
  }
  return names;
}

}  // namespace catenary::tools
