// SPDX-License-Identifier: Apache-2.0
// Mutated packs, most of them with digests that are right again, so that the checks after the
// digests are reached. Each is refused with the error of a damaged or newer file, or all that is
// read from it can be bound to a device and written again.
#include "runtime/executable.h"
#include "runtime/lookup/nearest.h"
#include "runtime/pack/pack.h"
#include "tests/support/fuzz.h"
#include "tests/support/packed_chains.h"

using namespace catenary;
using test::layer_record;
using test::LayerSizes;
using test::must;
using test::PackPlaces;

namespace {

std::string text_of(const std::vector<u8>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<u8> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

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

void expect_refusal(Error error) {
  const ErrorReport report = take_report(std::move(error));
  CAPTURE(report.message);
  REQUIRE((report.code == ErrorCode::kCorruptArtifact || report.code == ErrorCode::kUnsupported));
  REQUIRE(!report.message.empty());
}

// What a launch computes from the record: no index is out of range, no sum overflows.
void use(const ChainRecord& record) {
  const i64 hi = record.symbol ? record.symbol->hi : 0;
  for (const TensorRecord& tensor : record.tensors) {
    REQUIRE(byte_span(tensor.type).bytes(hi) <= kMaxTensorBytes);
    REQUIRE(tensor.in_place < static_cast<int>(record.num_inputs));
  }
  for (const BucketRecord& bucket : record.buckets) {
    for (const KernelRecord& kernel : bucket.kernels) {
      REQUIRE(kernel.grid.ctas(bucket.hi) >= 0);
      for (const SlotRecord& slot : kernel.slots) {
        REQUIRE(slot.tensor < static_cast<int>(record.tensors.size()));
      }
      for (const MapBinding& map : kernel.maps) {
        REQUIRE(map.slot < static_cast<int>(kernel.slots.size()));
        (void)bind_map(map).at(0, bucket.hi);
      }
    }
  }
}

// Opens, reads everything, looks for a chain, and writes what was read.
void execute(const std::vector<u8>& bytes, const ChainRequest& request) {
  auto pack = Pack::open_memory(bytes);
  if (!pack) return expect_refusal(pack.takeError());
  PackWriter writer;
  for (size_t i = 0; i < (*pack)->size(); ++i) {
    auto record = (*pack)->record(i);
    if (!record) {
      expect_refusal(record.takeError());
      continue;
    }
    use(**record);
    Expected<bool> added = writer.add(**pack, i);
    if (!added) expect_refusal(added.takeError());
  }
  REQUIRE(!nearest_text(request, {*pack}).empty());
  const std::vector<u8> again = must(writer.bytes());
  REQUIRE(must(Pack::open_memory(again))->size() == writer.size());
}

bool tables_are_within(const std::vector<u8>& bytes) {
  if (bytes.size() < pack_format::kHeaderBytes) return false;
  const PackPlaces at(bytes);
  const auto within = [&](u64 offset, u64 count, u64 each) {
    return offset <= bytes.size() && count <= (bytes.size() - offset) / each;
  };
  return within(at.index, at.entries, pack_format::kRowBytes) &&
         within(at.blobs, at.num_blobs, pack_format::kBlobRowBytes) &&
         within(at.manifest, at.manifest_bytes, 1) &&
         within(at.pages, at.num_pages(), pack_format::kPageEntryBytes);
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

std::vector<std::string> packs() {
  LayerSizes fixed;
  fixed.rows = "64";
  std::vector<std::string> corpus;
  for (const auto& records : std::vector<std::vector<std::shared_ptr<const ChainRecord>>>{
           {},
           {layer_record(fixed, "a100")},
           {layer_record(), layer_record({}, "a100")},
           {experts_record()}}) {
    corpus.push_back(text_of(test::pack_of(records, {false, false})));
  }
  return corpus;
}

ChainRequest request() {
  return make_request(test::layer_chain(), must(find_target("b200")), false, {});
}

}  // namespace

TEST_CASE("mutated packs") {
  const test::Mutator mutator(packs(), words());
  const ChainRequest asked = request();
  test::fuzz(20'000, [&](u64 seed) {
    std::vector<u8> bytes = bytes_of(mutator.input(seed));
    if (seed % 8 != 0 && tables_are_within(bytes)) {
      llvm::support::endian::write64le(&bytes[24], bytes.size());
      test::seal(bytes);
    }
    execute(bytes, asked);
  });
}

// Changes in an entry only: the rest of the pack is right, and the key may not be.
TEST_CASE("mutated entries") {
  std::vector<std::string> corpus;
  for (const std::string& pack : packs()) {
    const std::vector<u8> bytes = bytes_of(pack);
    const auto opened = must(Pack::open_memory(bytes));
    for (size_t i = 0; i < opened->size(); ++i) {
      corpus.push_back(text_of(must(opened->entry_bytes(i))));
    }
  }
  const test::Mutator mutator(corpus, words());
  test::fuzz(20'000, [&](u64 seed) {
    Expected<PackEntry> entry = decode_entry(bytes_of(mutator.input(seed)));
    if (!entry) return expect_refusal(entry.takeError());
    REQUIRE(entry_problem(*entry).empty());
    use(entry->record);
    const std::vector<u8> written = encode_entry(*entry);
    REQUIRE(encode_entry(must(decode_entry(written))) == written);
  });
}

TEST_CASE("mutated lines of a trace") {
  LayerSizes sizes;
  sizes.name = "a";
  const std::string line =
      request_line(make_request(test::layer_chain(sizes), must(find_target("h200")), true, {}));
  const test::Mutator mutator({line, request_line(request())},
                              {"{", "}", "\"", "\\u0000", "1e999", "-1", "null", ":", ",", "\\n",
                               "\"arch\"", "sm_90a", "host:", "[", "true", "9223372036854775808"});
  test::fuzz(20'000, [&](u64 seed) {
    Expected<ChainRequest> read = parse_request_line(mutator.input(seed));
    if (!read) {
      REQUIRE(!take_report(read.takeError()).message.empty());
      return;
    }
    const std::string written = request_line(*read);
    REQUIRE(request_line(must(parse_request_line(written))) == written);
  });
}
