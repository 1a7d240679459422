// SPDX-License-Identifier: Apache-2.0
// Mutated files: arrays, cache entries and tuning records, half of them with a digest that is right
// again.
#include "tests/fuzz/file_targets.h"
#include "tests/support/cache_samples.h"
#include "tests/support/fuzz.h"

using namespace catenary;
using fuzz::text_of;

namespace {

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

}  // namespace

TEST_CASE("mutated .npy files") {
  std::vector<std::string> words = kNumbers;
  for (const char* word : {"'descr'", "'<f4'", "'|V2'", "'>f4'", "'shape'", "(", ")", ",", "{", "}",
                           "True", "False", "0", "1", "999999999999999999", "(2, 3)", "\n", " "}) {
    words.push_back(word);
  }
  const test::Mutator mutator({npy_file("<f4", "(2, 3)", 24), npy_file("|V2", "(4,)", 8),
                               npy_file("<f2", "()", 2), npy_file("<i4", "(0, 7)", 0)},
                              words);
  test::fuzz(10'000, [&](u64 seed) { fuzz::run_npy(mutator.input(seed)); });
}

TEST_CASE("mutated cache entries") {
  std::vector<std::string> corpus;
  for (const int bytes : {0, 1, 200}) {
    const test::Sample sample(bytes, static_cast<size_t>(bytes));
    corpus.push_back(text_of(serialize_entry({sample.key, sample.record, sample.cubin})));
  }
  corpus.push_back(
      text_of(serialize_entry({{}, "record", {"k", "sm_90a", "n", {}, {}}, "spills"})));
  const test::Mutator mutator(corpus, kNumbers);
  test::fuzz(10'000, [&](u64 seed) {
    const std::string changed = mutator.input(seed);
    fuzz::run_cache_entry(seed % 2 == 0 ? fuzz::entry_with_digest(changed) : changed);
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
    fuzz::run_tuning_record(seed % 8 == 0 ? changed : fuzz::record_with_digest(changed));
  });
}
