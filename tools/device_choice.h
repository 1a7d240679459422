// SPDX-License-Identifier: Apache-2.0
// Where a chain runs: on a GPU, in the simulator, or by the reference without kernels. Chosen once
// per process, before the first Driver::get().
#pragma once

#include <string>

#include "ir/error.h"

namespace catenary::tools {

enum class DeviceKind : u8 { kCuda, kSim, kRef };

struct DeviceChoice {
  DeviceKind kind = DeviceKind::kRef;
  bool asked_for = false;  // by --device or CATENARY_DEVICE
  std::string why;         // one line for the user, if the choice was not the user's
};

// `device` is --device: "cuda", "sim" or "ref". Empty: CATENARY_DEVICE, else cuda if there is a
// GPU, else sim if there is a host compiler, else ref. Driver::get() then returns that device's
// driver. kInvalidArgument: --device and CATENARY_DEVICE differ. kHostCompilerMissing: there is no
// GPU, and CATENARY_CXX is no compiler.
Expected<DeviceChoice> choose_device(const std::string& device);

}  // namespace catenary::tools
