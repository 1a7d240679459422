// SPDX-License-Identifier: Apache-2.0
// One device under measurement: its driver, its primary context (current on this thread while the
// session exists), and the one stream that all work is enqueued on.
#pragma once

#include <memory>
#include <string>

#include "runtime/driver/api.h"

namespace catenary::tuner {

class Session {
 public:
  // kDriverMissing without a driver or a device, kInvalidArgument for a device that does not exist.
  static Expected<std::unique_ptr<Session>> open(int ordinal);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  const cuda::Driver& driver() const { return driver_; }
  const cuda::Api& api() const { return driver_.api(); }
  cuda::Stream stream() const { return stream_; }
  const cuda::DeviceInfo& info() const { return info_; }

  // The driver's result as an Error; `what` names the step.
  Error check(cuda::Result result, const char* what) const;

  // Waits for the stream, or for the whole context, which includes copies from pageable memory.
  Error synchronize() const;
  Error synchronize_context() const;

 private:
  Session(const cuda::Driver& driver, cuda::ScopedContext context, cuda::DeviceInfo info)
      : driver_(driver), context_(std::move(context)), info_(std::move(info)) {}
  const cuda::Driver& driver_;
  cuda::ScopedContext context_;
  cuda::DeviceInfo info_;
  cuda::Stream stream_ = nullptr;
};

// Version of the installed display driver ("580.159.03"), from the kernel module; empty if unknown.
std::string display_driver_version();

// Now, in UTC: "2026-11-21T01:28:04Z".
std::string utc_date();

}  // namespace catenary::tuner
