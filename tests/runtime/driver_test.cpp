// SPDX-License-Identifier: Apache-2.0
// The driver layer without a GPU: its types against cuda.h where that is found; results as errors,
// contexts, memory and probe() over a fake driver.
#include "runtime/driver/driver.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>

#include "runtime/driver/api.h"
#include "runtime/driver/tensor_map.h"
#include "tests/support/fake_driver.h"

#ifdef CATENARY_CUDA_HEADER
#include <cuda.h>
#endif

using namespace catenary;
using namespace catenary::cuda;
using catenary::testing::fake;
using catenary::testing::fake_api;

#ifdef CATENARY_CUDA_HEADER
namespace {

// The same number of parameters; each has the same size, and is a pointer if the other is one.
template <typename A, typename B>
constexpr bool same_parameter =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename... A, typename... B>
struct SameCall<int (*)(A...), CUresult (*)(B...)> {
  static constexpr bool check() {
    if constexpr (sizeof...(A) != sizeof...(B)) {
      return false;
    } else {
      return (same_parameter<A, B> && ...);
    }
  }
  static constexpr bool value = check();
};

#define CATENARY_DRIVER(member, name, version, parameters) \
  static_assert(SameCall<decltype(Api::member), decltype(&name)>::value, #name);
#include "runtime/driver/driver.def"
#undef CATENARY_DRIVER

#define SAME_FIELD(ours, a, theirs, b) static_assert(offsetof(ours, a) == offsetof(theirs, b))
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
SAME_FIELD(LaunchConfig, grid_x, CUlaunchConfig, gridDimX);
SAME_FIELD(LaunchConfig, grid_z, CUlaunchConfig, gridDimZ);
SAME_FIELD(LaunchConfig, block_x, CUlaunchConfig, blockDimX);
SAME_FIELD(LaunchConfig, shared_mem_bytes, CUlaunchConfig, sharedMemBytes);
SAME_FIELD(LaunchConfig, stream, CUlaunchConfig, hStream);
SAME_FIELD(LaunchConfig, attributes, CUlaunchConfig, attrs);
SAME_FIELD(LaunchConfig, num_attributes, CUlaunchConfig, numAttrs);
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
SAME_FIELD(LaunchAttribute, id, CUlaunchAttribute, id);
SAME_FIELD(LaunchAttribute, value, CUlaunchAttribute, value);
static_assert(sizeof(LaunchAttribute::value) == sizeof(CUlaunchAttributeValue));
static_assert(sizeof(MemoryProperties) == sizeof(CUmemAllocationProp));
SAME_FIELD(MemoryProperties, location, CUmemAllocationProp, location);
SAME_FIELD(MemoryProperties, flags, CUmemAllocationProp, allocFlags);
static_assert(sizeof(MemoryAccess) == sizeof(CUmemAccessDesc));
SAME_FIELD(MemoryAccess, flags, CUmemAccessDesc, flags);
static_assert(sizeof(DevicePtr) == sizeof(CUdeviceptr));
static_assert(sizeof(MemoryHandle) == sizeof(CUmemGenericAllocationHandle));
#undef SAME_FIELD

#define SAME_VALUE(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
SAME_VALUE(kSuccess, CUDA_SUCCESS);
SAME_VALUE(kErrorStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME_VALUE(kErrorInvalidValue, CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(kErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(kErrorNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_VALUE(kErrorUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_VALUE(kErrorInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(kErrorInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(kErrorLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
SAME_VALUE(kErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(kErrorStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME_VALUE(kCaptureStatusActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_VALUE(kTensorMapU8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME_VALUE(kTensorMapU32, CU_TENSOR_MAP_DATA_TYPE_UINT32);
SAME_VALUE(kTensorMapF16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME_VALUE(kTensorMapF32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME_VALUE(kTensorMapBF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME_VALUE(kTensorMapTF32, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32);
SAME_VALUE(kTensorMapPromotion128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME_VALUE(Swizzle::kNone, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME_VALUE(Swizzle::k32, CU_TENSOR_MAP_SWIZZLE_32B);
SAME_VALUE(Swizzle::k64, CU_TENSOR_MAP_SWIZZLE_64B);
SAME_VALUE(Swizzle::k128, CU_TENSOR_MAP_SWIZZLE_128B);
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));
SAME_VALUE(kFuncMaxDynamicSharedSize, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_VALUE(kAttributeClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME_VALUE(kAttributeProgrammaticStreamSerialization,
           CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME_VALUE(kCaptureStatusNone, CU_STREAM_CAPTURE_STATUS_NONE);
SAME_VALUE(kCaptureModeThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_VALUE(kCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME_VALUE(kDeviceClockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME_VALUE(kDeviceSmCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(kDeviceL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME_VALUE(kDeviceCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(kDeviceCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(kDeviceSmemPerSm, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
SAME_VALUE(kDeviceSmemPerCta, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
#undef SAME_VALUE

}  // namespace
#endif

namespace {

ScopedDriver over_fakes() { return llvm::cantFail(ScopedDriver::over(fake_api())); }

ErrorReport report_of(const Driver& driver, Result result) {
  return take_report(driver.error(result, "launching k"));
}

}  // namespace

TEST_CASE("the driver of this machine opens, or the error names the library") {
  Expected<const Driver*> driver = Driver::get();
  if (driver) {
    CHECK((*driver)->version() >= kMinimumDriver);
    CHECK((*driver)->device_count() > 0);
    return;
  }
  const ErrorReport report = take_report(driver.takeError());
  CHECK(report.code == ErrorCode::kDriverMissing);
  CHECK(report.message.find("driver") != std::string::npos);
  // A second call returns the same result.
  CHECK(take_report(Driver::get().takeError()).message == report.message);
}

TEST_CASE("a driver that does not start or has no device is missing") {
  Api api = fake_api();
  fake().init_result = 999;
  ErrorReport report = take_report(ScopedDriver::over(api).takeError());
  CHECK(report.code == ErrorCode::kDriverMissing);
  CHECK(report.message.find("cuInit") != std::string::npos);

  fake().init_result = 0;
  fake().devices = 0;
  report = take_report(ScopedDriver::over(api).takeError());
  CHECK(report.code == ErrorCode::kDriverMissing);
  CHECK(report.message.find("no device") != std::string::npos);
  CHECK(report.message.find("13.0") != std::string::npos);
}

TEST_CASE("results become typed errors that name the operation") {
  const ScopedDriver scope = over_fakes();
  const Driver& driver = scope.driver();
  for (Result result : {700, 702, 710, 714, 715, 716, 717, 718, 719, 214}) {
    CAPTURE(result);
    CHECK(report_of(driver, result).code == ErrorCode::kContextPoisoned);
  }
  for (Result result : {209, 222}) {
    CHECK(report_of(driver, result).code == ErrorCode::kArchMismatch);
  }
  for (Result result : {900, 901, 905, 906, 908}) {
    CHECK(report_of(driver, result).code == ErrorCode::kNotWarmedCapture);
  }
  for (Result result : {1, 400, 701, 713, 720, 899, 909, 999}) {
    CAPTURE(result);
    CHECK(report_of(driver, result).code == ErrorCode::kDriver);
  }
  CHECK(report_of(driver, 2).code == ErrorCode::kOutOfMemory);
  const std::string message = report_of(driver, 700).message;
  for (const char* part : {"launching k", "CUDA_ERROR_FAKE", "700", "fake text", "restart"}) {
    CHECK(message.find(part) != std::string::npos);
  }
}

TEST_CASE("a primary context is retained once, pushed and popped") {
  const ScopedDriver scope = over_fakes();
  {
    auto first = ScopedContext::primary(1);
    REQUIRE(static_cast<bool>(first));
    auto second = ScopedContext::primary(1);
    REQUIRE(static_cast<bool>(second));
    CHECK(fake().retained == 1);
    CHECK(fake().pushed == 2);
    CHECK(fake().calls.back() == "push 101");
  }
  CHECK(fake().pushed == 0);
  for (int ordinal : {-1, 2}) {
    const ErrorReport report = take_report(ScopedContext::primary(ordinal).takeError());
    CHECK(report.code == ErrorCode::kInvalidArgument);
    CHECK(report.message.find(std::to_string(ordinal)) != std::string::npos);
  }
}

TEST_CASE("device memory is copied, refuses copies outside its bounds, and is freed") {
  const ScopedDriver scope = over_fakes();
  {
    DeviceBuffer buffer = llvm::cantFail(DeviceBuffer::allocate(8));
    llvm::cantFail(buffer.fill(0x5a));
    const unsigned char in[4] = {1, 2, 3, 4};
    llvm::cantFail(buffer.upload(in, 4, 2));
    unsigned char out[8];
    llvm::cantFail(buffer.download(out, 8));
    CHECK(out[1] == 0x5a);
    CHECK(out[2] == 1);
    CHECK(out[5] == 4);
    CHECK(out[6] == 0x5a);
    const ErrorReport report = take_report(buffer.upload(in, 4, 5));
    CHECK(report.code == ErrorCode::kInvalidArgument);
    CHECK(report.message.find("offset 5") != std::string::npos);
    CHECK(take_report(buffer.download(out, 4, -1)).code == ErrorCode::kInvalidArgument);

    DeviceBuffer moved = std::move(buffer);
    CHECK(moved.bytes() == 8);
    CHECK(buffer.get() == 0);
    CHECK(fake().allocated == 1);
  }
  CHECK(fake().allocated == 0);
  CHECK(llvm::cantFail(DeviceBuffer::allocate(0)).get() == 0);
  CHECK(take_report(DeviceBuffer::allocate(-1).takeError()).code == ErrorCode::kInvalidArgument);
  fake().alloc_result = 2;
  const ErrorReport report = take_report(DeviceBuffer::allocate(4096).takeError());
  CHECK(report.code == ErrorCode::kOutOfMemory);
  CHECK(report.message.find("4096 bytes") != std::string::npos);
}

TEST_CASE("probe takes sizes from the device and rates from a row of targets.def") {
  const ScopedDriver scope = over_fakes();
  DeviceInfo info = llvm::cantFail(probe(0));
  CHECK(info.name == "NVIDIA H200");
  CHECK(info.compute_capability == 90);
  CHECK(info.memory_bytes == i64{1} << 37);
  CHECK(info.target.name == "h200");
  CHECK(info.target.arch == "sm_90a");
  CHECK(info.target.dram_gbs == 4800);
  CHECK(info.target.clock_ghz == doctest::Approx(1.98));
  CHECK(info.target.smem_per_cta == 227 * 1024);

  fake().name = "NVIDIA H100 PCIe";
  fake().sm_count = 114;
  info = llvm::cantFail(probe(1));
  CHECK(info.target.name == "h100");
  CHECK(info.target.sm_count == 114);

  fake().name = "NVIDIA GeForce RTX 5090";
  fake().capability = 120;
  info = llvm::cantFail(probe(0));
  CHECK(info.target.arch == "sm_120a");
  CHECK(info.target.name == "sm_120a");

  fake().name = "NVIDIA A40";
  fake().capability = 86;
  CHECK(llvm::cantFail(probe(0)).target.arch == "sm_86");
}

TEST_CASE("probe refuses unknown ordinals and GPUs that are too old") {
  const ScopedDriver scope = over_fakes();
  ErrorReport report = take_report(probe(7).takeError());
  CHECK(report.code == ErrorCode::kInvalidArgument);
  CHECK(report.message.find("device 7") != std::string::npos);
  fake().capability = 75;
  fake().name = "Tesla T4";
  report = take_report(probe(0).takeError());
  CHECK(report.code == ErrorCode::kUnsupported);
  CHECK(report.message.find("7.5") != std::string::npos);
  CHECK(report.message.find("Tesla T4") != std::string::npos);
}
