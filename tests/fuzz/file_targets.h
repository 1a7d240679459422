// SPDX-License-Identifier: Apache-2.0
// Bytes of files: arrays, cache entries, tuning records. Each is read, or refused with the error of
// a damaged file; what is read survives writing.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "ir/npy.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "runtime/cache/cache_entry.h"
#include "runtime/tuning/tuning_record.h"
#include "tests/fuzz/require.h"

namespace catenary::fuzz {

inline std::string text_of(const std::vector<u8>& bytes) { return {bytes.begin(), bytes.end()}; }
inline llvm::ArrayRef<u8> bytes_of(const std::string& text) {
  return {reinterpret_cast<const u8*>(text.data()), text.size()};
}

inline void expect_code(Error error, ErrorCode code) {
  const ErrorReport report = take_report(std::move(error));
  FUZZ_REQUIRE(report.code == code);
  FUZZ_REQUIRE(!report.message.empty());
}

// The digest at the end of an entry, over all before it.
inline std::string entry_with_digest(std::string bytes) {
  if (bytes.size() < 32) return bytes;
  const auto digest = llvm::SHA256::hash(bytes_of(bytes).drop_back(32));
  std::copy(digest.begin(), digest.end(), bytes.end() - 32);
  return bytes;
}

// The digest at the end of a record's first line, over the other lines.
inline std::string record_with_digest(std::string bytes) {
  const size_t line = bytes.find('\n');
  if (line == std::string::npos || line < 64) return bytes;
  const auto digest = llvm::SHA256::hash(bytes_of(bytes).drop_front(line + 1));
  return bytes.replace(line - 64, 64, llvm::toHex(digest, /*LowerCase=*/true));
}

// In a file of memory.
inline void run_npy(const std::string& bytes) {
  static const int file = ::memfd_create("x.npy", MFD_CLOEXEC);
  FUZZ_REQUIRE(file >= 0);
  FUZZ_REQUIRE(::ftruncate(file, 0) == 0);
  const auto size = static_cast<ssize_t>(bytes.size());
  FUZZ_REQUIRE(::pwrite(file, bytes.data(), bytes.size(), 0) == size);
  Expected<NpyArray> array = read_npy(fmt::format("/proc/self/fd/{}", file));
  if (!array) return expect_code(array.takeError(), ErrorCode::kIo);
  const i64 element = array->wide ? 8 : dtype_bytes(array->type.dtype);
  const i64 data = num_elements(array->type) * element;
  FUZZ_REQUIRE(static_cast<i64>(array->bytes.size()) == data);
}

inline void run_cache_entry(const std::string& bytes) {
  Expected<CacheEntry> entry = parse_entry(bytes_of(bytes));
  if (!entry) return expect_code(entry.takeError(), ErrorCode::kCorruptArtifact);
  FUZZ_REQUIRE(text_of(serialize_entry(*entry)) == bytes);
}

inline void run_tuning_record(const std::string& bytes) {
  Expected<TuningRecord> read = parse_tuning(bytes_of(bytes));
  if (!read) return expect_code(read.takeError(), ErrorCode::kCorruptArtifact);
  const std::string written = text_of(tuning_bytes(*read));
  Expected<TuningRecord> again = parse_tuning(bytes_of(written));
  FUZZ_REQUIRE(!!again);
  FUZZ_REQUIRE(text_of(tuning_bytes(*again)) == written);
  FUZZ_REQUIRE(tuning_summary(*again) == tuning_summary(*read));
}

}  // namespace catenary::fuzz
