// SPDX-License-Identifier: Apache-2.0
#include "tuner/session.h"

#include <ctime>
#include <fstream>

#include "runtime/driver/simulator_advice.h"

namespace catenary::tuner {

Expected<std::unique_ptr<Session>> Session::open(int ordinal) {
  Expected<cuda::DeviceInfo> info = cuda::probe(ordinal);
  if (!info) return cuda::without_simulator_advice(info.takeError());
  Expected<cuda::ScopedContext> context = cuda::ScopedContext::primary(ordinal);
  if (!context) return context.takeError();
  Expected<const cuda::Driver*> driver = cuda::Driver::get();
  if (!driver) return driver.takeError();
  std::unique_ptr<Session> session(new Session(**driver, std::move(*context), std::move(*info)));
  const cuda::Result result =
      session->api().stream_create(&session->stream_, cuda::kStreamNonBlocking);
  if (Error error = session->check(result, "creating the stream")) return error;
  return session;
}

Session::~Session() {
  if (stream_ != nullptr) api().stream_destroy(stream_);
}

Error Session::check(cuda::Result result, const char* what) const {
  if (result == cuda::kSuccess) return Error::success();
  return driver_.error(result, what);
}

Error Session::synchronize() const {
  return check(api().stream_synchronize(stream_), "waiting for the stream");
}

Error Session::synchronize_context() const {
  return check(api().ctx_synchronize(), "waiting for the device");
}

std::string display_driver_version() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  if (file) file >> version;
  if (!version.empty()) return version;
  // "NVRM version: NVIDIA UNIX ... Kernel Module  580.159.03  Release Build ...": the first word
  // that starts with a digit and has a dot.
  std::ifstream proc("/proc/driver/nvidia/version");
  std::string word;
  while (proc >> word) {
    if (word[0] >= '0' && word[0] <= '9' && word.find('.') != std::string::npos) return word;
  }
  return "";
}

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace catenary::tuner
