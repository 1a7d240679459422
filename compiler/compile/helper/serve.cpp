// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile/helper/serve.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>

#include "compiler/compile/helper/message.h"
#include "compiler/compile/templates.h"

namespace catenary {
namespace {

// An idle helper has NVRTC in memory. Between the kernels of one program the pauses are shorter.
constexpr int kIdleMs = 5000;
constexpr int kLateSeconds = 5;  // after the library's own limit

// Ends the process when the library has closed its side or has ended.
void watch(int socket) {
  for (;;) {
    pollfd gone{socket, POLLRDHUP, 0};
    if (::poll(&gone, 1, -1) > 0) ::_exit(0);
  }
}

std::string compiled_bytes(const Nvrtc& nvrtc, const CompileJob& job) {
  Expected<CompileResult> result = nvrtc.compile(job);
  return result ? result_bytes(*result) : error_bytes(take_report(result.takeError()));
}

// Answers jobs until there are no more.
int answer_jobs(int socket, const Nvrtc& nvrtc) {
  for (std::string bytes;;) {
    switch (receive_message(socket, kIdleMs, bytes)) {
      case Received::kEnd:
        return 0;
      case Received::kTimeout:
        return kHelperIdle;
      case Received::kMessage:
        break;
    }
    Expected<HelperJob> job = parse_job(bytes);
    if (!job) {
      send_message(socket, error_bytes(take_report(job.takeError())));
      return 0;
    }
    // The library ends a helper that is late. Where it cannot, the signal does.
    ::alarm(static_cast<unsigned>(job->seconds + kLateSeconds));
    const std::string answer = compiled_bytes(nvrtc, job->job);
    ::alarm(0);
    if (!send_message(socket, answer)) return 0;
  }
}

}  // namespace

int serve(int socket) {
  // With less, a thread may have no stack.
  if (Error error = check_nvrtc_memory()) {
    send_message(socket, error_bytes(take_report(std::move(error))));
    return 0;
  }
  try {
    std::thread(watch, socket).detach();
  } catch (const std::system_error&) {
    return kHelperNoMemory;
  }
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) {
    send_message(socket, error_bytes(take_report(nvrtc.takeError())));
    return 0;
  }
  const HelperGreeting greeting{std::string(templates_digest()), (*nvrtc)->facts()};
  if (!send_message(socket, greeting_bytes(greeting))) return 0;
  return answer_jobs(socket, **nvrtc);
}

}  // namespace catenary
