// SPDX-License-Identifier: Apache-2.0
// One device under measurement: its driver, primary context (current on this thread while the
// session lives) and one stream that everything is enqueued on.
#pragma once

#include <memory>
#include <string>

#include "runtime/driver/api.h"

namespace catenary::bench {

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

  // The driver's result as an Error; `what` is the step.
  Error check(cuda::Result result, const char* what) const;

  // Waits for the stream, and for the whole context (copies from pageable memory end there).
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

}  // namespace catenary::bench
