// SPDX-License-Identifier: Apache-2.0
// A device -> the Target that plans for it. Sizes and the clock are those of the device. Rates,
// which no driver call returns, are those of the nearest row of targets.def.
#include <cctype>
#include <cstdlib>

#include "ir/counted.h"
#include "runtime/driver/api.h"

namespace catenary::cuda {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The row with the nearest capability that is not newer; among equals, a row whose name is part of
// the device's name, then the nearest SM count. Null: the device is older than every row.
const Target* nearest_row(const std::string& device_name, int capability, int sm_count) {
  const Target* best = nullptr;
  int best_distance = 0;
  for (const Target& row : all_targets()) {
    const int row_capability = row.compute_capability();
    if (row_capability > capability) continue;
    int distance = std::abs(row.sm_count - sm_count);
    if (device_name.find(row.name) == std::string::npos) distance += 1000;
    distance += 10000 * (capability - row_capability);
    if (best == nullptr || distance < best_distance) {
      best = &row;
      best_distance = distance;
    }
  }
  return best;
}

// From 9.0 on, the tensor-core instructions need the architecture-specific target (suffix a).
std::string arch_of(int capability) {
  return fmt::format("sm_{}{}", capability, capability >= 90 ? "a" : "");
}

Error check_ordinal(const Driver& driver, int ordinal) {
  if (ordinal >= 0 && ordinal < driver.device_count()) return Error::success();
  return make_error(ErrorCode::kInvalidArgument,
                    "device {} does not exist: this process sees {}, numbered from 0", ordinal,
                    counted(driver.device_count(), "device"));
}

}  // namespace

Expected<DeviceInfo> probe(int ordinal) {
  Expected<const Driver*> found = Driver::get();
  if (!found) return found.takeError();
  const Driver& driver = **found;
  const Api& api = driver.api();
  if (Error error = check_ordinal(driver, ordinal)) return error;

  Device device = 0;
  char name[256] = {};
  size_t memory = 0;
  Result result = api.device_get(&device, ordinal);
  if (result == kSuccess) result = api.device_get_name(name, sizeof name - 1, device);
  if (result == kSuccess) result = api.device_total_mem(&memory, device);
  const auto attribute = [&](int which) {
    int value = 0;
    if (result == kSuccess) result = api.device_get_attribute(&value, which, device);
    return value;
  };
  DeviceInfo info;
  info.ordinal = ordinal;
  info.name = name;
  info.memory_bytes = static_cast<i64>(memory);
  info.compute_capability =
      10 * attribute(kDeviceCapabilityMajor) + attribute(kDeviceCapabilityMinor);
  const int sm_count = attribute(kDeviceSmCount);
  const int clock_khz = attribute(kDeviceClockRate);
  const int smem_per_sm = attribute(kDeviceSmemPerSm);
  const int smem_per_cta = attribute(kDeviceSmemPerCta);
  const int l2_bytes = attribute(kDeviceL2Bytes);
  if (result != kSuccess) {
    return driver.error(result, fmt::format("reading the properties of device {}", ordinal));
  }

  const Target* row = nearest_row(lower(info.name), info.compute_capability, sm_count);
  if (row == nullptr) {
    return make_error(ErrorCode::kUnsupported,
                      "device {} ({}) has compute capability {}.{}: 8.0 or newer is needed",
                      ordinal, info.name, info.compute_capability / 10,
                      info.compute_capability % 10);
  }
  info.target = *row;
  if (row->compute_capability() != info.compute_capability) {
    info.target.arch = arch_of(info.compute_capability);
    info.target.name = info.target.arch;
  }
  info.target.sm_count = sm_count;
  if (clock_khz > 0) info.target.clock_ghz = clock_khz * 1e-6;
  info.target.smem_per_sm = smem_per_sm;
  info.target.smem_per_cta = smem_per_cta;
  info.target.l2_bytes = l2_bytes;
  return info;
}

}  // namespace catenary::cuda
