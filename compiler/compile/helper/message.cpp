// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile/helper/message.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <limits>

#include "llvm/Support/Endian.h"

namespace catenary {
namespace {

namespace endian = llvm::support::endian;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kNumberBytes = 8;
constexpr u64 kMaxBytes = u64{1} << 30;

class Writer {
 public:
  explicit Writer(bool good) { number(good ? 1 : 0); }
  Writer& number(i64 value) {
    char bytes[kNumberBytes];
    endian::write64le(bytes, static_cast<u64>(value));
    text_.append(bytes, sizeof bytes);
    return *this;
  }
  Writer& text(llvm::StringRef value) {
    number(static_cast<i64>(value.size()));
    text_.append(value.data(), value.size());
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// After the first thing that is not there, everything is 0 or empty and complete() is false.
class Reader {
 public:
  explicit Reader(llvm::StringRef bytes) : rest_(bytes) {}
  i64 number() {
    if (rest_.size() < kNumberBytes) return fail();
    const u64 value = endian::read64le(rest_.data());
    rest_ = rest_.drop_front(kNumberBytes);
    return static_cast<i64>(value);
  }
  int small() { return static_cast<int>(number()); }
  llvm::StringRef view() {
    const u64 size = static_cast<u64>(number());
    if (size > rest_.size()) return fail(), llvm::StringRef();
    const llvm::StringRef value = rest_.take_front(size);
    rest_ = rest_.drop_front(size);
    return value;
  }
  std::string text() { return view().str(); }
  bool complete() const { return sound_ && rest_.empty(); }

 private:
  i64 fail() {
    sound_ = false;
    rest_ = {};
    return 0;
  }
  llvm::StringRef rest_;
  bool sound_ = true;
};

Error no_message() {
  return make_error(ErrorCode::kInternal,
                    "the helper process sent bytes that are not a message of this build");
}

// The error that a message is, or success where it has something else.
Error sent_error(Reader& reader) {
  if (reader.number() == 1) return Error::success();
  const auto code = static_cast<ErrorCode>(reader.small());
  std::string message = reader.text();
  const Location at{reader.small(), reader.small()};
  if (!reader.complete() || code == ErrorCode::kOk) return no_message();
  return make_error_text(code, std::move(message), at);
}

// Milliseconds until `end`, for poll(2); -1: no end.
int left_until(const steady_clock::time_point* end) {
  if (end == nullptr) return -1;
  const i64 left = std::chrono::duration_cast<milliseconds>(*end - steady_clock::now()).count() + 1;
  return static_cast<int>(std::clamp<i64>(left, 0, std::numeric_limits<int>::max()));
}

Received receive_all(int socket, const steady_clock::time_point* end, char* bytes, size_t count) {
  while (count > 0) {
    pollfd ready{socket, POLLIN, 0};
    const int events = ::poll(&ready, 1, left_until(end));
    if (events == 0) return Received::kTimeout;
    if (events < 0 && errno != EINTR) return Received::kEnd;
    const ssize_t got = ::recv(socket, bytes, count, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return Received::kEnd;
    bytes += got;
    count -= static_cast<size_t>(got);
  }
  return Received::kMessage;
}

}  // namespace

std::string greeting_bytes(const HelperGreeting& greeting) {
  Writer writer(true);
  const NvrtcFacts& nvrtc = greeting.nvrtc;
  writer.text(greeting.templates).text(nvrtc.path).text(nvrtc.compiler_id);
  writer.number(nvrtc.major).number(nvrtc.minor).number(static_cast<i64>(nvrtc.archs.size()));
  for (const int arch : nvrtc.archs) writer.number(arch);
  return writer.take();
}

Expected<HelperGreeting> parse_greeting(llvm::StringRef bytes) {
  Reader reader(bytes);
  if (Error error = sent_error(reader)) return error;
  HelperGreeting greeting;
  NvrtcFacts& nvrtc = greeting.nvrtc;
  greeting.templates = reader.text();
  nvrtc.path = reader.text();
  nvrtc.compiler_id = reader.text();
  nvrtc.major = reader.small();
  nvrtc.minor = reader.small();
  const i64 count = reader.number();
  for (i64 i = 0; i < count && i < static_cast<i64>(bytes.size()); ++i) {
    nvrtc.archs.push_back(reader.small());
  }
  if (!reader.complete()) return no_message();
  return greeting;
}

std::string job_bytes(const HelperJob& job) {
  const CompileOptions& options = job.job.options;
  Writer writer(true);
  writer.text(job.job.source.symbol).text(job.job.source.body).text(job.job.arch);
  writer.number(options.line_info).number(options.allow_spills).number(options.want_ptx);
  return writer.number(job.seconds).take();
}

Expected<HelperJob> parse_job(llvm::StringRef bytes) {
  Reader reader(bytes);
  if (Error error = sent_error(reader)) return error;
  HelperJob job;
  job.job.source.symbol = reader.text();
  job.job.source.body = reader.text();
  job.job.arch = reader.text();
  job.job.options.line_info = reader.number() != 0;
  job.job.options.allow_spills = reader.number() != 0;
  job.job.options.want_ptx = reader.number() != 0;
  job.seconds = reader.small();
  if (!reader.complete()) return no_message();
  return job;
}

std::string result_bytes(const CompileResult& result) {
  const Cubin& cubin = result.cubin;
  const KernelResources& used = cubin.resources;
  Writer writer(true);
  writer.text(cubin.symbol).text(cubin.arch).text(cubin.compiler_id);
  writer.number(used.registers).number(used.spill_bytes).number(used.stack_bytes);
  writer.number(used.static_smem_bytes);
  writer.text({reinterpret_cast<const char*>(cubin.image.data()), cubin.image.size()});
  writer.text(result.ptx).text(result.log);
  return writer.number(std::bit_cast<i64>(result.milliseconds)).take();
}

Expected<CompileResult> parse_result(llvm::StringRef bytes) {
  Reader reader(bytes);
  if (Error error = sent_error(reader)) return error;
  CompileResult result;
  Cubin& cubin = result.cubin;
  cubin.symbol = reader.text();
  cubin.arch = reader.text();
  cubin.compiler_id = reader.text();
  cubin.resources.registers = reader.small();
  cubin.resources.spill_bytes = reader.small();
  cubin.resources.stack_bytes = reader.small();
  cubin.resources.static_smem_bytes = reader.small();
  const llvm::StringRef image = reader.view();
  cubin.image.assign(image.bytes_begin(), image.bytes_end());
  result.ptx = reader.text();
  result.log = reader.text();
  result.milliseconds = std::bit_cast<double>(reader.number());
  if (!reader.complete()) return no_message();
  return result;
}

std::string error_bytes(const ErrorReport& error) {
  Writer writer(false);
  writer.number(static_cast<i64>(error.code)).text(error.message);
  return writer.number(error.at.line).number(error.at.column).take();
}

bool send_message(int socket, llvm::StringRef bytes) {
  std::string framed(kNumberBytes, '\0');
  endian::write64le(framed.data(), bytes.size());
  framed.append(bytes.data(), bytes.size());
  for (llvm::StringRef rest = framed; !rest.empty();) {
    // No SIGPIPE: the signals of the process are the host's.
    const ssize_t sent = ::send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    rest = rest.drop_front(static_cast<size_t>(sent));
  }
  return true;
}

Received receive_message(int socket, i64 limit, std::string& bytes) {
  const steady_clock::time_point at = steady_clock::now() + milliseconds(std::max<i64>(limit, 0));
  const steady_clock::time_point* end = limit < 0 ? nullptr : &at;
  char length[kNumberBytes];
  Received received = receive_all(socket, end, length, sizeof length);
  if (received != Received::kMessage) return received;
  const u64 size = endian::read64le(length);
  if (size > kMaxBytes) return Received::kEnd;
  bytes.resize(size);
  return receive_all(socket, end, bytes.data(), size);
}

}  // namespace catenary
