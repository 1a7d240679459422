// SPDX-License-Identifier: Apache-2.0
// What the files of the C ABI share: the handles and the one way an error crosses it. Nothing that
// the library throws or returns gets past guarded().
#pragma once

#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "catenary/catenary.h"
#include "runtime/engine.h"

struct ctn_chain {
  catenary::Chain chain;
};

struct ctn_engine {
  catenary::Engine engine;
};

struct ctn_compiled {
  std::shared_ptr<const catenary::CompiledChain> compiled;
};

struct ctn_executable {
  std::shared_ptr<const catenary::Executable> executable;
};

namespace catenary::c_api {

// Keeps the error for ctn_last_error() and returns its status.
ctn_status fail(Error error) noexcept;
ctn_status fail_text(ErrorCode code, const char* message) noexcept;

// Runs `body`, a callable that returns Error, and turns whatever comes out into a status.
template <typename Body>
ctn_status guarded(const Body& body) noexcept {
  try {
    Error error = body();
    if (!error) return CTN_OK;
    return fail(std::move(error));
  } catch (const std::bad_alloc&) {
    return fail_text(ErrorCode::kOutOfMemory, "out of host memory: free some and try again");
  } catch (const std::exception& exception) {
    return fail_text(ErrorCode::kInternal, exception.what());
  } catch (...) {
    return fail_text(ErrorCode::kInternal, "unknown exception");
  }
}

// For functions that give no status: nobody is told, and the last error stays what it was.
template <typename Body>
void quietly(const Body& body) noexcept {
  try {
    llvm::consumeError(body());
  } catch (...) {
  }
}

// kInvalidArgument naming the argument when `pointer` is null.
Error require(const void* pointer, const char* argument);

template <typename... Rest>
Error require(const void* pointer, const char* argument, Rest... rest) {
  if (Error error = require(pointer, argument)) return error;
  return require(rest...);
}

// `text`, or "" for null.
inline std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

// A copy of `text` for the caller to free by ctn_string_free; null when memory is out.
char* copy_text(const std::string& text);

inline constexpr size_t kMaxStructBytes = 1024;

Error wrong_struct_size(const char* argument, size_t got, size_t want);

// Reads a struct whose caller may be built against an older or newer header. Bytes that this
// library does not know must be zero: they would be options it cannot honour. A size beyond any
// header's was never set by the caller, and is not read up to.
template <typename Struct>
Error read_struct(const Struct* given, const char* argument, Struct& out) {
  if (Error error = require(given, argument)) return error;
  const size_t size = given->struct_size;
  if (size < sizeof(Struct) || size > kMaxStructBytes)
    return wrong_struct_size(argument, size, sizeof(Struct));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) return wrong_struct_size(argument, size, sizeof(Struct));
  }
  std::memcpy(&out, given, sizeof(Struct));
  return Error::success();
}

// The chain as verify() and print() want it: parameters first, everything else in order.
Chain ordered(const Chain& chain);

}  // namespace catenary::c_api
