// SPDX-License-Identifier: Apache-2.0
// A pack that is open: chains as machine code, found by key. Reading one needs no driver, no
// compiler and no planner. Every byte is checked by its digest before it is used (format.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/pack/entry.h"
#include "runtime/pack/format.h"
#include "runtime/pack/pack_bytes.h"
#include "runtime/pack/paged_table.h"

namespace catenary {

struct PackOptions {
  // SHA-256 of the whole file as 64 hex digits; empty: any file. Checking it reads the whole file.
  std::string expected_sha256;
  bool verify_all = false;  // checks every entry and every blob when the pack is opened
  u32 library_launch_abi = pack_format::kLaunchAbi;  // tests open packs as a later library would
};

struct PackHeader {
  u32 launch_abi = 0;
  u64 bytes = 0;
  u64 entries = 0;
  u64 blobs = 0;
};

// One row of the index.
struct PackRow {
  KernelKey key;
  KernelKey digest;   // SHA-256 of the entry
  u64 fit = 0;        // fit_of() its target
  u64 structure = 0;  // of its chain
  u64 offset = 0;
  u32 bytes = 0;
};

// One row of the blob table.
struct PackBlob {
  KernelKey digest;
  u64 offset = 0;
  u64 bytes = 0;
  u32 codec = 0;
};

// Thread-safe. The texts of a record that it returned keep it open.
class Pack : public std::enable_shared_from_this<Pack> {
 public:
  // kIo: no such file, or it cannot be read. kCorruptArtifact: no pack, or a damaged one; or not
  // the one with the expected digest. kUnsupported: of a newer version. Each names the pack.
  static Expected<std::shared_ptr<const Pack>> open(const std::string& path,
                                                    const PackOptions& options = {});
  // The memory outlives the pack; any alignment.
  static Expected<std::shared_ptr<const Pack>> open_memory(llvm::ArrayRef<u8> bytes,
                                                           const PackOptions& options = {});

  // The same for bytes that are anywhere; `name` is for messages.
  static Expected<std::shared_ptr<const Pack>> open_bytes(std::string name,
                                                          std::unique_ptr<PackBytes> bytes,
                                                          const PackOptions& options = {});

  const std::string& name() const { return name_; }  // the path, or "in memory"
  const PackHeader& header() const { return header_; }
  size_t size() const { return header_.entries; }

  // Errors of all that follow: kCorruptArtifact, kUnsupported, kIo; each names the pack.
  Expected<std::string> manifest() const;     // JSON
  Expected<PackRow> row(size_t index) const;  // index < size()
  // The rows of `key`: [first, last).
  Expected<std::pair<size_t, size_t>> rows_of(const KernelKey& key) const;
  // The first rows of chains with this structure, at most `most` of them. Reads the whole index.
  Expected<std::vector<size_t>> rows_of_structure(u64 structure, size_t most) const;

  // The entry of a row, checked against its row, without machine code.
  Expected<PackEntry> entry(size_t index) const;
  // The bytes of the same, checked against the row's digest only: for copying.
  Expected<std::vector<u8>> entry_bytes(size_t index) const;
  // The same with its machine code, ready to be loaded.
  Expected<std::shared_ptr<const ChainRecord>> record(size_t index) const;
  Expected<std::shared_ptr<const ChainRecord>> record(PackEntry entry) const;

  Expected<std::vector<u8>> blob(const KernelKey& digest) const;
  Expected<PackBlob> find_blob(const KernelKey& digest) const;

  // Checks every entry and every blob. `advance`: called after each; may be null.
  Error verify(const std::function<void()>& advance = nullptr) const;
  // SHA-256 of the whole file.
  Expected<KernelKey> file_digest() const;

 private:
  Pack() = default;
  Error read_header(u32 library_launch_abi);
  Error read_pages();
  Error check_order(size_t index, const PackRow& before, const PackRow& here) const;
  Error named(Error error) const;
  Expected<PackBlob> blob_row(size_t index) const;
  Expected<std::vector<u8>> section(u64 offset, u64 bytes, llvm::ArrayRef<u8> digest,
                                    const char* what) const;
  Error corrupt(std::string_view reason) const;

  std::string name_;
  std::unique_ptr<PackBytes> bytes_;
  std::vector<u8> header_bytes_;
  std::optional<PagedTable> index_;  // set once the pack is open
  std::optional<PagedTable> blobs_;
  PackHeader header_;
};

}  // namespace catenary
