// SPDX-License-Identifier: Apache-2.0
// Writes and checks the layout of the header. The most telling reason is checked first: not an
// entry, another version, truncated, damaged.
#include "runtime/cache/cache_entry.h"

#include <algorithm>
#include <cstring>

#include "ir/sha256.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Endian.h"

namespace catenary {
namespace {

namespace endian = llvm::support::endian;

constexpr llvm::StringLiteral kMagic = "CTNCUBIN";
constexpr llvm::StringLiteral kRejectionMagic = "CTNREJCT";
constexpr u32 kVersion = 1;
constexpr size_t kNumbersAt = 12;
constexpr size_t kLengthsAt = 28;
constexpr size_t kImageBytesAt = 44;
constexpr size_t kTotalBytesAt = 52;
constexpr size_t kKeyAt = 60;
constexpr size_t kHeaderBytes = 92;
constexpr size_t kDigestBytes = 32;

Error corrupt(std::string reason) {
  return make_error_text(ErrorCode::kCorruptArtifact, std::move(reason));
}

// Removes `count` bytes from the front of `rest`, which has at least that many.
llvm::ArrayRef<u8> take(llvm::ArrayRef<u8>& rest, size_t count) {
  const llvm::ArrayRef<u8> front = rest.take_front(count);
  rest = rest.drop_front(count);
  return front;
}

std::string take_text(llvm::ArrayRef<u8>& rest, size_t count) {
  const llvm::ArrayRef<u8> bytes = take(rest, count);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::vector<u8> serialize_entry(const CacheEntry& entry) {
  const Cubin& cubin = entry.cubin;
  const bool rejected = !entry.rejection.empty();
  const llvm::ArrayRef<u8> image =
      rejected ? llvm::arrayRefFromStringRef(entry.rejection) : llvm::makeArrayRef(cubin.image);
  const KernelResources& used = cubin.resources;
  const llvm::StringRef texts[] = {entry.record, cubin.symbol, cubin.arch, cubin.compiler_id};
  size_t total = kHeaderBytes + image.size() + kDigestBytes;
  for (llvm::StringRef text : texts) total += text.size();

  std::vector<u8> out(kHeaderBytes);
  out.reserve(total);
  std::ranges::copy(rejected ? kRejectionMagic : kMagic, out.begin());
  endian::write32le(&out[kMagic.size()], kVersion);
  const int numbers[] = {used.registers, used.spill_bytes, used.stack_bytes,
                         used.static_smem_bytes};
  for (size_t i = 0; i < 4; ++i) {
    endian::write32le(&out[kNumbersAt + 4 * i], static_cast<u32>(numbers[i]));
    endian::write32le(&out[kLengthsAt + 4 * i], static_cast<u32>(texts[i].size()));
  }
  endian::write64le(&out[kImageBytesAt], image.size());
  endian::write64le(&out[kTotalBytesAt], total);
  std::ranges::copy(entry.key.bytes, out.begin() + kKeyAt);
  for (llvm::StringRef text : texts) out.insert(out.end(), text.begin(), text.end());
  out.insert(out.end(), image.begin(), image.end());
  const auto digest = sha256_digest(out);
  out.insert(out.end(), digest.begin(), digest.end());
  return out;
}

Expected<CacheEntry> parse_entry(llvm::ArrayRef<u8> bytes) {
  if (bytes.size() < kHeaderBytes + kDigestBytes) {
    return corrupt(fmt::format("it is truncated at {} bytes", bytes.size()));
  }
  const u8* header = bytes.data();
  const llvm::StringRef magic = llvm::toStringRef(bytes.take_front(kMagic.size()));
  const bool rejected = magic == kRejectionMagic;
  if (magic != kMagic && !rejected) return corrupt("it is not a cache entry");
  if (const u32 version = endian::read32le(header + kMagic.size()); version != kVersion) {
    return corrupt(fmt::format("it has format version {}, not {}", version, kVersion));
  }
  if (const u64 total = endian::read64le(header + kTotalBytesAt); total != bytes.size()) {
    return corrupt(fmt::format("it has {} bytes, not {}", bytes.size(), total));
  }
  const llvm::ArrayRef<u8> digest = bytes.take_back(kDigestBytes);
  const llvm::ArrayRef<u8> covered = bytes.drop_back(kDigestBytes);
  const auto actual = sha256_digest(covered);
  if (!std::ranges::equal(actual, digest)) return corrupt("its digest differs");

  // Four 32-bit lengths cannot overflow the sum; the image's length is checked before it is added.
  u64 lengths[4], sum = kHeaderBytes;
  for (size_t i = 0; i < 4; ++i) sum += lengths[i] = endian::read32le(header + kLengthsAt + 4 * i);
  const u64 image_bytes = endian::read64le(header + kImageBytesAt);
  if (image_bytes > covered.size() || sum + image_bytes != covered.size()) {
    return corrupt("its lengths do not add up");
  }
  auto number = [&](size_t i) {
    return static_cast<int>(endian::read32le(header + kNumbersAt + 4 * i));
  };
  CacheEntry entry;
  std::copy_n(header + kKeyAt, entry.key.bytes.size(), entry.key.bytes.begin());
  llvm::ArrayRef<u8> rest = covered.drop_front(kHeaderBytes);
  entry.record = take_text(rest, lengths[0]);
  entry.cubin.symbol = take_text(rest, lengths[1]);
  entry.cubin.arch = take_text(rest, lengths[2]);
  entry.cubin.compiler_id = take_text(rest, lengths[3]);
  entry.cubin.resources = {number(0), number(1), number(2), number(3)};
  if (!rejected) {
    entry.cubin.image = take(rest, image_bytes).vec();
    return entry;
  }
  entry.rejection = take_text(rest, image_bytes);
  if (entry.rejection.empty() || entry.cubin.resources != KernelResources{}) {
    return corrupt("it is a rejection without a reason, or with resources of a kernel");
  }
  return entry;
}

}  // namespace catenary
