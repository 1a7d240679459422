// SPDX-License-Identifier: Apache-2.0
// What the library and its helper process say to each other, as bytes: first the helper who it is,
// then, any number of times, the library a job and the helper its result. A message is its length
// (8 bytes, little endian) and a list of numbers and texts with their lengths. Both programs are of
// one build: there is no older form to read.
#pragma once

#include <string>
#include <vector>

#include "compiler/compile/kernel_compiler.h"
#include "compiler/compile/nvrtc.h"

namespace catenary {

// Exit statuses of a helper that ends without an answer.
inline constexpr int kHelperIdle = 40;        // no job came for a while
inline constexpr int kHelperNoMemory = 41;    // an allocation failed, within NVRTC or elsewhere
inline constexpr int kHelperNotStarted = 42;  // it was not started by the library

// Who the helper is, or why it cannot compile.
struct HelperGreeting {
  std::string templates;  // templates_digest()
  NvrtcFacts nvrtc;
};

struct HelperJob {
  CompileJob job;
  int seconds = 0;  // after which the helper ends itself
};

std::string greeting_bytes(const HelperGreeting& greeting);
std::string job_bytes(const HelperJob& job);
std::string result_bytes(const CompileResult& result);
std::string error_bytes(const ErrorReport& error);

// kInternal: the bytes are no such message. Other errors come from the helper.
Expected<HelperGreeting> parse_greeting(llvm::StringRef bytes);
Expected<HelperJob> parse_job(llvm::StringRef bytes);
Expected<CompileResult> parse_result(llvm::StringRef bytes);

// Sends one message. False: the other side has ended.
bool send_message(int socket, llvm::StringRef bytes);

enum class Received : u8 { kMessage, kEnd, kTimeout };

// Receives one message within `milliseconds` (-1: no limit). kEnd: the other side has ended, or
// sent a length that no message has.
Received receive_message(int socket, i64 milliseconds, std::string& bytes);

}  // namespace catenary
