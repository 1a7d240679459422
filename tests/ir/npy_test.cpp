// SPDX-License-Identifier: Apache-2.0
// .npy files: bytes as NumPy writes them, round trips, and malformed files.
#include "ir/npy.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ir/reference/reference.h"
#include "llvm/Support/FileSystem.h"

using namespace catenary;

namespace {

class TempFile {
 public:
  TempFile() {
    llvm::SmallString<64> path;
    int fd = -1;
    REQUIRE_FALSE(llvm::sys::fs::createTemporaryFile("catenary", "npy", fd, path));
    llvm::raw_fd_ostream(fd, /*shouldClose=*/true).flush();
    path_ = std::string(path.str());
  }
  ~TempFile() { llvm::sys::fs::remove(path_); }
  const std::string& path() const { return path_; }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

// What numpy.save writes for `dict` and `data`.
std::string npy(std::string dict, const std::string& data, int major = 1) {
  std::string text = "\x93NUMPY";
  text += static_cast<char>(major);
  text += '\0';
  const size_t length = major == 1 ? 2 : 4;
  while ((8 + length + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';
  for (size_t i = 0; i < length; ++i) text += static_cast<char>(dict.size() >> (8 * i));
  return text + dict + data;
}

const char* kDict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";

void check_refused(const std::string& bytes, const std::string& why) {
  const TempFile file;
  file.write(bytes);
  auto array = read_npy(file.path());
  REQUIRE_FALSE(!!array);
  const ErrorReport report = take_report(array.takeError());
  CAPTURE(report.message);
  CHECK(report.code == ErrorCode::kIo);
  CHECK(report.message.find(file.path()) != std::string::npos);
  CHECK(report.message.find(why) != std::string::npos);
}

}  // namespace

TEST_SUITE("ir") {
  TEST_CASE("reads what NumPy writes, versions 1 and 2, keys in any order") {
    const std::string data(24, '\x3f');
    const TempFile file;
    for (const std::string& bytes :
         {npy(kDict, data), npy(kDict, data, 2),
          npy("{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}", data)}) {
      file.write(bytes);
      auto array = read_npy(file.path());
      REQUIRE(!!array);
      CHECK(to_string(array->type) == "f32[2, 3]");
      CHECK(array->bytes.size() == 24);
      CHECK(std::memcmp(array->bytes.data(), data.data(), 24) == 0);
    }
  }

  TEST_CASE("dtypes and shapes") {
    const TempFile file;
    const auto type_of = [&](const char* descr, const char* shape, size_t bytes) {
      file.write(
          npy(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape),
              std::string(bytes, 'x')));
      auto array = read_npy(file.path());
      return array ? to_string(*array) : take_report(array.takeError()).message;
    };
    CHECK(type_of("<f2", "(5,)", 10) == "f16[5]");
    CHECK(type_of("<i4", "(1, 2)", 8) == "i32[1, 2]");
    CHECK(type_of("<V2", "(3,)", 6) == "bf16[3]");
    CHECK(type_of("|V2", "(3,)", 6) == "bf16[3]");
    CHECK(type_of("<u2", "(3,)", 6) == "bf16[3]");
    CHECK(type_of("<V1", "(3,)", 3) == "e4m3[3]");
    CHECK(type_of("<f1", "(3,)", 3) == "e5m2[3]");
    CHECK(type_of("<f8", "(2, 1)", 16) == "f64[2, 1]");
    CHECK(type_of("<i8", "(2,)", 16) == "i64[2]");
    CHECK(type_of("<f4", "()", 4) == "f32");
    CHECK(type_of("<f4", "(4, 0)", 0) == "f32[4, 0]");
  }

  TEST_CASE("elements of 8 bytes are read as they are") {
    const TempFile file;
    const auto read = [&](const char* descr, const auto& values) {
      file.write(
          npy(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (2,), }}", descr),
              std::string(reinterpret_cast<const char*>(values), 16)));
      auto array = read_npy(file.path());
      REQUIRE(!!array);
      CHECK(array->wide);
      return std::move(*array);
    };
    const double floats[] = {1 + 0x1p-40, -1e300};
    const NpyArray f64 = read("<f8", floats);
    CHECK(npy_element(f64, 0) == 1 + 0x1p-40);
    CHECK(npy_element(f64, 1) == -1e300);
    const i64 integers[] = {-7, i64{1} << 40};
    const NpyArray i64s = read("<i8", integers);
    CHECK(npy_element(i64s, 0) == -7);
    CHECK(wide_integer(i64s, 1) == i64{1} << 40);
  }

  TEST_CASE("writes the bytes of numpy.save, gathers strides, reads them back") {
    const TempFile file;
    TensorType type;
    type.shape = {{2, false}, {3, false}};
    const std::string data = "aaaabbbbccccddddeeeeffff";
    REQUIRE_FALSE(!!write_npy(file.path(), type, data.data()));
    CHECK(file.read() == npy(kDict, data));
    type.strides = {1, 2};  // column-major
    REQUIRE_FALSE(!!write_npy(file.path(), type, data.data()));
    CHECK(file.read() == npy(kDict, "aaaacccceeeebbbbddddffff"));

    for (DType dtype : {DType::kBF16, DType::kF16, DType::kI32}) {
      TensorType vector;
      vector.dtype = dtype;
      vector.shape = {{3, false}};
      std::vector<char> elements(12);
      for (int i = 0; i < 3; ++i) store_element(dtype, elements.data(), i, i - 1);
      REQUIRE_FALSE(!!write_npy(file.path(), vector, elements.data()));
      auto array = read_npy(file.path());
      REQUIRE(!!array);
      CHECK(array->type == vector);
      for (int i = 0; i < 3; ++i) CHECK(load_element(dtype, array->bytes.data(), i) == i - 1);
    }
  }

  TEST_CASE("a file that is truncated at any byte is rejected") {
    const std::string whole = npy(kDict, std::string(24, 'x'));
    const TempFile file;
    int accepted = 0;
    for (size_t size = 0; size < whole.size(); ++size) {
      file.write(whole.substr(0, size));
      auto array = read_npy(file.path());
      accepted += !!array;
      if (!array) CHECK(take_report(array.takeError()).code == ErrorCode::kIo);
    }
    CHECK(accepted == 0);
  }

  TEST_CASE("malformed files are rejected with the path and the reason") {
    const std::string data(24, 'x');
    const auto dict = [&](const char* descr, const char* order, const char* shape) {
      return npy(
          fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", descr, order, shape),
          data);
    };
    check_refused("", ".npy header");
    check_refused("PK\x03\x04 and more of a zip file", ".npy header");
    check_refused(npy(kDict, data, 9), ".npy header");
    check_refused(npy("{'descr': '<f4'}", data), ".npy header");
    check_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }", data),
                  ".npy header");
    check_refused(npy(std::string(kDict) + "}", data), ".npy header");
    check_refused(dict("<f4", "True", "(2, 3)"), "Fortran order");
    check_refused(dict("<c8", "False", "(3,)"), "'<c8'");
    check_refused(dict("<f8", "True", "(3, 1)"), "Fortran order: save np.ascontiguousarray");
    check_refused(dict("<f8", "False", "(4,)"), "24 bytes of data, not those of f64[4]");
    check_refused(dict(">f4", "False", "(2, 3)"), "'>f4'");
    check_refused(dict("<f4", "False", "(2, 4)"), "24 bytes of data");
    check_refused(dict("<f4", "False", "(2, 2)"), "24 bytes of data");
    check_refused(dict("<f4", "False", "(1, 1, 1, 1, 1, 1, 1, 2, 3)"), "9 dimensions");
    check_refused(dict("<f4", "False", "(1099511627776, 1099511627776)"), "24 bytes of data");
    check_refused(dict("<f4", "False", "(99999999999999999,)"), "2^40");
    check_refused(dict("<f4", "False", "(99999999999999999999,)"), ".npy header");
  }

  TEST_CASE("errors name paths that cannot be read or written") {
    auto missing = read_npy("no/such/file.npy");
    REQUIRE_FALSE(!!missing);
    CHECK(take_report(missing.takeError()).message.find("no/such/file.npy") != std::string::npos);
    auto device = read_npy("/dev/zero");
    REQUIRE_FALSE(!!device);
    CHECK(take_report(device.takeError()).code == ErrorCode::kIo);
    const float one = 1;
    const ErrorReport report = take_report(write_npy("no/such/dir/x.npy", TensorType{}, &one));
    CHECK(report.code == ErrorCode::kIo);
    CHECK(report.message.find("no/such/dir/x.npy") != std::string::npos);
    // A full device: the stream must not abort the process.
    CHECK(take_report(write_npy("/dev/full", TensorType{}, &one)).code == ErrorCode::kIo);
  }
}

TEST_CASE("a file that is shortened while it is read is an error, not a signal") {
  const TempFile file;
  // Large enough to be mapped by a reader that maps.
  const i64 bytes = 16 << 20;
  const std::string dict =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", bytes / 4);
  const std::string whole = npy(dict, std::string(bytes, 'x'));
  for (int i = 0; i < 40; ++i) {
    file.write(whole);
    std::atomic<bool> go{false};
    std::thread shortens([&] {
      while (!go) {
      }
      // Later in each round: at the header, then ever further in the data.
      for (std::atomic<int> wait{0}; wait < i * 40000; ++wait) {
      }
      std::filesystem::resize_file(file.path(), 1000);
    });
    go = true;
    auto array = read_npy(file.path());
    shortens.join();
    if (array) {
      CHECK(array->bytes.back() == std::byte{'x'});
    } else {
      const ErrorReport report = take_report(array.takeError());
      INFO(report.message);
      CHECK(report.code == ErrorCode::kIo);
      CHECK(report.message.find("truncated") != std::string::npos);
    }
  }
}

TEST_CASE("a big-endian file is called so") {
  for (const char* dtype : {">f4", ">f2", ">i4", ">V2"}) {
    check_refused(
        npy(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (2,), }}", dtype),
            std::string(8, 'x')),
        "is big-endian");
  }
}
