// SPDX-License-Identifier: Apache-2.0
// Mutated packs, most of them with digests that are right again, so that the checks after the
// digests are reached; mutated entries and lines of a trace.
#include "tests/fuzz/pack_target.h"
#include "tests/support/fuzz.h"
#include "tests/support/packed_chains.h"

using namespace catenary;
using test::layer_record;
using test::LayerSizes;
using test::must;

namespace {

std::string text_of(const std::vector<u8>& bytes) { return {bytes.begin(), bytes.end()}; }

std::string number(u64 value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

const std::vector<std::string>& words() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> list;
    for (u64 value : {u64{0}, u64{1}, u64{5}, u64{96}, u64{4096}, ~u64{0}, u64{1} << 63,
                      (u64{1} << 40) + 1, u64{0x7fffffff}}) {
      list.push_back(number(value, 4));
      list.push_back(number(value, 8));
    }
    for (u32 tag = 1; tag <= 8; ++tag) {
      list.push_back(number(tag, 4));
      list.push_back(number(tag | pack_format::kCritical, 4));
    }
    return list;
  }();
  return all;
}

// Rows grouped by expert, a bias by group, a scalar, and an output in place.
std::shared_ptr<const ChainRecord> experts_record() {
  const char* text =
      "chain experts[M in 1..64](input x: bf16[M, 256], weight w: bf16[4, 256, 256],\n"
      "    weight b: bf16[4, 256], input ends: i32[4], scalar s: f32, input r: bf16[M, 256]) {\n"
      "  h = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n"
      "  y = add(r, scale(add(h, b @ \"en\"), s))\n  return y: bf16 inplace r\n}\n";
  return test::planned_record(must(verify(must(parse(text)))), must(find_target("h200")));
}

// Quantised weights in the packed layout.
std::shared_ptr<const ChainRecord> packed_record() {
  const char* text =
      "chain packed[M in 1..16](input x: f16[M, 256], weight q: i4[256, 256] packed,\n"
      "    weight s: f16[256, 2], weight z: i8[256, 2]) {\n"
      "  w = dequant(q, s, z) block (1, 128)\n  y = contract \"mk,nk->mn\"(x, w)\n"
      "  return y: f16\n}\n";
  return test::planned_record(must(verify(must(parse(text)))), must(find_target("h200")));
}

std::vector<std::string> packs() {
  LayerSizes fixed;
  fixed.rows = "64";
  std::vector<std::string> corpus;
  for (const auto& records : std::vector<std::vector<std::shared_ptr<const ChainRecord>>>{
           {},
           {layer_record(fixed, "a100")},
           {layer_record(), layer_record({}, "a100")},
           {experts_record()},
           {packed_record()}}) {
    corpus.push_back(text_of(test::pack_of(records, {false, false})));
  }
  corpus.push_back(text_of(test::pack_of({layer_record(fixed)}, {true, true})));
  return corpus;
}

}  // namespace

// A pack in which one to four places are overwritten, so that nothing moves: header and tables, in
// which most changes are refused, get a quarter of them.
std::string overwritten(const std::vector<std::string>& corpus, u64 seed) {
  Random random(seed);
  std::string bytes = random.pick(llvm::ArrayRef(corpus));
  const auto size = static_cast<i64>(bytes.size());
  for (i64 left = random.range(1, 4); left > 0; --left) {
    const i64 first = random.chance(25) ? 0 : static_cast<i64>(pack_format::kHeaderBytes);
    const auto at = static_cast<size_t>(random.range(first, size - 1));
    if (random.chance(40)) {
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.range(0, 7)));
    } else {
      const std::string& word = random.pick(llvm::ArrayRef(words()));
      bytes.replace(at, std::min(word.size(), bytes.size() - at), word, 0, bytes.size() - at);
    }
  }
  return bytes;
}

TEST_CASE("mutated packs") {
  const std::vector<std::string> corpus = packs();
  const test::Mutator mutator(corpus, words());
  test::fuzz(20'000, [&](u64 seed) {
    std::vector<u8> bytes =
        fuzz::pack_bytes(seed % 2 == 0 ? mutator.input(seed) : overwritten(corpus, seed));
    if (seed % 8 != 0) bytes = fuzz::sealed(std::move(bytes));
    fuzz::run_pack(bytes);
  });
}

// Changes in an entry only: the rest of the pack is right, and the key may not be.
TEST_CASE("mutated entries") {
  std::vector<std::string> corpus;
  for (const std::string& pack : packs()) {
    const std::vector<u8> bytes = fuzz::pack_bytes(pack);  // the pack does not own them
    const auto opened = must(Pack::open_memory(bytes));
    for (size_t i = 0; i < opened->size(); ++i) {
      corpus.push_back(text_of(must(opened->entry_bytes(i))));
    }
  }
  const test::Mutator mutator(corpus, words());
  test::fuzz(20'000,
             [&](u64 seed) { fuzz::run_pack_entry(fuzz::pack_bytes(mutator.input(seed))); });
}

TEST_CASE("mutated lines of a trace") {
  LayerSizes sizes;
  sizes.name = "a";
  const std::string line =
      request_line(make_request(test::layer_chain(sizes), must(find_target("h200")), true, {}));
  const std::string other =
      request_line(make_request(test::layer_chain(), must(find_target("b200")), false, {}));
  const test::Mutator mutator(
      {line, other}, {"{", "}", "\"", "\\u0000", "1e999", "-1", "null", ":", ",", "\\n", "\"arch\"",
                      "sm_90a", "host:", "[", "true", "9223372036854775808"});
  test::fuzz(20'000, [&](u64 seed) { fuzz::run_trace_line(mutator.input(seed)); });
}
