// SPDX-License-Identifier: Apache-2.0
// Packs, their entries, lines of a trace. Each is refused with the error of a damaged or newer
// file, or all that is read from it can be bound to a device and written again.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/text/text.h"
#include "runtime/executable.h"
#include "runtime/lookup/nearest.h"
#include "runtime/pack/pack.h"
#include "runtime/pack/pack_writer.h"
#include "tests/fuzz/require.h"
#include "tests/support/sealed_pack.h"

namespace catenary::fuzz {

inline std::vector<u8> pack_bytes(const std::string& text) { return {text.begin(), text.end()}; }

inline void expect_refusal(Error error) {
  const ErrorReport report = take_report(std::move(error));
  FUZZ_REQUIRE(report.code == ErrorCode::kCorruptArtifact ||
               report.code == ErrorCode::kUnsupported);
  FUZZ_REQUIRE(!report.message.empty());
}

// What a launch computes from the record: no index is out of range, no sum overflows.
inline void use(const ChainRecord& record) {
  const i64 hi = record.symbol ? record.symbol->hi : 0;
  for (const TensorRecord& tensor : record.tensors) {
    FUZZ_REQUIRE(byte_span(tensor.type).bytes(hi) <= kMaxTensorBytes);
    FUZZ_REQUIRE(tensor.in_place < static_cast<int>(record.num_inputs));
  }
  for (const BucketRecord& bucket : record.buckets) {
    for (const KernelRecord& kernel : bucket.kernels) {
      FUZZ_REQUIRE(kernel.grid.ctas(bucket.hi) >= 0);
      for (const SlotRecord& slot : kernel.slots) {
        FUZZ_REQUIRE(slot.tensor < static_cast<int>(record.tensors.size()));
      }
      for (const MapBinding& map : kernel.maps) {
        FUZZ_REQUIRE(map.slot < static_cast<int>(kernel.slots.size()));
        (void)bind_map(map).at(0, bucket.hi);
      }
    }
  }
}

// A chain that few packs have, for a device of another architecture.
inline const ChainRequest& other_request() {
  static const ChainRequest request = [] {
    const char* text =
        "chain other[M in 1..64](input x: bf16[M, 128], weight w: bf16[256, 128]) {\n"
        "  h = contract \"mk,nk->mn\"(x, w)\n  return h: bf16\n}\n";
    return make_request(llvm::cantFail(verify(llvm::cantFail(parse(text)))),
                        llvm::cantFail(find_target("b200")), false, {});
  }();
  return request;
}

// Opens, reads everything, looks for a chain, and writes what was read.
inline void run_pack(const std::vector<u8>& bytes) {
  auto pack = Pack::open_memory(bytes);
  if (!pack) return expect_refusal(pack.takeError());
  PackWriter writer;
  for (size_t i = 0; i < (*pack)->size(); ++i) {
    auto record = (*pack)->record(i);
    if (!record) {
      expect_refusal(record.takeError());
      continue;
    }
    use(**record);
    Expected<bool> added = writer.add(**pack, i);
    if (!added) expect_refusal(added.takeError());
  }
  FUZZ_REQUIRE(!nearest_text(other_request(), {*pack}).empty());
  Expected<std::vector<u8>> written = writer.bytes();
  FUZZ_REQUIRE(!!written);
  auto again = Pack::open_memory(*written);
  FUZZ_REQUIRE(!!again);
  FUZZ_REQUIRE((*again)->size() == writer.size());
}

// With digests and a size that are right, if the tables are within the file.
inline std::vector<u8> sealed(std::vector<u8> bytes) {
  if (bytes.size() < pack_format::kHeaderBytes) return bytes;
  const test::PackPlaces at(bytes);
  const auto within = [&](u64 offset, u64 count, u64 each) {
    return offset <= bytes.size() && count <= (bytes.size() - offset) / each;
  };
  if (!within(at.index, at.entries, pack_format::kRowBytes) ||
      !within(at.blobs, at.num_blobs, pack_format::kBlobRowBytes) ||
      !within(at.manifest, at.manifest_bytes, 1) ||
      !within(at.pages, at.num_pages(), pack_format::kPageEntryBytes)) {
    return bytes;
  }
  llvm::support::endian::write64le(&bytes[24], bytes.size());
  test::seal(bytes);
  return bytes;
}

inline void run_pack_entry(const std::vector<u8>& bytes) {
  Expected<PackEntry> entry = decode_entry(bytes);
  if (!entry) return expect_refusal(entry.takeError());
  FUZZ_REQUIRE(entry_problem(*entry).empty());
  use(entry->record);
  const std::vector<u8> written = encode_entry(*entry);
  Expected<PackEntry> again = decode_entry(written);
  FUZZ_REQUIRE(!!again);
  FUZZ_REQUIRE(encode_entry(*again) == written);
}

inline void run_trace_line(const std::string& line) {
  Expected<ChainRequest> read = parse_request_line(line);
  if (!read) {
    FUZZ_REQUIRE(!take_report(read.takeError()).message.empty());
    return;
  }
  const std::string written = request_line(*read);
  Expected<ChainRequest> again = parse_request_line(written);
  FUZZ_REQUIRE(!!again);
  FUZZ_REQUIRE(request_line(*again) == written);
}

}  // namespace catenary::fuzz
