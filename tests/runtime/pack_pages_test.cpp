// SPDX-License-Identifier: Apache-2.0
// A pack is opened and searched by reading a part of it that does not grow with its entries.
#include <doctest/doctest.h>

#include "ir/random/random.h"
#include "runtime/pack/pack.h"
#include "tests/support/packed_chains.h"

using namespace catenary;
using test::layer_record;
using test::LayerSizes;
using test::must;
using test::pack_of;
using test::PackPlaces;
using test::seal_header;

namespace {

using llvm::support::endian::write32le;
using llvm::support::endian::write64le;

std::shared_ptr<const Pack> opened(const std::vector<u8>& bytes) {
  return must(Pack::open_memory(bytes));
}

// Counts what is read.
class CountedBytes final : public PackBytes {
 public:
  CountedBytes(llvm::ArrayRef<u8> bytes, u64& read) : memory_(pack_memory(bytes)), read_(read) {}
  u64 size() const override { return memory_->size(); }
  Error read(u64 offset, llvm::MutableArrayRef<u8> out) const override {
    read_ += out.size();
    return memory_->read(offset, out);
  }

 private:
  const std::unique_ptr<PackBytes> memory_;
  u64& read_;
};

// A pack of `count` rows with ascending keys, three of a kind apart, that name no real entry.
std::vector<u8> many_rows(u64 count) {
  std::vector<u8> bytes = pack_of({});
  const PackPlaces empty(bytes);
  const std::vector<u8> manifest(
      bytes.begin() + static_cast<ptrdiff_t>(empty.manifest),
      bytes.begin() + static_cast<ptrdiff_t>(empty.manifest + empty.manifest_bytes));
  const u64 index =
      pack_format::kHeaderBytes + pack_format::num_pages(count) * pack_format::kPageEntryBytes;
  const u64 table = index + count * pack_format::kRowBytes;
  bytes.resize(table + manifest.size() + 8);
  std::copy(manifest.begin(), manifest.end(), bytes.begin() + static_cast<ptrdiff_t>(table));
  for (u64 i = 0; i < count; ++i) {
    u8* row = &bytes[index + i * pack_format::kRowBytes];
    std::memset(row, 0, pack_format::kRowBytes);
    for (int b = 0; b < 8; ++b) row[b] = static_cast<u8>((i * 3) >> (56 - 8 * b));
    write64le(row + 80, table);
    write32le(row + 88, 8);
  }
  for (const auto& [at, value] : {std::pair<u64, u64>{24, bytes.size()},
                                  {32, index},
                                  {40, count},
                                  {48, table},
                                  {64, table}}) {
    write64le(&bytes[at], value);
  }
  test::seal_pages(bytes, pack_format::kHeaderBytes, index, count, pack_format::kRowBytes);
  test::put_digest(bytes, 112, pack_format::kHeaderBytes, index - pack_format::kHeaderBytes);
  seal_header(bytes);
  return bytes;
}

}  // namespace

TEST_CASE("a million entries open, and each is found") {
  constexpr u64 kCount = 1'000'000;
  const std::vector<u8> bytes = many_rows(kCount);
  const auto pack = opened(bytes);
  CHECK(pack->size() == kCount);
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const u64 wanted = random.next() % kCount;
    KernelKey key = must(pack->row(wanted)).key;
    CHECK(must(pack->rows_of(key)) == std::pair<size_t, size_t>{wanted, wanted + 1});
    key.bytes[31] = 1;
    const auto [first, last] = must(pack->rows_of(key));
    CHECK(first == last);
  }
}

// Opening reads the header and 1/96 of the index, a search one page of it, whatever the pack has.
TEST_CASE("a pack is opened and searched without reading its index") {
  for (const u64 count : {1, 64, 65, 1000, 100'000}) {
    CAPTURE(count);
    const std::vector<u8> bytes = many_rows(count);
    u64 read = 0;
    const auto pack =
        must(Pack::open_bytes("counted", std::make_unique<CountedBytes>(bytes, read)));
    CHECK(read == pack_format::kHeaderBytes + (count + 63) / 64 * 64);
    KernelKey key;
    const u64 middle = count / 2 * 3;
    for (int b = 0; b < 8; ++b)
      key.bytes[static_cast<size_t>(b)] = static_cast<u8>(middle >> (56 - 8 * b));
    read = 0;
    CHECK(must(pack->rows_of(key)) == std::pair<size_t, size_t>{count / 2, count / 2 + 1});
    CHECK(read <= 2 * 64 * pack_format::kRowBytes);  // the row may begin or end its page
    read = 0;
    CHECK(must(pack->rows_of(key)).first == count / 2);
    CHECK(read == 0);
  }
}

TEST_CASE("a chain is taken from a pack without reading another") {
  std::vector<std::shared_ptr<const ChainRecord>> records;
  for (int k = 1; k <= 9; ++k) {
    LayerSizes sizes;
    sizes.k = 128 * k;
    records.push_back(layer_record(sizes));
  }
  const std::vector<u8> bytes = pack_of(records);
  u64 read = 0;
  const auto pack = must(Pack::open_bytes("counted", std::make_unique<CountedBytes>(bytes, read)));
  read = 0;
  const auto record = must(pack->record(4));
  u64 expected = must(pack->row(4)).bytes;
  for (const BucketRecord& bucket : record->buckets) {
    for (const KernelRecord& kernel : bucket.kernels) expected += kernel.cubin->image.size();
  }
  const PackPlaces at(bytes);
  expected += at.entries * pack_format::kRowBytes + at.num_blobs * pack_format::kBlobRowBytes;
  CHECK(at.num_blobs <= pack_format::kPageRows);
  CHECK(read == expected);
}

TEST_CASE("keys that fill pages, twice one device among them") {
  std::vector<u8> bytes = many_rows(200);
  const PackPlaces at(bytes);
  // Rows 10 to 149 get one key, and devices of their own.
  for (u64 i = 10; i < 150; ++i) {
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at.row(10)), 32,
                bytes.begin() + static_cast<ptrdiff_t>(at.row(i)));
    write64le(&bytes[at.row(i) + 64], i);
  }
  const auto sealed = [&] {
    test::seal_pages(bytes, at.pages, at.index, at.entries, pack_format::kRowBytes);
    test::put_digest(bytes, 112, at.pages, at.num_pages() * pack_format::kPageEntryBytes);
    seal_header(bytes);
    return opened(bytes);
  };
  auto pack = sealed();
  const KernelKey key = must(pack->row(70)).key;
  CHECK(must(pack->rows_of(key)) == std::pair<size_t, size_t>{10, 150});
  write64le(&bytes[at.row(128) + 64], 127);
  pack = sealed();
  const ErrorReport report = take_report(pack->rows_of(key).takeError());
  CHECK(report.code == ErrorCode::kCorruptArtifact);
  CHECK(report.message.find("entries 127 and 128 are for the same chain and the same device") !=
        std::string::npos);
}
