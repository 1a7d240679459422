// SPDX-License-Identifier: Apache-2.0
#include "runtime/pack/pack_writer.h"

#include <algorithm>
#include <set>

#include "compiler/compile/host_compiler.h"
#include "ir/json.h"
#include "ir/output_file.h"
#include "ir/text/text.h"
#include "llvm/ADT/StringRef.h"
#include "runtime/driver/driver.h"
#include "runtime/pack/byte_stream.h"
#include "runtime/pack/format.h"
#include "runtime/pack/machine_code.h"
#include "runtime/record/canonical.h"

namespace catenary {
namespace {

using namespace pack_format;  // NOLINT: the names of the layout

llvm::ArrayRef<u8> bytes_of(llvm::StringRef text) {
  return {reinterpret_cast<const u8*>(text.data()), text.size()};
}

template <typename Use>
void each_kernel(const ChainRecord& record, const Use& use) {
  for (const BucketRecord& bucket : record.buckets) {
    for (const KernelRecord& kernel : bucket.kernels) use(kernel);
  }
}

// Appends the rows of the page table for a table.
void add_pages(llvm::ArrayRef<u8> table, u64 row_bytes, ByteWriter& out) {
  while (!table.empty()) {
    const llvm::ArrayRef<u8> page = table.take_front(kPageRows * row_bytes);
    out.raw(page.take_front(kDigestBytes));
    out.key(sha256(page));
    table = table.drop_front(page.size());
  }
}

// "13.0"; null for 0.
llvm::json::Value driver_text(int version) {
  if (version == 0) return nullptr;
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

u64 aligned(u64 offset, u64 to) { return (offset + to - 1) / to * to; }

}  // namespace

KernelKey PackWriter::add_blob(llvm::ArrayRef<u8> bytes, bool code) {
  const KernelKey digest = sha256(bytes);
  Blob& blob = blobs_[digest];
  if (blob.bytes.empty()) blob.bytes = bytes.vec();
  blob.code = blob.code || code;
  return digest;
}

bool PackWriter::insert(const PackEntry& entry, std::vector<u8> bytes, u64 structure) {
  const ChainRecord& record = entry.record;
  const Id id{chain_key(entry.canonical, record.arch, record.options), fit_of(record.target)};
  Entry made{std::move(bytes), structure, record.arch, {}};
  each_kernel(record, [&](const KernelRecord& kernel) {
    made.kernels.push_back({kernel.family, kernel.cubin->compiler_id, kernel.identity});
  });
  return entries_.try_emplace(id, std::move(made)).second;
}

// What the kernels of an entry rely on is a fact of the file, so its entries have it in common.
Error PackWriter::take_launch_abi(u32 launch_abi) {
  if (entries_.empty()) launch_abi_ = launch_abi;
  if (launch_abi_ == launch_abi) return Error::success();
  return make_error(ErrorCode::kUnsupported,
                    "entries of the launch versions {} and {} cannot be in one pack: build the "
                    "chains of the older one again",
                    launch_abi_, launch_abi);
}

Expected<bool> PackWriter::add(const ChainRecord& record) {
  Expected<Chain> parsed = parse(record.text);
  if (!parsed) return parsed.takeError();
  Expected<VerifiedChain> chain = verify(std::move(*parsed));
  if (!chain) return chain.takeError();
  PackEntry entry;
  entry.canonical = canonical_text(*chain);
  entry.record = record;
  entry.record.texts = nullptr;
  entry.made_by = "catenary " CATENARY_VERSION;
  const Id id{chain_key(entry.canonical, record.arch, record.options), fit_of(record.target)};
  if (entries_.contains(id)) return false;
  const u32 launch_abi = record.launch_abi == 0 ? kLaunchAbi : record.launch_abi;
  if (Error error = take_launch_abi(launch_abi)) return error;

  for (BucketRecord& bucket : entry.record.buckets) {
    for (KernelRecord& kernel : bucket.kernels) {
      entry.kernel_keys.push_back(kernel.identity);
      kernel.identity = sha256(kernel.cubin->image);
      const std::string problem = machine_code_problem(kernel.cubin->image, record.arch);
      if (problem.empty()) continue;
      return make_error(ErrorCode::kUnsupported,
                        "kernel {} of chain '{}' cannot be in a pack: its machine code should be "
                        "for {}, and {}",
                        kernel.symbol, record.name, arch_words(record.arch), problem);
    }
  }
  if (std::string problem = entry_problem(entry); !problem.empty()) {
    return make_error(ErrorCode::kUnsupported, "chain '{}' cannot be in a pack: {}", record.name,
                      problem);
  }
  each_kernel(entry.record,
              [&](const KernelRecord& kernel) { add_blob(kernel.cubin->image, true); });
  if (Error error = add_texts(record, entry)) return error;
  std::vector<u8> bytes = encode_entry(entry);
  return insert(entry, std::move(bytes), structure_id(*chain));
}

// The texts that are asked for and that the record has: one of a pack may lack them.
Error PackWriter::add_texts(const ChainRecord& record, PackEntry& entry) {
  const auto keep = [this](Expected<std::string> text) -> KernelKey {
    if (text) return add_blob(bytes_of(*text), false);
    llvm::consumeError(text.takeError());
    return {};
  };
  if (contents_.explain) {
    entry.explain_text = keep(record.texts->explain(false));
    entry.explain_json = keep(record.texts->explain(true));
  }
  if (!contents_.sources) return Error::success();
  size_t index = 0;
  each_kernel(record, [&](const KernelRecord&) {
    entry.sources.push_back(keep(record.texts->source(index++)));
  });
  return Error::success();
}

Error PackWriter::copy_blob(const Pack& pack, const KernelKey& digest, bool code) {
  if (digest == KernelKey{} || blobs_.contains(digest)) return Error::success();
  Expected<std::vector<u8>> bytes = pack.blob(digest);
  if (!bytes) return bytes.takeError();
  blobs_[digest] = {std::move(*bytes), code};
  return Error::success();
}

Expected<bool> PackWriter::add(const Pack& pack, size_t index) {
  Expected<PackEntry> entry = pack.entry(index);
  if (!entry) return entry.takeError();
  Expected<PackRow> row = pack.row(index);
  if (!row) return row.takeError();
  if (entries_.contains({row->key, row->fit})) return false;
  if (Error error = take_launch_abi(pack.header().launch_abi)) return error;
  Expected<std::vector<u8>> bytes = pack.entry_bytes(index);
  if (!bytes) return bytes.takeError();
  std::vector<KernelKey> texts = entry->sources;
  texts.insert(texts.end(), {entry->explain_text, entry->explain_json});
  for (const KernelKey& text : texts) {
    if (Error error = copy_blob(pack, text, false)) return error;
  }
  for (const BucketRecord& bucket : entry->record.buckets) {
    for (const KernelRecord& kernel : bucket.kernels) {
      if (Error error = copy_blob(pack, kernel.identity, true)) return error;
    }
  }
  return insert(*entry, std::move(*bytes), row->structure);
}

std::string PackWriter::manifest() const {
  struct Family {
    i64 kernels = 0;
    i64 bytes = 0;  // of machine code, each blob once
  };
  std::map<std::string, i64> archs;
  std::map<std::string, Family> families;
  std::set<std::string> compilers;
  std::set<KernelKey> counted;
  int driver = 0;  // 0: nothing is for a GPU
  for (const auto& [id, entry] : entries_) {
    ++archs[entry.arch];
    for (const KernelFacts& kernel : entry.kernels) {
      if (!is_host_arch(entry.arch)) {
        driver = std::max(driver, cuda::oldest_driver_for(kernel.compiler));
      }
      Family& family = families[kernel.family];
      ++family.kernels;
      compilers.insert(kernel.compiler);
      if (!counted.insert(kernel.code).second) continue;
      family.bytes += static_cast<i64>(blobs_.at(kernel.code).bytes.size());
    }
  }
  llvm::json::Object by_arch;
  for (const auto& [arch, count] : archs) by_arch[arch] = count;
  llvm::json::Object by_family;
  for (const auto& [family, facts] : families) {
    by_family[family] = llvm::json::Object{{"kernels", facts.kernels}, {"bytes", facts.bytes}};
  }
  llvm::json::Array compiler_list;
  for (const std::string& compiler : compilers)
    compiler_list.push_back(llvm::json::fixUTF8(compiler));
  return json_text(llvm::json::Object{{"tool", "catenary " CATENARY_VERSION},
                                      {"launch_abi", launch_abi_},
                                      {"min_driver", driver_text(driver)},
                                      {"entries", static_cast<i64>(entries_.size())},
                                      {"blobs", static_cast<i64>(blobs_.size())},
                                      {"archs", std::move(by_arch)},
                                      {"families", std::move(by_family)},
                                      {"compilers", std::move(compiler_list)}}) +
         "\n";
}

// Where each part of the file begins.
struct PackWriter::Layout {
  std::string manifest;
  u64 index = 0;
  u64 blob_table = 0;
  u64 manifest_at = 0;
  std::vector<u64> entries;  // in the order of entries_
  std::map<KernelKey, u64> blobs;
  u64 end = 0;
};

PackWriter::Layout PackWriter::layout() const {
  Layout made;
  made.manifest = manifest();
  const u64 pages = num_pages(entries_.size()) + num_pages(blobs_.size());
  made.index = kHeaderBytes + pages * kPageEntryBytes;
  made.blob_table = made.index + entries_.size() * kRowBytes;
  made.manifest_at = made.blob_table + blobs_.size() * kBlobRowBytes;
  u64 at = aligned(made.manifest_at + made.manifest.size(), 8);
  for (const auto& [id, entry] : entries_) {
    made.entries.push_back(at);
    at = aligned(at + entry.bytes.size(), 8);
  }
  for (bool code : {false, true}) {
    for (const auto& [digest, blob] : blobs_) {
      if (blob.code != code) continue;
      at = aligned(at, code ? kCodeAlign : 8);
      made.blobs[digest] = at;
      at += blob.bytes.size();
    }
  }
  made.end = at;
  return made;
}

std::vector<u8> PackWriter::index_bytes(const Layout& layout) const {
  ByteWriter index;
  size_t number = 0;
  for (const auto& [id, entry] : entries_) {
    index.key(id.key);
    index.key(sha256(entry.bytes));
    for (u64 value : {id.fit, entry.structure, layout.entries[number++]}) index.u64_(value);
    index.u32_(static_cast<u32>(entry.bytes.size()));
    index.u32_(0);
  }
  return index.take();
}

std::vector<u8> PackWriter::blob_table_bytes(const Layout& layout) const {
  ByteWriter table;
  for (const auto& [digest, blob] : blobs_) {
    table.key(digest);
    table.u64_(layout.blobs.at(digest));
    table.u64_(blob.bytes.size());
    table.u32_(kCodecNone);
    table.u32_(0);
  }
  return table.take();
}

Expected<std::vector<u8>> PackWriter::bytes() const {
  if (entries_.size() > kMaxEntries || blobs_.size() > kMaxBlobs) {
    return make_error(ErrorCode::kResourceLimit,
                      "the pack has {} entries, and can have {}: split it by architecture",
                      entries_.size(), kMaxEntries);
  }
  const Layout places = layout();
  const std::vector<u8> index = index_bytes(places);
  const std::vector<u8> table = blob_table_bytes(places);
  const llvm::ArrayRef<u8> manifest_bytes = bytes_of(places.manifest);
  ByteWriter pages;
  add_pages(index, kRowBytes, pages);
  add_pages(table, kBlobRowBytes, pages);

  ByteWriter header;
  header.raw(bytes_of(llvm::StringRef(kMagic.data(), kMagic.size())));
  for (u32 value : {kByteOrder, kFormat, launch_abi_, u32{0}}) header.u32_(value);
  for (u64 value : {places.end, places.index, static_cast<u64>(entries_.size()), places.blob_table,
                    static_cast<u64>(blobs_.size()), places.manifest_at, u64{manifest_bytes.size()},
                    kHeaderBytes}) {
    header.u64_(value);
  }
  header.align(kPagesDigestAt);
  header.key(sha256(pages.bytes()));
  header.key(sha256(manifest_bytes));
  header.align(kHeaderDigestAt);
  header.key(sha256(header.bytes()));

  std::vector<u8> out = header.take();
  out.resize(places.end);
  const auto put = [&out](llvm::ArrayRef<u8> part, u64 at) {
    std::copy(part.begin(), part.end(), out.begin() + static_cast<ptrdiff_t>(at));
  };
  put(pages.bytes(), kHeaderBytes);
  put(index, places.index);
  put(table, places.blob_table);
  put(manifest_bytes, places.manifest_at);
  size_t number = 0;
  for (const auto& [id, entry] : entries_) put(entry.bytes, places.entries[number++]);
  for (const auto& [digest, blob] : blobs_) put(blob.bytes, places.blobs.at(digest));
  return out;
}

Error PackWriter::write(const std::string& path) const {
  Expected<std::vector<u8>> made = bytes();
  if (!made) return made.takeError();
  return write_output(path, {reinterpret_cast<const char*>(made->data()), made->size()});
}

}  // namespace catenary
