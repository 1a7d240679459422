// SPDX-License-Identifier: Apache-2.0
// The driver's entry points as one table of function pointers (driver.def), with the types and
// numbers that they need beyond driver.h. A test may fill its own table and run all higher layers
// without a GPU. Knows no chain and no plan.
#pragma once

#include <cstddef>

#include "runtime/driver/driver.h"
#include "shared/tensor_map.h"

namespace catenary::cuda {

using MemoryHandle = unsigned long long;

// CUmemLocation, CUmemAllocationProp and CUmemAccessDesc.
struct MemoryLocation {
  int type;  // 1: device
  int id;
};
struct MemoryProperties {
  int type;  // 1: pinned
  int requested_handle_types;
  MemoryLocation location;
  void* win32_metadata;
  unsigned char flags[8];
};
struct MemoryAccess {
  MemoryLocation location;
  int flags;  // 3: read and write
};

// Values of the driver's enums; driver_test compares them with cuda.h.
inline constexpr Result kSuccess = 0;
inline constexpr Result kErrorInvalidValue = 1;
inline constexpr Result kErrorOutOfMemory = 2;
inline constexpr Result kErrorInvalidContext = 201;
inline constexpr Result kErrorNoBinaryForGpu = 209;
inline constexpr Result kErrorUnsupportedPtxVersion = 222;
inline constexpr Result kErrorInvalidHandle = 400;
inline constexpr Result kErrorLaunchFailed = 719;
inline constexpr Result kErrorNotSupported = 801;
inline constexpr Result kErrorStreamCaptureUnsupported = 900;
inline constexpr Result kErrorStreamCaptureImplicit = 906;
inline constexpr int kTensorMapU8 = 0;
inline constexpr int kTensorMapU32 = 2;
inline constexpr int kTensorMapF16 = 6;
inline constexpr int kTensorMapF32 = 7;
inline constexpr int kTensorMapBF16 = 9;
inline constexpr int kTensorMapTF32 = 11;
inline constexpr int kTensorMapPromotion128 = 2;  // an L2 miss fetches 128 bytes (RESULTS sm90-141)
inline constexpr int kFuncMaxDynamicSharedSize = 8;
inline constexpr int kCaptureStatusNone = 0;
inline constexpr int kCaptureStatusActive = 1;
inline constexpr int kCaptureModeThreadLocal = 1;
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr int kDeviceClockRate = 13;
inline constexpr int kDeviceSmCount = 16;
inline constexpr int kDeviceL2Bytes = 38;
inline constexpr int kDeviceCapabilityMajor = 75;
inline constexpr int kDeviceCapabilityMinor = 76;
inline constexpr int kDeviceSmemPerSm = 81;
inline constexpr int kDeviceSmemPerCta = 97;

// cuLibrary and cuGetProcAddress_v2 came with CUDA 12.0.
inline constexpr int kMinimumDriver = 12000;

struct Api {
#define CATENARY_DRIVER(member, name, version, parameters) Result(*member) parameters = nullptr;
#include "runtime/driver/driver.def"
#undef CATENARY_DRIVER
};

// For tests: for its lifetime Driver::get() returns a driver over `api`, or the simulator, instead
// of the process's own. Objects made from it must be destroyed before it. No other thread may use
// the driver meanwhile.
class ScopedDriver {
 public:
  static Expected<ScopedDriver> over(const Api& api);
  static Expected<ScopedDriver> simulator();
  ScopedDriver(ScopedDriver&&) = default;
  ~ScopedDriver();
  const Driver& driver() const { return *driver_; }

 private:
  explicit ScopedDriver(std::unique_ptr<const Driver> driver);
  std::unique_ptr<const Driver> driver_;
  const Driver* before_ = nullptr;
};

}  // namespace catenary::cuda
