// SPDX-License-Identifier: Apache-2.0
#include "ir/npy.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "ir/descriptor.h"
#include "ir/names.h"
#include "ir/output_file.h"
#include "ir/reference/reference_program.h"

namespace catenary {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kHeaderAlign = 64;           // the data starts at a multiple of it
constexpr size_t kMaxHeaderBytes = 64 << 10;  // NumPy's needs 128 for any shape

struct Header {
  std::string descr;
  bool fortran_order = false;
  llvm::SmallVector<i64, 4> shape;
};

// The header is a Python dict literal with the keys descr, fortran_order and shape, in any order.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : rest_(text) {}

  std::optional<Header> read() {
    Header header;
    int seen = 0;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      const auto key = string();
      if (!key || !take(':')) return std::nullopt;
      if (*key == "descr") {
        auto descr = string();
        if (!descr) return std::nullopt;
        header.descr = *descr;
        seen |= 1;
      } else if (*key == "fortran_order") {
        const bool yes = word("True");
        if (!yes && !word("False")) return std::nullopt;
        header.fortran_order = yes;
        seen |= 2;
      } else if (*key == "shape") {
        if (!tuple(header.shape)) return std::nullopt;
        seen |= 4;
      } else {
        return std::nullopt;
      }
      take(',');
    }
    skip_space();
    if (seen != 7 || !rest_.empty()) return std::nullopt;
    return header;
  }

 private:
  void skip_space() {
    const size_t start = rest_.find_first_not_of(" \t\n\r");
    rest_.remove_prefix(start == std::string_view::npos ? rest_.size() : start);
  }

  bool take(char c) {
    skip_space();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool word(std::string_view text) {
    skip_space();
    if (rest_.substr(0, text.size()) != text) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  std::optional<std::string> string() {
    const char quote = take('\'') ? '\'' : take('"') ? '"' : '\0';
    const size_t end = rest_.find(quote);
    if (!quote || end == std::string_view::npos) return std::nullopt;
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool tuple(llvm::SmallVectorImpl<i64>& numbers) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_space();
      i64 number = 0;
      size_t digits = 0;
      while (digits < rest_.size() && is_digit(rest_[digits])) {
        if (digits == 18) return false;
        number = number * 10 + (rest_[digits++] - '0');
      }
      if (digits == 0) return false;
      rest_.remove_prefix(digits);
      numbers.push_back(number);
      if (take(')')) return true;
      if (!take(',')) return false;
    }
    return true;
  }

  std::string_view rest_;
};

std::optional<DType> dtype_of(std::string_view descr) {
  if (descr == "<f4") return DType::kF32;
  if (descr == "<f2") return DType::kF16;
  if (descr == "<i4") return DType::kI32;
  if (descr == "|i1" || descr == "|u1") return DType::kI8;
  // As ml_dtypes names them: numpy keeps two types of one size apart by their kinds.
  if (descr == "<V1" || descr == "|V1") return DType::kE4M3;
  if (descr == "<f1" || descr == "|f1") return DType::kE5M2;
  if (descr == "<V2" || descr == "|V2" || descr == "<u2") return DType::kBF16;
  return std::nullopt;
}

std::string_view descr_of(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "|V2";
    case DType::kF16:
      return "<f2";
    case DType::kF32:
      return "<f4";
    case DType::kI32:
      return "<i4";
    case DType::kI8:
      return "|i1";
    case DType::kE4M3:
      return "<V1";
    case DType::kE5M2:
      return "<f1";
    case DType::kI4:
    case DType::kU4:
      break;  // only outputs are written
  }
  return "";
}

template <typename... Args>
Error io_error(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kIo, "{} {}", quoted(path),
                    fmt::format(format, std::forward<Args>(args)...));
}

// The type of the elements, without bytes yet.
Expected<NpyArray> check_header(const std::string& path, const Header& header) {
  if (header.fortran_order) {
    return io_error(path, "is in Fortran order: save np.ascontiguousarray of it");
  }
  const bool wide = header.descr == "<f8" || header.descr == "<i8";
  const auto dtype = dtype_of(wide ? header.descr.substr(0, 2) + "4" : header.descr);
  if (!dtype && header.descr.starts_with('>')) {
    return io_error(path,
                    "is big-endian (dtype {}): save it as little-endian, as by "
                    "array.astype(array.dtype.newbyteorder('<'))",
                    quoted(header.descr));
  }
  if (!dtype) {
    return io_error(path, "holds dtype {}: convert it to float32, float16, bfloat16 or int32",
                    quoted(header.descr));
  }
  if (header.shape.size() > static_cast<size_t>(kMaxRank)) {
    return io_error(path, "has {} dimensions: reshape it to at most {}", header.shape.size(),
                    kMaxRank);
  }
  NpyArray array;
  array.type.dtype = *dtype;
  array.wide = wide;
  for (i64 size : header.shape) {
    if (size > kMaxDimSize) return io_error(path, "has size {}: make it at most 2^40", size);
    array.type.shape.push_back({size, false});
  }
  return array;
}

// Bytes of contiguous elements of `element` bytes, or nothing if they exceed `limit`.
std::optional<i64> bytes_within(const TensorType& type, i64 element, i64 limit) {
  i64 bytes = element;
  for (const Dim& dim : type.shape) {
    if (dim.size == 0) return 0;
  }
  for (const Dim& dim : type.shape) {
    if (bytes > limit / dim.size) return std::nullopt;
    bytes *= dim.size;
  }
  return bytes;
}

// The open file. Read and not mapped: a file that another process shortens meanwhile is an error,
// where an access to its pages would end this one.
class Reader {
 public:
  explicit Reader(const std::string& path)
      // Opening a pipe would wait for its writer.
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (!file_ || ::fstat(file_.get(), &info_) != 0) error_ = errno;
  }

  int error() const { return error_; }
  bool is_regular() const { return S_ISREG(info_.st_mode); }
  i64 bytes() const { return info_.st_size; }
  i64 position() const { return position_; }

  // Reads up to `count` bytes; fewer at the end of the file or with an error().
  size_t read(void* to, size_t count) {
    size_t filled = 0;
    while (filled < count) {
      const ssize_t got = ::read(file_.get(), static_cast<char*>(to) + filled, count - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) error_ = errno;
      if (got <= 0) break;
      filled += static_cast<size_t>(got);
    }
    position_ += static_cast<i64>(filled);
    return filled;
  }

 private:
  Descriptor file_;
  int error_ = 0;
  i64 position_ = 0;
  struct stat info_ = {};
};

// The header's text, with the reader at the first byte of data; nothing if it is no .npy file.
std::optional<std::string> read_header_text(Reader& reader) {
  u8 start[12];
  if (reader.read(start, 10) != 10 || std::memcmp(start, kMagic.data(), kMagic.size()) != 0) {
    return std::nullopt;
  }
  const int major = start[6];
  if (major != 1 && major != 2) return std::nullopt;
  if (major == 2 && reader.read(start + 10, 2) != 2) return std::nullopt;
  size_t length = start[8] | start[9] << 8;
  if (major == 2) length |= start[10] << 16 | size_t{start[11]} << 24;
  if (length > kMaxHeaderBytes || static_cast<i64>(length) > reader.bytes()) return std::nullopt;
  std::string text(length, '\0');
  if (reader.read(text.data(), length) != length) return std::nullopt;
  return text;
}

}  // namespace

Expected<NpyArray> read_npy(const std::string& path) {
  Reader reader(path);
  const auto unreadable = [&] {
    return io_error(path, "could not be read ({}): check the path and its permissions",
                    std::strerror(reader.error()));
  };
  if (reader.error() != 0) return unreadable();
  // Reading a pipe or a device might never end.
  if (!reader.is_regular()) {
    return io_error(path, "is not a regular file: give the path of an .npy file");
  }
  const auto text = read_header_text(reader);
  if (reader.error() != 0) return unreadable();
  const auto header = text ? HeaderReader(*text).read() : std::optional<Header>();
  if (!header) {
    return io_error(path,
                    "has no .npy header of version 1 or 2 at its start: write it with numpy.save");
  }
  Expected<NpyArray> array = check_header(path, *header);
  if (!array) return array.takeError();
  const auto wrong_size = [&](i64 size) {
    return io_error(path,
                    "has {} bytes of data, not those of {}: it is truncated or damaged, save it "
                    "again",
                    size, to_string(*array));
  };
  const i64 size = reader.bytes() - reader.position();
  const i64 element = array->wide ? 8 : dtype_bytes(array->type.dtype);
  const auto bytes = bytes_within(array->type, element, size);
  if (!bytes || *bytes != size) return wrong_size(size);
  array->bytes.resize(static_cast<size_t>(size));
  const size_t got = reader.read(array->bytes.data(), array->bytes.size());
  if (reader.error() != 0) return unreadable();
  if (got != array->bytes.size()) return wrong_size(static_cast<i64>(got));
  return array;
}

std::string to_string(const NpyArray& array) {
  std::string text = to_string(array.type);
  if (array.wide) text.replace(0, 3, array.type.dtype == DType::kF32 ? "f64" : "i64");
  return text;
}

i64 wide_integer(const NpyArray& array, i64 index) {
  i64 value = 0;
  std::memcpy(&value, array.bytes.data() + index * 8, sizeof value);
  return value;
}

double npy_element(const NpyArray& array, i64 index) {
  if (!array.wide) return load_element(array.type.dtype, array.bytes.data(), index);
  if (array.type.dtype == DType::kI32) return static_cast<double>(wide_integer(array, index));
  double value = 0;
  std::memcpy(&value, array.bytes.data() + index * 8, sizeof value);
  return value;
}

Error write_npy(const std::string& path, const TensorType& type, const void* data) {
  llvm::SmallVector<i64, 4> sizes;
  for (const Dim& dim : type.shape) sizes.push_back(dim.size);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                  descr_of(type.dtype), fmt::join(sizes, ", "), sizes.size() == 1 ? "," : "");
  const size_t before = kMagic.size() + 4;
  const size_t total =
      (before + header.size() + 1 + kHeaderAlign - 1) / kHeaderAlign * kHeaderAlign;
  header.append(total - before - header.size() - 1, ' ');
  header += '\n';

  Expected<OutputFile> file = OutputFile::open(path);
  if (!file) return file.takeError();
  const char version_and_length[] = {'\1', '\0', static_cast<char>(header.size() & 255),
                                     static_cast<char>(header.size() >> 8)};
  file->write(llvm::StringRef(kMagic.data(), kMagic.size()));
  file->write(llvm::StringRef(version_and_length, sizeof version_and_length));
  file->write(header);
  const auto strides = type.strides.empty() ? contiguous_strides(type.shape) : type.strides;
  const i64 element = dtype_bytes(type.dtype);
  const i64 count = num_elements(type);
  llvm::SmallVector<i64, 4> at(type.rank(), 0);
  for (i64 i = 0; i < count; ++i) {
    i64 offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
    file->write({static_cast<const char*>(data) + offset * element, static_cast<size_t>(element)});
    advance(type.shape, at);
  }
  return file->commit();
}

}  // namespace catenary
