// SPDX-License-Identifier: Apache-2.0
// The bytes of one cache entry: cubin, or why there is none, key and key record, then the SHA-256
// of all bytes before it. It does no I/O.
//
//   0 magic "CTNCUBIN"    8 u32 version       12 u32 registers     16 u32 spill bytes
//  20 u32 stack bytes    24 u32 static smem   28 u32 record bytes  32 u32 symbol bytes
//  36 u32 arch bytes     40 u32 compiler bytes                     44 u64 image bytes
//  52 u64 total bytes    60 key (32)          92 record, symbol, arch, compiler, image, SHA-256
//  (32)
// All integers are little-endian. With the magic "CTNREJCT" the compiler's result is not used: the
// image is the message of the error, and the numbers are 0.
#pragma once

#include <string>
#include <vector>

#include "compiler/emit/source.h"
#include "ir/error.h"
#include "llvm/ADT/ArrayRef.h"

namespace catenary {

inline constexpr size_t kMaxEntryBytes = 64 << 20;

struct CacheEntry {
  KernelKey key;
  std::string record;
  Cubin cubin;
  std::string rejection = {};  // the message of kKernelRejected; then the cubin has no image
};

std::vector<u8> serialize_entry(const CacheEntry& entry);

// Accepts exactly what serialize_entry() returns. kCorruptArtifact: the message is only the reason
// ("its digest differs").
Expected<CacheEntry> parse_entry(llvm::ArrayRef<u8> bytes);

}  // namespace catenary
