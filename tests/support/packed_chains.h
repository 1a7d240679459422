// SPDX-License-Identifier: Apache-2.0
// Chains for tests of packs: planned for real, with machine code that has a right ELF header and
// that no device runs. And what damages a pack: it is changed, and its digests are made right
// again.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "compiler/compile/host_compiler.h"
#include "compiler/emit/emit.h"
#include "ir/text/text.h"
#include "llvm/Support/Endian.h"
#include "runtime/pack/format.h"
#include "runtime/pack/pack_writer.h"

namespace catenary::test {

// Like llvm::cantFail, which prints no message in a release build.
template <typename T>
T must(Expected<T> result) {
  if (!result) FAIL(take_report(result.takeError()).message);
  return std::move(*result);
}

// y = silu(x w^T + b); M symbolic if `rows` is empty.
struct LayerSizes {
  std::string name = "layer";
  std::string rows;  // "64"; empty: the symbol
  std::string range = "1..64";
  int n = 256;
  int k = 128;
  std::string w_layout;  // " align 8", " strides[256, 1]"
  std::string dtype = "bf16";
};

inline std::string layer_text(const LayerSizes& l) {
  const bool symbolic = l.rows.empty();
  return fmt::format(
      "chain {0}{1}(input {0}_x: {2}[{3}, {5}], weight w: {2}[{4}, {5}]{6}, weight b: f32[{4}]) "
      "{{\n"
      "  h = contract \"mk,nk->mn\"({0}_x, w)\n  y = silu(add(h, b))\n  return y: {2}\n}}\n",
      l.name, symbolic ? fmt::format("[M in {}]", l.range) : "", l.dtype, symbolic ? "M" : l.rows,
      l.n, l.k, l.w_layout);
}

inline VerifiedChain layer_chain(const LayerSizes& l = {}) {
  return must(verify(must(parse(layer_text(l)))));
}

// An ELF header of machine code for `arch`, and some bytes that depend on `seed`.
inline std::vector<u8> fake_code(const std::string& arch, const std::string& seed) {
  std::vector<u8> image(64 + 40, 0);
  std::memcpy(image.data(),
              "\x7f"
              "ELF\x02\x01\x01\x41\x08",
              9);
  if (is_host_arch(arch)) {
    image[18] = 62;
  } else {
    Target target;
    target.arch = arch;
    image[18] = 190;
    image[49] = static_cast<u8>(target.compute_capability());
  }
  const KernelKey digest = sha256({reinterpret_cast<const u8*>(seed.data()), seed.size()});
  std::copy(digest.bytes.begin(), digest.bytes.end(), image.begin() + 64);
  return image;
}

inline std::shared_ptr<const ChainRecord> planned_record(const VerifiedChain& chain,
                                                         const Target& target, bool host = false) {
  Plan plan = must(make_plan(chain, target));
  auto compiled = std::make_shared<CompiledChain>(CompiledChain{chain, plan, {}});
  for (const PlanBucket& bucket : plan.buckets) {
    compiled->buckets.emplace_back();
    for (const KernelPlan& kernel : bucket.kernels) {
      auto cubin = std::make_shared<Cubin>();
      cubin->symbol = kernel.symbol;
      cubin->arch = (host ? "host:" : "") + target.arch;
      cubin->compiler_id = "nvrtc 13.0.88";
      cubin->resources = {96, 0, 16, 0};
      CompiledKernel made{emit(chain, compiled->plan, kernel), {}, nullptr};
      cubin->image = fake_code(cubin->arch, made.source.body);
      made.key = sha256(cubin->image);
      made.cubin = std::move(cubin);
      compiled->buckets.back().push_back(std::move(made));
    }
  }
  return make_record(std::move(compiled));
}

inline std::shared_ptr<const ChainRecord> layer_record(const LayerSizes& sizes = {},
                                                       const std::string& target = "h200") {
  return planned_record(layer_chain(sizes), must(find_target(target)));
}

inline std::vector<u8> pack_of(llvm::ArrayRef<std::shared_ptr<const ChainRecord>> records,
                               PackContents contents = {}) {
  PackWriter writer(contents);
  for (const auto& record : records) must(writer.add(*record));
  return must(writer.bytes());
}

// The fields of a header that tests change or follow.
struct PackPlaces {
  explicit PackPlaces(const std::vector<u8>& bytes) {
    using llvm::support::endian::read64le;
    index = read64le(&bytes[32]);
    entries = read64le(&bytes[40]);
    blobs = read64le(&bytes[48]);
    num_blobs = read64le(&bytes[56]);
    manifest = read64le(&bytes[64]);
    manifest_bytes = read64le(&bytes[72]);
    pages = read64le(&bytes[80]);
  }
  u64 index, entries, blobs, num_blobs, manifest, manifest_bytes, pages;
  u64 num_pages() const {
    return pack_format::num_pages(entries) + pack_format::num_pages(num_blobs);
  }
  u64 row(u64 i) const { return index + i * pack_format::kRowBytes; }
};

inline void put_digest(std::vector<u8>& bytes, u64 at, u64 from, u64 count) {
  const KernelKey digest = sha256(llvm::makeArrayRef(bytes).slice(from, count));
  std::copy(digest.bytes.begin(), digest.bytes.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
}

// Makes the digest of the header right again.
inline void seal_header(std::vector<u8>& bytes) {
  put_digest(bytes, pack_format::kHeaderDigestAt, 0, pack_format::kHeaderDigestAt);
}

// The rows of the page table for one table, beginning at byte `pages`. Returns where they end.
inline u64 seal_pages(std::vector<u8>& bytes, u64 pages, u64 table, u64 rows, u64 row_bytes) {
  for (u64 first = 0; first < rows; first += pack_format::kPageRows) {
    const u64 at = table + first * row_bytes;
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), 32,
                bytes.begin() + static_cast<ptrdiff_t>(pages));
    put_digest(bytes, pages + 32, at, std::min(pack_format::kPageRows, rows - first) * row_bytes);
    pages += pack_format::kPageEntryBytes;
  }
  return pages;
}

// The same for entries, page table, manifest and header; the header's places are within the file.
inline void seal(std::vector<u8>& bytes) {
  using llvm::support::endian::read32le;
  using llvm::support::endian::read64le;
  const PackPlaces at(bytes);
  for (u64 i = 0; i < at.entries; ++i) {
    const u64 offset = read64le(&bytes[at.row(i) + 80]);
    const u64 count = read32le(&bytes[at.row(i) + 88]);
    if (offset > bytes.size() || count > bytes.size() - offset) continue;
    put_digest(bytes, at.row(i) + 32, offset, count);
  }
  const u64 blob_pages = seal_pages(bytes, at.pages, at.index, at.entries, pack_format::kRowBytes);
  seal_pages(bytes, blob_pages, at.blobs, at.num_blobs, pack_format::kBlobRowBytes);
  put_digest(bytes, 112, at.pages, at.num_pages() * pack_format::kPageEntryBytes);
  put_digest(bytes, 144, at.manifest, at.manifest_bytes);
  seal_header(bytes);
}

}  // namespace catenary::test
