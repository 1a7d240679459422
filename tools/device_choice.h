// SPDX-License-Identifier: Apache-2.0
// Where a chain runs: on a GPU, in the simulator, or not at all (the reference). Chosen once per
// process, before anything asks for a driver.
#pragma once

#include <string>

#include "ir/error.h"

namespace catenary::tools {

enum class DeviceKind : u8 { kCuda, kSim, kRef };

struct DeviceChoice {
  DeviceKind kind = DeviceKind::kRef;
  bool asked_for = false;  // by --device or CATENARY_DEVICE
  std::string why;         // one line where the user did not ask; empty: nothing to say
};

// `device` is --device: "cuda", "sim", "ref", or empty: CATENARY_DEVICE, else cuda where a GPU is
// found, else sim where a host compiler is, else ref. After it, Driver::get() gives what was
// chosen. kInvalidArgument: --device and CATENARY_DEVICE disagree.
Expected<DeviceChoice> choose_device(const std::string& device);

}  // namespace catenary::tools
