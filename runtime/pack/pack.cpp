// SPDX-License-Identifier: Apache-2.0
#include "runtime/pack/pack.h"

#include <algorithm>
#include <cstring>

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

constexpr size_t kIndexAt = 32;
constexpr size_t kBlobTableAt = 48;
constexpr size_t kManifestAt = 64;
constexpr size_t kDigestsAt = 80;

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
  return make_error(ErrorCode::kCorruptArtifact, "the pack {} cannot be used: {}", name_, reason);
}

Expected<std::shared_ptr<const Pack>> Pack::open(const std::string& path,
                                                 const PackOptions& options) {
  Expected<std::unique_ptr<PackBytes>> bytes = open_pack_file(path);
  if (!bytes) return bytes.takeError();
  std::shared_ptr<Pack> pack(new Pack);
  pack->name_ = path;
  pack->bytes_ = std::move(*bytes);
  return opened(std::move(pack), options);
}

Expected<std::shared_ptr<const Pack>> Pack::open_memory(llvm::ArrayRef<u8> bytes,
                                                        const PackOptions& options) {
  std::shared_ptr<Pack> pack(new Pack);
  pack->name_ = "in memory";
  pack->bytes_ = pack_memory(bytes);
  return opened(std::move(pack), options);
}

Expected<std::shared_ptr<const Pack>> Pack::opened(std::shared_ptr<Pack> pack,
                                                   const PackOptions& options) {
  if (Error error = pack->read_header()) return error;
  if (Error error = pack->read_tables()) return error;
  if (Error error = pack->check_rows()) return error;
  if (!options.expected_sha256.empty()) {
    Expected<KernelKey> digest = pack->file_digest();
    if (!digest) return digest.takeError();
    if (digest->hex() != llvm::StringRef(options.expected_sha256).lower()) {
      return pack->corrupt(fmt::format("its SHA-256 is {}, and {} is expected", digest->hex(),
                                       message_text(options.expected_sha256, 80)));
    }
  }
  if (options.verify_all) {
    if (Error error = pack->verify()) return error;
  }
  return std::shared_ptr<const Pack>(std::move(pack));
}

Error Pack::read_header() {
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
  if (header_.launch_abi < kOldestLaunchAbi || header_.launch_abi > kLaunchAbi) {
    return make_error(ErrorCode::kUnsupported,
                      "the pack {} has launch version {}, and this library launches {} to {}: "
                      "build it with this library",
                      name_, header_.launch_abi, kOldestLaunchAbi, kLaunchAbi);
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

Error Pack::read_tables() {
  const u8* header = header_bytes_.data();
  const auto digest = [&](size_t i) {
    return llvm::makeArrayRef(header_bytes_).slice(kDigestsAt + i * kDigestBytes, kDigestBytes);
  };
  struct Section {
    u64 offset, count;
  };
  const auto section_at = [&](size_t at) {
    return Section{endian::read64le(header + at), endian::read64le(header + at + 8)};
  };
  const Section index = section_at(kIndexAt);
  const Section blobs = section_at(kBlobTableAt);
  const Section manifest = section_at(kManifestAt);
  const u64 total = header_.bytes;
  if (index.count > kMaxEntries || blobs.count > kMaxBlobs || manifest.count > kMaxManifestBytes ||
      !fits(index.offset, index.count, kRowBytes, total) ||
      !fits(blobs.offset, blobs.count, kBlobRowBytes, total) ||
      !fits(manifest.offset, manifest.count, 1, total)) {
    return corrupt("its tables are not within the file");
  }
  header_.entries = index.count;
  header_.blobs = blobs.count;
  auto read_index = section(index.offset, index.count * kRowBytes, digest(0), "its index");
  if (!read_index) return read_index.takeError();
  auto read_blobs = section(blobs.offset, blobs.count * kBlobRowBytes, digest(1), "its blob table");
  if (!read_blobs) return read_blobs.takeError();
  auto read_manifest = section(manifest.offset, manifest.count, digest(2), "its manifest");
  if (!read_manifest) return read_manifest.takeError();
  index_ = std::move(*read_index);
  blobs_ = std::move(*read_blobs);
  manifest_.assign(read_manifest->begin(), read_manifest->end());
  return Error::success();
}

// Sorted without equals: a search then finds what is there, and one entry only.
Error Pack::check_rows() const {
  for (size_t i = 0; i < size(); ++i) {
    const PackRow here = row(i);
    if (here.bytes > kMaxEntryBytes || !fits(here.offset, here.bytes, 1, header_.bytes)) {
      return corrupt(fmt::format("entry {} is not within the file", i));
    }
    if (i == 0) continue;
    const PackRow before = row(i - 1);
    if (before.key == here.key && before.fit == here.fit) {
      return corrupt(
          fmt::format("entries {} and {} are for the same chain and the same device", i - 1, i));
    }
    if (std::tie(before.key, before.fit) > std::tie(here.key, here.fit)) {
      return corrupt("its index is not sorted");
    }
  }
  for (size_t i = 0; i < header_.blobs; ++i) {
    const PackBlob here = blob_row(i);
    if (here.bytes > kMaxBlobBytes || !fits(here.offset, here.bytes, 1, header_.bytes)) {
      return corrupt(fmt::format("blob {} is not within the file", i));
    }
    if (i > 0 && blob_row(i - 1).digest >= here.digest) return corrupt("its blobs are not sorted");
  }
  return Error::success();
}

PackRow Pack::row(size_t index) const {
  const u8* at = &index_[index * kRowBytes];
  PackRow row;
  row.key = key_at(at);
  row.digest = key_at(at + 32);
  row.fit = endian::read64le(at + 64);
  row.structure = endian::read64le(at + 72);
  row.offset = endian::read64le(at + 80);
  row.bytes = endian::read32le(at + 88);
  return row;
}

PackBlob Pack::blob_row(size_t index) const {
  const u8* at = &blobs_[index * kBlobRowBytes];
  return {key_at(at), endian::read64le(at + 32), endian::read64le(at + 40)};
}

std::pair<size_t, size_t> Pack::rows_of(const KernelKey& key) const {
  const auto key_of = [this](size_t i) { return key_at(&index_[i * kRowBytes]); };
  size_t low = 0;
  size_t high = size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (key_of(middle) < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  while (high < size() && key_of(high) == key) ++high;
  return {low, high};
}

std::vector<size_t> Pack::rows_of_structure(u64 structure, size_t most) const {
  std::vector<size_t> found;
  for (size_t i = 0; i < size() && found.size() < most; ++i) {
    if (endian::read64le(&index_[i * kRowBytes + 72]) == structure) found.push_back(i);
  }
  return found;
}

Expected<std::vector<u8>> Pack::entry_bytes(size_t index) const {
  const PackRow at = row(index);
  return section(at.offset, at.bytes, at.digest.bytes, fmt::format("entry {}", index).c_str());
}

Expected<PackEntry> Pack::entry(size_t index) const {
  Expected<std::vector<u8>> bytes = entry_bytes(index);
  if (!bytes) return bytes.takeError();
  Expected<PackEntry> entry = decode_entry(*bytes);
  if (!entry) {
    const ErrorReport report = take_report(entry.takeError());
    return make_error(report.code, "entry {} of the pack {} cannot be used: {}", index, name_,
                      report.message);
  }
  // What the entry says that it is must be what it was found by.
  const PackRow at = row(index);
  if (chain_key(entry->canonical, entry->record.arch, entry->record.options) != at.key ||
      fit_of(entry->record.target) != at.fit) {
    return corrupt(
        fmt::format("entry {} is of another chain, architecture or device than its key", index));
  }
  return entry;
}

Expected<PackBlob> Pack::find_blob(const KernelKey& digest) const {
  size_t low = 0;
  size_t high = header_.blobs;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (blob_row(middle).digest < digest) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == header_.blobs || blob_row(low).digest != digest) {
    return corrupt(fmt::format("it has no blob {}", digest.hex()));
  }
  if (const u32 codec = endian::read32le(&blobs_[low * kBlobRowBytes + 48]); codec != kCodecNone) {
    return make_error(ErrorCode::kUnsupported,
                      "the pack {} has blobs of codec {}, which this library does not know: use a "
                      "newer library",
                      name_, codec);
  }
  return blob_row(low);
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
                                   entry.record.arch, problem));
      }
      auto cubin = std::make_shared<Cubin>(*kernel.cubin);
      cubin->image = std::move(*image);
      kernel.cubin = std::move(cubin);
    }
  }
  entry.record.texts = std::make_shared<PackTexts>(shared_from_this(), entry);
  return std::make_shared<const ChainRecord>(std::move(entry.record));
}

Error Pack::verify(const std::function<void()>& advance) const {
  for (size_t i = 0; i < size(); ++i) {
    Expected<std::shared_ptr<const ChainRecord>> read = record(i);
    if (!read) return read.takeError();
    if (advance) advance();
  }
  for (size_t i = 0; i < header_.blobs; ++i) {
    Expected<std::vector<u8>> read = blob(blob_row(i).digest);
    if (!read) return read.takeError();
    if (advance) advance();
  }
  Expected<llvm::json::Value> json = parse_json(manifest_);
  if (!json) {
    return corrupt("its manifest is no JSON: " + take_report(json.takeError()).message);
  }
  return Error::success();
}

// Header and index from memory, so that the digest is of what is in use, the rest from the file.
Expected<KernelKey> Pack::file_digest() const {
  llvm::SHA256 hash;
  hash.update(header_bytes_);
  u64 at = kHeaderBytes;
  if (endian::read64le(&header_bytes_[kIndexAt]) == at) {
    hash.update(index_);
    at += index_.size();
  }
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
