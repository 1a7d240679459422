// SPDX-License-Identifier: Apache-2.0
// What the files of the C ABI share: handles, and how an error crosses the ABI. Every entry is a
// body inside guarded(): no exception leaves the library, and the host's locale and floating-point
// environment do not enter it.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "catenary/catenary.h"
#include "ir/default_numerics.h"
#include "ir/out_of_memory.h"
#include "runtime/engine.h"
#include "runtime/pack/pack_writer.h"

// Every builder call checks what it adds; `info` has the facts about the values so far.
struct ctn_chain {
  catenary::Chain chain;
  std::vector<catenary::ValueInfo> info;
  // Left out of the chain if nothing uses them: constants without a name of the caller, and values
  // without one that a refused call was to use.
  std::vector<catenary::ValueId> spare = {};
};

struct ctn_engine {
  catenary::Engine engine;
};

struct ctn_compiled {
  std::shared_ptr<const catenary::ChainRecord> record;
};

struct ctn_executable {
  std::shared_ptr<const catenary::Executable> executable;
};

struct ctn_pack {
  std::shared_ptr<const catenary::Pack> pack;
};

struct ctn_pack_writer {
  catenary::PackWriter writer;
};

namespace catenary::c_api {

// Keeps the error for ctn_last_error() and returns its status. With no memory to keep it in, the
// status and the message are those of kOutOfMemory, which need none.
ctn_status fail(Error error) noexcept;
ctn_status fail_text(ErrorCode code, const char* message) noexcept;
ctn_status fail_out_of_memory() noexcept;

// Runs `body`, a callable that returns Error, and turns its error or exception into a status. For a
// launch, which computes and formats no number; every other entry uses guarded().
template <typename Body>
ctn_status guarded_launch(const Body& body) noexcept {
  try {
    Error error = body();
    if (!error) return CTN_OK;
    return fail(std::move(error));
  } catch (const std::bad_alloc&) {
    return fail_out_of_memory();
  } catch (const std::exception& exception) {
    return fail_text(ErrorCode::kInternal, exception.what());
  } catch (...) {
    return fail_text(ErrorCode::kInternal, "unknown exception");
  }
}

// The same with C's locale and floating-point environment.
template <typename Body>
ctn_status guarded(const Body& body) noexcept {
  throw_when_out_of_memory();
  const DefaultNumerics numerics;
  return guarded_launch(body);
}

// For functions that return no status: errors are dropped, and the last error does not change.
template <typename Body>
void quietly(const Body& body) noexcept {
  try {
    llvm::consumeError(body());
  } catch (...) {
  }
}

// kInvalidArgument, naming the argument, if `pointer` is null.
Error require(const void* pointer, const char* argument);

template <typename... Rest>
Error require(const void* pointer, const char* argument, Rest... rest) {
  if (Error error = require(pointer, argument)) return error;
  return require(rest...);
}

// kInvalidArgument unless `format` is a value of ctn_format.
Error check_format(ctn_format format);

// `text`, or "" for null.
inline std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

// A copy of `text`, which the caller frees by ctn_string_free. Throws std::bad_alloc.
char* copy_text(const std::string& text);

inline constexpr size_t kMaxStructBytes = 1024;

Error wrong_struct_size(const char* argument, size_t got, size_t want);

// Reads a struct of a caller that was built against this, a newer or an older header. `first`: its
// size in the first header that had it; later fields are at its end, and stay as `out` has them.
// Bytes that this library does not know must be zero: they are options that it cannot apply. A size
// above kMaxStructBytes is no size that a header has: the caller did not set it, and the struct is
// not read.
template <typename Struct>
Error read_struct(const Struct* given, const char* argument, Struct& out,
                  size_t first = sizeof(Struct)) {
  if (Error error = require(given, argument)) return error;
  const size_t size = given->struct_size;
  if (size < first || size > kMaxStructBytes)
    return wrong_struct_size(argument, size, sizeof(Struct));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) return wrong_struct_size(argument, size, sizeof(Struct));
  }
  std::memcpy(&out, given, std::min(size, sizeof(Struct)));
  return Error::success();
}

// The chain with its parameters first, as verify() and print() need it. Keeps the order otherwise.
// Without spare values: `x + 1.0` adds a constant before its sum, which may be refused.
Chain ordered(const ctn_chain& handle);

}  // namespace catenary::c_api
