// SPDX-License-Identifier: Apache-2.0
// One entry of a pack as bytes: a sequence of records {u32 tag, u32 bytes, payload, zeros up to a
// multiple of 8}. Knows no file. What it decodes is in bounds: an index names something, a sum does
// not overflow, a launch of it reads no table beyond its end.
#pragma once

#include <string>
#include <vector>

#include "runtime/record/chain_record.h"

namespace catenary {

struct PackEntry {
  std::string canonical;  // canonical_text() of the chain
  // KernelRecord::identity is the SHA-256 of the machine code, and the cubin has no image. No
  // texts.
  ChainRecord record;

  // SHA-256 of the blobs of text; all zeros: there is none.
  KernelKey explain_text;
  KernelKey explain_json;
  std::vector<KernelKey> sources;  // by kernel, over all buckets; may be empty

  // Where it comes from, for people.
  std::vector<KernelKey> kernel_keys;  // by kernel
  std::string made_by;                 // "catenary 0.1.0"
};

std::vector<u8> encode_entry(const PackEntry& entry);

// kCorruptArtifact: the message is only the reason. kUnsupported: the same, of a newer version.
Expected<PackEntry> decode_entry(llvm::ArrayRef<u8> bytes);

// Empty, or why a launch of `entry` would be wrong whatever its arguments.
std::string entry_problem(const PackEntry& entry);

KernelKey sha256(llvm::ArrayRef<u8> bytes);

// What a device must be like to get this entry rather than another one of the same key: the name
// and the sizes of the GPU that it is planned for.
u64 fit_of(const Target& target);

}  // namespace catenary
