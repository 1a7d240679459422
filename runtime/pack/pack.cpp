// SPDX-License-Identifier: Apache-2.0
#include "runtime/pack/pack.h"

#include <algorithm>
#include <cstring>

#include "compiler/compile/host_compiler.h"
#include "ir/json.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "runtime/pack/byte_stream.h"
#include "runtime/pack/format.h"
#include "runtime/pack/machine_code.h"
#include "runtime/record/canonical.h"

namespace catenary {
namespace {

namespace endian = llvm::support::endian;
using namespace pack_format;  // NOLINT: the names of the layout

// Texts of a chain that came from a pack: read when they are asked for.
class PackTexts final : public ChainTexts {
 public:
  PackTexts(std::shared_ptr<const Pack> pack, const PackEntry& entry)
      : pack_(std::move(pack)),
        chain_(entry.record.name),
        text_(entry.explain_text),
        json_(entry.explain_json),
        sources_(entry.sources) {}

  Expected<std::string> explain(bool json) const override {
    return read(json ? json_ : text_, "explanation", "");
  }
  Expected<std::string> source(size_t index) const override {
    return read(index < sources_.size() ? sources_[index] : KernelKey{}, "source",
                ": build the pack with its sources");
  }

 private:
  Expected<std::string> read(const KernelKey& digest, const char* what, const char* fix) const {
    if (digest == KernelKey{}) {
      return make_error(ErrorCode::kUnsupported,
                        "chain '{}' is from the pack {}, which has no {}{}", chain_, pack_->name(),
                        what, fix);
    }
    Expected<std::vector<u8>> bytes = pack_->blob(digest);
    if (!bytes) return bytes.takeError();
    return std::string(bytes->begin(), bytes->end());
  }

  std::shared_ptr<const Pack> pack_;
  std::string chain_;
  KernelKey text_;
  KernelKey json_;
  std::vector<KernelKey> sources_;
};

KernelKey key_at(const u8* at) {
  KernelKey key;
  std::copy_n(at, key.bytes.size(), key.bytes.begin());
  return key;
}

// Whether [offset, offset + count * each) is after the header and within `total`.
bool fits(u64 offset, u64 count, u64 each, u64 total) {
  return offset >= kHeaderBytes && offset <= total && count <= (total - offset) / each;
}

}  // namespace

Error Pack::corrupt(std::string_view reason) const {
  return make_error(ErrorCode::kCorruptArtifact,
                    "the pack {} cannot be used: {}; copy it again, or build it again", name_,
                    reason);
}

Expected<std::shared_ptr<const Pack>> Pack::open(const std::string& path,
                                                 const PackOptions& options) {
  Expected<std::unique_ptr<PackBytes>> bytes = open_pack_file(path);
  if (!bytes) return bytes.takeError();
  return open_bytes(path, std::move(*bytes), options);
}

Expected<std::shared_ptr<const Pack>> Pack::open_memory(llvm::ArrayRef<u8> bytes,
                                                        const PackOptions& options) {
  return open_bytes("in memory", pack_memory(bytes), options);
}

Expected<std::shared_ptr<const Pack>> Pack::open_bytes(std::string name,
                                                       std::unique_ptr<PackBytes> bytes,
                                                       const PackOptions& options) {
  std::shared_ptr<Pack> pack(new Pack);
  pack->name_ = std::move(name);
  pack->bytes_ = std::move(bytes);
  if (Error error = pack->read_header(options.library_launch_abi)) return error;
  if (Error error = pack->read_pages()) return error;
  if (!options.expected_sha256.empty()) {
    Expected<KernelKey> digest = pack->file_digest();
    if (!digest) return digest.takeError();
    if (digest->hex() != llvm::StringRef(options.expected_sha256).lower()) {
      return make_error(ErrorCode::kCorruptArtifact,
                        "the pack {} cannot be used: its SHA-256 is {}, and {} is expected; take "
                        "the pack that is expected, or expect this one",
                        pack->name_, digest->hex(), message_text(options.expected_sha256, 80));
    }
  }
  if (options.verify_all) {
    if (Error error = pack->verify()) return error;
  }
  return std::shared_ptr<const Pack>(std::move(pack));
}

Error Pack::read_header(u32 library_launch_abi) {
  const u64 size = bytes_->size();
  header_bytes_.resize(std::min(size, kHeaderBytes));
  if (Error error = bytes_->read(0, header_bytes_)) return error;
  const u8* header = header_bytes_.data();
  if (header_bytes_.size() < kMagic.size() ||
      std::memcmp(header, kMagic.data(), kMagic.size()) != 0) {
    return corrupt("it is no pack, which starts with CTNPACK1");
  }
  if (size < kHeaderBytes) return corrupt(fmt::format("it is truncated at {} bytes", size));
  const u32 order = endian::read32le(header + 8);
  if (order == llvm::ByteSwap_32(kByteOrder)) {
    return corrupt("it is for a machine with another byte order");
  }
  if (const u32 format = endian::read32le(header + 12); order == kByteOrder && format > kFormat) {
    return make_error(ErrorCode::kUnsupported,
                      "the pack {} has format {}, and this library reads up to {}: use a newer "
                      "library, or build the pack again",
                      name_, format, kFormat);
  }
  const KernelKey digest = sha256(llvm::makeArrayRef(header_bytes_).take_front(kHeaderDigestAt));
  if (digest != key_at(header + kHeaderDigestAt) || order != kByteOrder) {
    return corrupt("the digest of its header differs, so it is damaged");
  }
  if (endian::read32le(header + 12) != kFormat) return corrupt("it has format 0");
  if (const u32 features = endian::read32le(header + 20); features != 0) {
    return make_error(ErrorCode::kUnsupported,
                      "the pack {} needs features {:#x} that this library does not have: use a "
                      "newer library",
                      name_, features);
  }
  header_.launch_abi = endian::read32le(header + 16);
  const u32 oldest = oldest_launch_abi(library_launch_abi);
  if (header_.launch_abi < oldest || header_.launch_abi > library_launch_abi) {
    return make_error(ErrorCode::kUnsupported,
                      "the pack {} has launch version {}, and this library launches {} to {}: "
                      "build it with this library",
                      name_, header_.launch_abi, oldest, library_launch_abi);
  }
  header_.bytes = endian::read64le(header + 24);
  if (header_.bytes != size) {
    return corrupt(fmt::format("it has {} bytes, not {}: it is truncated or was appended to", size,
                               header_.bytes));
  }
  return Error::success();
}

Expected<std::vector<u8>> Pack::section(u64 offset, u64 bytes, llvm::ArrayRef<u8> digest,
                                        const char* what) const {
  std::vector<u8> out(bytes);
  if (Error error = bytes_->read(offset, out)) return error;
  if (!std::ranges::equal(sha256(out).bytes, digest)) {
    return corrupt(fmt::format("the digest of {} differs, so it is damaged", what));
  }
  return out;
}

Error Pack::read_pages() {
  const u8* header = header_bytes_.data();
  const auto field = [&](size_t at) { return endian::read64le(header + at); };
  header_.entries = field(kIndexAt + 8);
  header_.blobs = field(kBlobTableAt + 8);
  const u64 total = header_.bytes;
  if (header_.entries > kMaxEntries || header_.blobs > kMaxBlobs ||
      field(kManifestAt + 8) > kMaxManifestBytes ||
      !fits(field(kIndexAt), header_.entries, kRowBytes, total) ||
      !fits(field(kBlobTableAt), header_.blobs, kBlobRowBytes, total) ||
      !fits(field(kManifestAt), field(kManifestAt + 8), 1, total)) {
    return corrupt("its tables are not within the file");
  }
  const u64 index_bytes = num_pages(header_.entries) * kPageEntryBytes;
  const u64 blob_bytes = num_pages(header_.blobs) * kPageEntryBytes;
  if (!fits(field(kPagesAt), index_bytes + blob_bytes, 1, total)) {
    return corrupt("its tables are not within the file");
  }
  auto pages = section(field(kPagesAt), index_bytes + blob_bytes,
                       llvm::makeArrayRef(header + kPagesDigestAt, kDigestBytes), "its page table");
  if (!pages) return pages.takeError();
  const auto half = pages->begin() + static_cast<ptrdiff_t>(index_bytes);
  index_.emplace(*bytes_,
                 PagedTable::Layout{"index", field(kIndexAt), header_.entries, kRowBytes, false},
                 std::vector<u8>(pages->begin(), half));
  blobs_.emplace(
      *bytes_,
      PagedTable::Layout{"blob table", field(kBlobTableAt), header_.blobs, kBlobRowBytes, true},
      std::vector<u8>(half, pages->end()));
  return Error::success();
}

Expected<std::string> Pack::manifest() const {
  const u8* header = header_bytes_.data();
  auto bytes =
      section(endian::read64le(header + kManifestAt), endian::read64le(header + kManifestAt + 8),
              llvm::makeArrayRef(header + kManifestDigestAt, kDigestBytes), "its manifest");
  if (!bytes) return bytes.takeError();
  return std::string(bytes->begin(), bytes->end());
}

// An error of a table, which knows only the reason.
Error Pack::named(Error error) const {
  ErrorReport report = take_report(std::move(error));
  if (report.code == ErrorCode::kCorruptArtifact) return corrupt(report.message);
  return make_error_text(report.code, std::move(report.message));
}

Expected<PackRow> Pack::row(size_t index) const {
  Expected<const u8*> bytes = index_->row(index);
  if (!bytes) return named(bytes.takeError());
  const u8* at = *bytes;
  PackRow row;
  row.key = key_at(at);
  row.digest = key_at(at + 32);
  row.fit = endian::read64le(at + 64);
  row.structure = endian::read64le(at + 72);
  row.offset = endian::read64le(at + 80);
  row.bytes = endian::read32le(at + 88);
  if (row.bytes > kMaxEntryBytes || !fits(row.offset, row.bytes, 1, header_.bytes)) {
    return corrupt(fmt::format("entry {} is not within the file", index));
  }
  return row;
}

Expected<PackBlob> Pack::blob_row(size_t index) const {
  Expected<const u8*> bytes = blobs_->row(index);
  if (!bytes) return named(bytes.takeError());
  const u8* at = *bytes;
  const PackBlob blob{key_at(at), endian::read64le(at + 32), endian::read64le(at + 40),
                      endian::read32le(at + 48)};
  if (blob.bytes > kMaxBlobBytes || !fits(blob.offset, blob.bytes, 1, header_.bytes)) {
    return corrupt(fmt::format("blob {} is not within the file", index));
  }
  return blob;
}

// Sorted without equals: a search then finds what is there, and one entry only.
Error Pack::check_order(size_t index, const PackRow& before, const PackRow& here) const {
  if (std::tie(before.key, before.fit) < std::tie(here.key, here.fit)) return Error::success();
  if (std::tie(before.key, before.fit) > std::tie(here.key, here.fit)) {
    return corrupt("its index is not sorted");
  }
  return corrupt(fmt::format("entries {} and {} are for the same chain and the same device",
                             index - 1, index));
}

Expected<std::pair<size_t, size_t>> Pack::rows_of(const KernelKey& key) const {
  Expected<u64> first = index_->lower_bound(key);
  if (!first) return named(first.takeError());
  size_t last = *first;
  PackRow before;
  for (; last < size(); ++last) {
    Expected<PackRow> here = row(last);
    if (!here) return here.takeError();
    if (here->key != key) break;
    if (last > *first) {
      if (Error error = check_order(last, before, *here)) return error;
    }
    before = *here;
  }
  return std::pair<size_t, size_t>{*first, last};
}

Expected<std::vector<size_t>> Pack::rows_of_structure(u64 structure, size_t most) const {
  std::vector<size_t> found;
  for (size_t i = 0; i < size() && found.size() < most; ++i) {
    Expected<PackRow> here = row(i);
    if (!here) return here.takeError();
    if (here->structure == structure) found.push_back(i);
  }
  return found;
}

Expected<std::vector<u8>> Pack::entry_bytes(size_t index) const {
  Expected<PackRow> at = row(index);
  if (!at) return at.takeError();
  return section(at->offset, at->bytes, at->digest.bytes, fmt::format("entry {}", index).c_str());
}

Expected<PackEntry> Pack::entry(size_t index) const {
  Expected<std::vector<u8>> bytes = entry_bytes(index);
  if (!bytes) return bytes.takeError();
  Expected<PackEntry> entry = decode_entry(*bytes);
  if (!entry) {
    const ErrorReport report = take_report(entry.takeError());
    return make_error(report.code, "entry {} of the pack {} cannot be used: {}; {}", index, name_,
                      report.message,
                      report.code == ErrorCode::kUnsupported ? "use a newer library"
                                                             : "copy it again, or build it again");
  }
  // What the entry says that it is must be what it was found by.
  Expected<PackRow> at = row(index);
  if (!at) return at.takeError();
  if (chain_key(entry->canonical, entry->record.arch, entry->record.options) != at->key ||
      fit_of(entry->record.target) != at->fit) {
    return corrupt(
        fmt::format("entry {} is of another chain, architecture or device than its key", index));
  }
  return entry;
}

Expected<PackBlob> Pack::find_blob(const KernelKey& digest) const {
  Expected<u64> at = blobs_->lower_bound(digest);
  if (!at) return named(at.takeError());
  if (*at == header_.blobs) return corrupt(fmt::format("it has no blob {}", digest.hex()));
  Expected<PackBlob> found = blob_row(*at);
  if (!found) return found.takeError();
  if (found->digest != digest) return corrupt(fmt::format("it has no blob {}", digest.hex()));
  if (found->codec != kCodecNone) {
    return make_error(ErrorCode::kUnsupported,
                      "the pack {} has blobs of codec {}, which this library does not know: use a "
                      "newer library",
                      name_, found->codec);
  }
  return found;
}

Expected<std::vector<u8>> Pack::blob(const KernelKey& digest) const {
  Expected<PackBlob> found = find_blob(digest);
  if (!found) return found.takeError();
  return section(found->offset, found->bytes, digest.bytes,
                 fmt::format("blob {}", digest.hex()).c_str());
}

Expected<std::shared_ptr<const ChainRecord>> Pack::record(size_t index) const {
  Expected<PackEntry> read = entry(index);
  if (!read) return read.takeError();
  return record(std::move(*read));
}

Expected<std::shared_ptr<const ChainRecord>> Pack::record(PackEntry entry) const {
  for (BucketRecord& bucket : entry.record.buckets) {
    for (KernelRecord& kernel : bucket.kernels) {
      Expected<std::vector<u8>> image = blob(kernel.identity);
      if (!image) return image.takeError();
      const std::string problem = machine_code_problem(*image, entry.record.arch);
      if (!problem.empty()) {
        return corrupt(fmt::format("kernel {} of chain '{}' should be machine code for {}, and {}",
                                   kernel.symbol, message_text(entry.record.name),
                                   arch_words(entry.record.arch), problem));
      }
      auto cubin = std::make_shared<Cubin>(*kernel.cubin);
      cubin->image = std::move(*image);
      kernel.cubin = std::move(cubin);
    }
  }
  entry.record.launch_abi = header_.launch_abi;
  entry.record.texts = std::make_shared<PackTexts>(shared_from_this(), entry);
  return std::make_shared<const ChainRecord>(std::move(entry.record));
}

Error Pack::verify(const std::function<void()>& advance) const {
  PackRow before;
  for (size_t i = 0; i < size(); ++i) {
    Expected<PackRow> here = row(i);
    if (!here) return here.takeError();
    if (i > 0) {
      if (Error error = check_order(i, before, *here)) return error;
    }
    before = *here;
    Expected<std::shared_ptr<const ChainRecord>> read = record(i);
    if (!read) return read.takeError();
    if (advance) advance();
  }
  for (size_t i = 0; i < header_.blobs; ++i) {
    Expected<PackBlob> here = blob_row(i);
    if (!here) return here.takeError();
    Expected<std::vector<u8>> read = blob(here->digest);
    if (!read) return read.takeError();
    if (advance) advance();
  }
  Expected<std::string> text = manifest();
  if (!text) return text.takeError();
  Expected<llvm::json::Value> json = parse_json(*text);
  if (!json) {
    return corrupt("its manifest is no JSON: " + take_report(json.takeError()).message);
  }
  return Error::success();
}

// The header from memory: it has the digests of all that is used, so that the digest is of this.
Expected<KernelKey> Pack::file_digest() const {
  llvm::SHA256 hash;
  hash.update(header_bytes_);
  u64 at = kHeaderBytes;
  std::vector<u8> part(1 << 20);
  while (at < header_.bytes) {
    const llvm::MutableArrayRef<u8> piece(part.data(),
                                          std::min<u64>(part.size(), header_.bytes - at));
    if (Error error = bytes_->read(at, piece)) return error;
    hash.update(piece);
    at += piece.size();
  }
  KernelKey digest;
  std::ranges::copy(hash.final(), digest.bytes.begin());
  return digest;
}

}  // namespace catenary
