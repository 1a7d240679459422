// SPDX-License-Identifier: Apache-2.0
#include "tools/device_choice.h"

#include "compiler/compile/environment.h"
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

Expected<DeviceChoice> choose_simulator(bool asked_for, std::string why) {
  if (Error error = cuda::use_simulator()) return error;
  return DeviceChoice{DeviceKind::kSim, asked_for, std::move(why)};
}

}  // namespace

Expected<DeviceChoice> choose_device(const std::string& device) {
  if (device == "ref") return DeviceChoice{DeviceKind::kRef, true, ""};
  if (device == "sim") return choose_simulator(true, "");
  Expected<bool> simulated = cuda::simulator_chosen();
  if (!simulated) return simulated.takeError();
  if (device == "cuda") {
    if (!*simulated) return DeviceChoice{DeviceKind::kCuda, true, ""};
    return make_error(ErrorCode::kInvalidArgument,
                      "--device is cuda, and CATENARY_DEVICE is sim: remove one of them");
  }
  if (*simulated) return DeviceChoice{DeviceKind::kSim, true, ""};
  if (device_found()) return DeviceChoice{DeviceKind::kCuda, false, ""};
  Expected<const HostCompiler*> compiler = HostCompiler::get();
  if (compiler) {
    return choose_simulator(
        false, fmt::format("no GPU found: the kernels run in the simulator, compiled by {}",
                           (*compiler)->path()));
  }
  const ErrorReport why = take_report(compiler.takeError());
  // A compiler that the user chose is an error where it does not work, as with --device sim.
  if (why.code == ErrorCode::kHostCompilerMissing && !environment("CATENARY_CXX").empty())
    return make_error_text(why.code, "no GPU found, and " + why.message);
  return DeviceChoice{
      DeviceKind::kRef, false,
      why.code == ErrorCode::kHostCompilerMissing
          ? "no GPU and no C++ compiler for the simulator found: the reference evaluates the chain"
          : fmt::format("no GPU found: the reference evaluates the chain, since the simulator "
                        "cannot run ({})",
                        why.message)};
}

}  // namespace catenary::tools
