// SPDX-License-Identifier: Apache-2.0
// The layout of a pack, byte by byte: what the reader and the writer share. All integers are
// little-endian, and every offset counts from the file's first byte.
//
//     0  header, kHeaderBytes
//        0 magic "CTNPACK1"     8 u32 byte order  12 u32 format     16 u32 launch ABI
//       20 u32 features         24 u64 file bytes 32 u64 index at   40 u64 entries
//       48 u64 blob table at    56 u64 blobs      64 u64 manifest at
//       72 u64 manifest bytes   80 u64 page table at  88 zeros   112 SHA-256 of the page table
//      144 of the manifest     176 zeros         4064 SHA-256 of the header before it
//  4096  page table: for each kPageRows rows of the index, then of the blob table
//        0 key of the first row (32)  32 SHA-256 of the rows (32)
//        index: rows of kRowBytes, strictly ascending by (key, fit)
//        0 key (32)  32 SHA-256 of the entry (32)  64 fit  72 structure  80 u64 offset
//       88 u32 bytes 92 u32 zero
//        blob table: rows of kBlobRowBytes, strictly ascending by digest
//        0 SHA-256 of the blob (32)  32 u64 offset  40 u64 bytes  48 u32 codec  52 u32 zero
//        manifest: JSON, for people and tools
//        entries, each a sequence of records (entry.h); aligned to 8
//        blobs: text aligned to 8, then machine code aligned to 4096
//
// The header has the digests of page table and manifest; the page table has those of the pages of
// index and blob table; the index has those of the entries; an entry names its blobs by their
// digests. So every byte that is used is checked before its use, and nothing but what is used is
// read: opening a pack reads the header and the page table, a search reads one page.
#pragma once

#include <string_view>

#include "shared/int.h"

namespace catenary::pack_format {

inline constexpr std::string_view kMagic = "CTNPACK1";
inline constexpr u32 kByteOrder = 0x01020304;
inline constexpr u32 kFormat = 1;

// What a launch of an entry relies on: the layout of Params, the rules of tensor maps, the PDL
// contract, the meaning of the fields of an entry. It changes with these only, and this library
// loads packs of the two versions before.
inline constexpr u32 kLaunchAbi = 1;
constexpr u32 oldest_launch_abi(u32 own) { return own > 2 ? own - 2 : 1; }
inline constexpr u32 kOldestLaunchAbi = oldest_launch_abi(kLaunchAbi);

inline constexpr u64 kHeaderBytes = 4096;
inline constexpr u64 kIndexAt = 32;  // of the header, as the places that follow
inline constexpr u64 kBlobTableAt = 48;
inline constexpr u64 kManifestAt = 64;
inline constexpr u64 kPagesAt = 80;
inline constexpr u64 kPagesDigestAt = 112;
inline constexpr u64 kManifestDigestAt = 144;
inline constexpr u64 kHeaderDigestAt = kHeaderBytes - 32;
inline constexpr u64 kDigestBytes = 32;
inline constexpr u64 kRowBytes = 96;
inline constexpr u64 kBlobRowBytes = 56;
inline constexpr u64 kPageRows = 64;
inline constexpr u64 kPageEntryBytes = 64;
constexpr u64 num_pages(u64 rows) { return (rows + kPageRows - 1) / kPageRows; }
inline constexpr u64 kCodeAlign = 4096;

inline constexpr u64 kMaxEntries = u64{1} << 24;
inline constexpr u64 kMaxBlobs = u64{1} << 26;
inline constexpr u64 kMaxEntryBytes = 16 << 20;
inline constexpr u64 kMaxBlobBytes = 256 << 20;
inline constexpr u64 kMaxManifestBytes = 16 << 20;

inline constexpr u32 kCodecNone = 0;

// Records of an entry. A reader skips one that it does not know, unless it is critical.
enum class Tag : u32 {
  kIdentity = 1,
  kChain = 2,
  kTensors = 3,
  kBuckets = 4,
  kTarget = 5,
  kTexts = 6,
  kProvenance = 7,
};
inline constexpr u32 kCritical = 0x80000000;  // a bit of the tag

}  // namespace catenary::pack_format
