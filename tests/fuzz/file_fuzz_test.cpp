// SPDX-License-Identifier: Apache-2.0
// Mutated files: arrays, cache entries and tuning records, half of them with a digest that is right
// again. Each is read, or refused with the error of a damaged file; what is read survives writing.
#include <fstream>

#include "ir/npy.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "runtime/cache/cache_entry.h"
#include "runtime/tuning/tuning_record.h"
#include "tests/support/cache_samples.h"
#include "tests/support/fuzz.h"
#include "tests/support/temp_dir.h"

using namespace catenary;

namespace {

std::string text_of(const std::vector<u8>& bytes) { return {bytes.begin(), bytes.end()}; }
llvm::ArrayRef<u8> bytes_of(const std::string& text) {
  return {reinterpret_cast<const u8*>(text.data()), text.size()};
}

std::string binary(std::initializer_list<int> bytes) {
  std::string text;
  for (int byte : bytes) text += static_cast<char>(byte);
  return text;
}

const std::vector<std::string> kNumbers = {binary({0}),
                                           binary({1}),
                                           binary({0xff}),
                                           binary({0xff, 0xff, 0xff, 0xff}),
                                           binary({0, 0, 0, 0x80}),
                                           binary({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}),
                                           binary({0, 0, 0, 0, 0, 0, 0, 0})};

void expect_code(Error error, ErrorCode code) {
  const ErrorReport report = take_report(std::move(error));
  CAPTURE(report.message);
  REQUIRE(report.code == code);
  REQUIRE(!report.message.empty());
}

std::string npy_file(const std::string& descr, const std::string& shape, size_t bytes) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  header.resize(117, ' ');
  header += '\n';
  return "\x93NUMPY" + binary({1, 0, 118, 0}) + header + std::string(bytes, '\x3f');
}

TuningRecord sample_record() {
  TuningRecord record;
  record.signature = "s";
  record.target = "h200";
  record.arch = "sm_90a";
  record.sm_count = 132;
  record.templates = "t";
  record.device = "NVIDIA H200";
  record.date = "2026-11-22T00:00:00Z";
  record.winner = record.model = {"gemm_sm90", "128x128x64", 1};
  record.candidates.resize(2);
  record.candidates[0].id = record.winner;
  record.candidates[0].median_us = 12.25;
  record.candidates[1].id = {"skinny", "16x8", 4};
  record.candidates[1].note = "spills \"much\"";
  return record;
}

// The digest at the end of an entry, over all before it.
std::string entry_with_digest(std::string bytes) {
  if (bytes.size() < 32) return bytes;
  const auto digest = llvm::SHA256::hash(bytes_of(bytes).drop_back(32));
  std::copy(digest.begin(), digest.end(), bytes.end() - 32);
  return bytes;
}

// The digest at the end of a record's first line, over the other lines.
std::string record_with_digest(std::string bytes) {
  const size_t line = bytes.find('\n');
  if (line == std::string::npos || line < 64) return bytes;
  const auto digest = llvm::SHA256::hash(bytes_of(bytes).drop_front(line + 1));
  return bytes.replace(line - 64, 64, llvm::toHex(digest, /*LowerCase=*/true));
}

}  // namespace

TEST_CASE("mutated .npy files") {
  const test::TempDir folder(test::fast_folder());
  const std::string path = folder / "x.npy";
  std::vector<std::string> words = kNumbers;
  for (const char* word : {"'descr'", "'<f4'", "'|V2'", "'>f4'", "'shape'", "(", ")", ",", "{", "}",
                           "True", "False", "0", "1", "999999999999999999", "(2, 3)", "\n", " "}) {
    words.push_back(word);
  }
  const test::Mutator mutator({npy_file("<f4", "(2, 3)", 24), npy_file("|V2", "(4,)", 8),
                               npy_file("<f2", "()", 2), npy_file("<i4", "(0, 7)", 0)},
                              words);
  test::fuzz(10'000, [&](u64 seed) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << mutator.input(seed);
    Expected<NpyArray> array = read_npy(path);
    if (!array) return expect_code(array.takeError(), ErrorCode::kIo);
    const i64 bytes = num_elements(array->type) * dtype_bytes(array->type.dtype);
    REQUIRE(static_cast<i64>(array->bytes.size()) == bytes);
  });
}

TEST_CASE("mutated cache entries") {
  std::vector<std::string> corpus;
  for (const int bytes : {0, 1, 200}) {
    const test::Sample sample(bytes, static_cast<size_t>(bytes));
    corpus.push_back(text_of(serialize_entry({sample.key, sample.record, sample.cubin})));
  }
  const test::Mutator mutator(corpus, kNumbers);
  test::fuzz(10'000, [&](u64 seed) {
    const std::string changed = mutator.input(seed);
    const std::string input = seed % 2 == 0 ? entry_with_digest(changed) : changed;
    Expected<CacheEntry> entry = parse_entry(bytes_of(input));
    if (!entry) return expect_code(entry.takeError(), ErrorCode::kCorruptArtifact);
    REQUIRE(text_of(serialize_entry(*entry)) == input);
  });
}

TEST_CASE("mutated tuning records") {
  const std::string record = text_of(tuning_bytes(sample_record()));
  std::vector<std::string> words = {"[",           "]",          "{",
                                    "}",           "\"",         "\\",
                                    "\\u0000",     "\xff",       "null",
                                    "-1",          "1e999",      "1e-999",
                                    "0.1",         "4294967296", "9223372036854775808",
                                    "\"split_k\"", "\"us\"",     "\"candidates\"",
                                    ":",           ",",          "\n"};
  words.push_back(std::string(5000, '['));
  const test::Mutator mutator({record}, words);
  test::fuzz(10'000, [&](u64 seed) {
    const std::string changed = mutator.input(seed);
    const std::string input = seed % 8 == 0 ? changed : record_with_digest(changed);
    Expected<TuningRecord> read = parse_tuning(bytes_of(input));
    if (!read) return expect_code(read.takeError(), ErrorCode::kCorruptArtifact);
    const std::string written = text_of(tuning_bytes(*read));
    Expected<TuningRecord> again = parse_tuning(bytes_of(written));
    REQUIRE(!!again);
    REQUIRE(text_of(tuning_bytes(*again)) == written);
    REQUIRE(tuning_summary(*again) == tuning_summary(*read));
  });
}
