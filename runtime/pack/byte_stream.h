// SPDX-License-Identifier: Apache-2.0
// Little-endian fields, one after the other, without padding. Knows no record.
#pragma once

#include <bit>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/emit/source.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Endian.h"
#include "shared/int.h"

namespace catenary {

class ByteWriter {
 public:
  void u8_(u8 value) { bytes_.push_back(value); }
  void u32_(u32 value) { put(value); }
  void i32_(i32 value) { put(static_cast<u32>(value)); }
  void u64_(u64 value) { put(value); }
  void i64_(i64 value) { put(static_cast<u64>(value)); }
  void f64_(double value) { put(std::bit_cast<u64>(value)); }
  void text(std::string_view value) {
    u32_(static_cast<u32>(value.size()));
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }
  void key(const KernelKey& value) { raw(value.bytes); }
  void raw(llvm::ArrayRef<u8> value) { bytes_.insert(bytes_.end(), value.begin(), value.end()); }
  void align(size_t to) { bytes_.resize((bytes_.size() + to - 1) / to * to); }
  size_t size() const { return bytes_.size(); }
  std::vector<u8> take() { return std::move(bytes_); }
  llvm::ArrayRef<u8> bytes() const { return bytes_; }

 private:
  template <typename T>
  void put(T value) {
    u8 bytes[sizeof(T)];
    llvm::support::endian::write<T, llvm::support::little, llvm::support::unaligned>(bytes, value);
    raw(bytes);
  }
  std::vector<u8> bytes_;
};

// Reads what ByteWriter wrote. A read beyond the end gives zeros, and ok() is false from then on:
// the caller checks once, after the last field.
class ByteReader {
 public:
  explicit ByteReader(llvm::ArrayRef<u8> bytes) : rest_(bytes) {}

  u8 u8_() { return get<u8>(); }
  // `count` flags, the first one lowest; other bits are an error.
  u8 flags(int count) {
    const u8 value = u8_();
    ok_ = ok_ && value < 1 << count;
    return value;
  }
  bool flag() {
    const u8 value = u8_();
    ok_ = ok_ && value <= 1;
    return value == 1;
  }
  u32 u32_() { return get<u32>(); }
  i32 i32_() { return static_cast<i32>(get<u32>()); }
  u64 u64_() { return get<u64>(); }
  i64 i64_() { return static_cast<i64>(get<u64>()); }
  double f64_() { return std::bit_cast<double>(get<u64>()); }
  std::string text() {
    const llvm::ArrayRef<u8> bytes = raw(u32_());
    return {bytes.begin(), bytes.end()};
  }
  KernelKey key() {
    KernelKey value;
    const llvm::ArrayRef<u8> bytes = raw(value.bytes.size());
    std::copy(bytes.begin(), bytes.end(), value.bytes.begin());
    return value;
  }
  llvm::ArrayRef<u8> raw(size_t count) {
    if (count > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const llvm::ArrayRef<u8> front = rest_.take_front(count);
    rest_ = rest_.drop_front(count);
    return front;
  }
  void skip(size_t count) { (void)raw(count); }
  // The number of elements that follow, each of at least `bytes` bytes.
  size_t count(size_t bytes) {
    const size_t value = u32_();
    if (value > rest_.size() / bytes) {
      ok_ = false;
      rest_ = {};
      return 0;
    }
    return value;
  }

  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }
  size_t left() const { return rest_.size(); }

 private:
  template <typename T>
  T get() {
    const llvm::ArrayRef<u8> bytes = raw(sizeof(T));
    if (bytes.size() != sizeof(T)) return T{};
    return llvm::support::endian::read<T, llvm::support::little, llvm::support::unaligned>(
        bytes.data());
  }
  llvm::ArrayRef<u8> rest_;
  bool ok_ = true;
};

}  // namespace catenary
