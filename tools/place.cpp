// SPDX-License-Identifier: Apache-2.0
#include "tools/place.h"

#include "compiler/compile/host_compiler.h"
#include "runtime/driver/driver.h"

namespace catenary::tools {
namespace {

bool device_found() {
  Expected<const cuda::Driver*> driver = cuda::Driver::get();
  if (driver) return (*driver)->device_count() > 0;
  llvm::consumeError(driver.takeError());
  return false;
}

Expected<PlaceChoice> choose_simulator(bool asked_for, std::string why) {
  if (Error error = cuda::use_simulator()) return error;
  return PlaceChoice{Place::kSim, asked_for, std::move(why)};
}

}  // namespace

Expected<PlaceChoice> choose_place(const std::string& device) {
  if (device == "ref") return PlaceChoice{Place::kRef, true, ""};
  if (device == "sim") return choose_simulator(true, "");
  Expected<bool> simulated = cuda::simulator_chosen();
  if (!simulated) return simulated.takeError();
  if (device == "cuda") {
    if (!*simulated) return PlaceChoice{Place::kCuda, true, ""};
    return make_error(ErrorCode::kInvalidArgument,
                      "--device is cuda, and CATENARY_DEVICE is sim: unset one of them");
  }
  if (*simulated) return PlaceChoice{Place::kSim, true, ""};
  if (device_found()) return PlaceChoice{Place::kCuda, false, ""};
  Expected<const HostCompiler*> compiler = HostCompiler::get();
  if (compiler) {
    return choose_simulator(
        false, fmt::format("no GPU found: the kernels run in the simulator, compiled by {}",
                           (*compiler)->path()));
  }
  llvm::consumeError(compiler.takeError());
  return PlaceChoice{Place::kRef, false,
                     "no GPU found, and no C++ compiler for the simulator: evaluating by the "
                     "reference"};
}

}  // namespace catenary::tools
