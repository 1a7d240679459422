// SPDX-License-Identifier: Apache-2.0
// A pack keeps what a launch needs, is the same bytes however it is built, and is refused with one
// sentence when a byte of it is wrong.
#include "runtime/pack/pack.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "ir/json.h"
#include "tests/support/packed_chains.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using test::layer_record;
using test::LayerSizes;
using test::must;
using test::pack_of;
using test::PackPlaces;
using test::seal;
using test::seal_header;

namespace {

using llvm::support::endian::write32le;
using llvm::support::endian::write64le;

const std::vector<u8>& two_archs() {
  static const std::vector<u8> bytes = pack_of({layer_record(), layer_record({}, "a100")});
  return bytes;
}

// An entry with one kernel and no texts: one blob.
const std::vector<u8>& one_kernel() {
  LayerSizes sizes;
  sizes.rows = "64";
  static const std::vector<u8> bytes = pack_of({layer_record(sizes, "a100")}, {false, false});
  return bytes;
}

ErrorReport refusal(const std::vector<u8>& bytes, const PackOptions& options = {}) {
  auto pack = Pack::open_memory(bytes, options);
  if (!pack) return take_report(pack.takeError());
  return take_report((*pack)->verify());
}

void expect(const ErrorReport& report, ErrorCode code, const std::string& part) {
  CAPTURE(report.message);
  CHECK(report.code == code);
  CHECK(report.message.find(part) != std::string::npos);
}

std::shared_ptr<const Pack> opened(const std::vector<u8>& bytes) {
  return must(Pack::open_memory(bytes));
}

bool same_facts(const KernelRecord& a, const KernelRecord& b) {
  return a.symbol == b.symbol && a.family == b.family && a.config_text == b.config_text &&
         a.grid.ctas(3) == b.grid.ctas(3) && a.grid.ctas(61) == b.grid.ctas(61) &&
         a.threads == b.threads && a.cluster == b.cluster && a.smem_bytes == b.smem_bytes &&
         a.pdl == b.pdl && a.slots == b.slots && a.scalars == b.scalars &&
         a.maps.size() == b.maps.size() && *a.cubin == *b.cubin;
}

}  // namespace

TEST_CASE("what comes out of a pack is what went in") {
  for (const char* target : {"h200", "a100", "b200"}) {
    CAPTURE(target);
    const auto in = layer_record({}, target);
    const auto bytes = pack_of({in}, {true, true});
    const auto pack = opened(bytes);
    REQUIRE(pack->size() == 1);
    const auto out = must(pack->record(0));
    CHECK(out->text == in->text);
    CHECK(out->symbol == in->symbol);
    CHECK(out->tensors == in->tensors);
    CHECK(out->num_inputs == in->num_inputs);
    CHECK(out->workspace_bytes == in->workspace_bytes);
    CHECK(out->target == in->target);
    CHECK(out->arch == in->arch);
    CHECK(out->options == in->options);
    REQUIRE(out->buckets.size() == in->buckets.size());
    size_t index = 0;
    for (size_t b = 0; b < in->buckets.size(); ++b) {
      CHECK(out->buckets[b].lo == in->buckets[b].lo);
      CHECK(out->buckets[b].hi == in->buckets[b].hi);
      REQUIRE(out->buckets[b].kernels.size() == in->buckets[b].kernels.size());
      for (size_t k = 0; k < in->buckets[b].kernels.size(); ++k) {
        CHECK(same_facts(out->buckets[b].kernels[k], in->buckets[b].kernels[k]));
        CHECK(must(out->texts->source(index)) == must(in->texts->source(index)));
        ++index;
      }
    }
    CHECK(must(out->texts->explain(false)) == must(in->texts->explain(false)));
    CHECK(must(out->texts->explain(true)) == must(in->texts->explain(true)));
    CHECK_FALSE(static_cast<bool>(pack->verify()));
  }
}

TEST_CASE("a text that a pack does not have is one sentence") {
  const auto bytes = pack_of({layer_record()}, {false, false});
  const auto record = must(opened(bytes)->record(0));
  expect(take_report(record->texts->explain(false).takeError()), ErrorCode::kUnsupported,
         "no explanation");
  expect(take_report(record->texts->source(0).takeError()), ErrorCode::kUnsupported, "no source");
}

TEST_CASE("the same entries give the same bytes, in any order, once each") {
  LayerSizes other;
  other.name = "other";
  other.k = 256;
  const auto a = layer_record();
  const auto b = layer_record(other);
  const auto c = layer_record({}, "a100");
  CHECK(pack_of({a, b, c}) == pack_of({c, a, b, a}));
  CHECK(pack_of({a, b, c}) == pack_of({layer_record(), layer_record(other), c}));
}

TEST_CASE("copies of entries are byte for byte") {
  PackWriter writer;
  const auto pack = opened(two_archs());
  for (size_t i = 0; i < pack->size(); ++i) CHECK(must(writer.add(*pack, i)));
  CHECK_FALSE(must(writer.add(*pack, 0)));
  CHECK(must(writer.bytes()) == two_archs());
}

TEST_CASE("machine code and texts that are equal are stored once") {
  LayerSizes named;
  named.name = "layer";
  const auto one = opened(two_archs())->header().blobs;
  // Another device with the same plan has the same code: only its texts may differ.
  Target other = must(find_target("h200"));
  other.name = "h20x";
  const auto more = pack_of(
      {layer_record(), layer_record({}, "a100"), test::planned_record(test::layer_chain(), other)});
  CHECK(opened(more)->size() == 3);
  CHECK(opened(more)->header().blobs <= one + 2);
}

TEST_CASE("machine code is aligned to 4096 bytes, and memory may be at any address") {
  const auto pack = opened(two_archs());
  for (size_t i = 0; i < pack->size(); ++i) {
    const PackEntry entry = must(pack->entry(i));
    for (const BucketRecord& bucket : entry.record.buckets) {
      for (const KernelRecord& kernel : bucket.kernels) {
        CHECK(must(pack->find_blob(kernel.identity)).offset % 4096 == 0);
      }
    }
  }
  for (size_t shift = 1; shift < 8; ++shift) {
    std::vector<u8> moved(shift);
    moved.insert(moved.end(), two_archs().begin(), two_archs().end());
    auto shifted = must(Pack::open_memory(llvm::makeArrayRef(moved).drop_front(shift)));
    CHECK_FALSE(static_cast<bool>(shifted->verify()));
  }
}

TEST_CASE("every changed byte of the header and of the tables is found") {
  const std::vector<u8>& good = two_archs();
  const PackPlaces at(good);
  const u64 opening = at.pages + at.num_pages() * pack_format::kPageEntryBytes;
  const u64 end = at.manifest + at.manifest_bytes;
  for (u64 i = 0; i < end; ++i) {
    std::vector<u8> bad = good;
    bad[i] ^= static_cast<u8>(1u << (i % 8));
    CAPTURE(i);
    // The index, the blob table and the manifest are read when they are used.
    if (i < opening) REQUIRE_FALSE(Pack::open_memory(bad));
    const ErrorReport report = refusal(bad);
    const bool known =
        report.code == ErrorCode::kCorruptArtifact || report.code == ErrorCode::kUnsupported;
    REQUIRE(known);
    REQUIRE(report.message.find("in memory") != std::string::npos);
  }
}

TEST_CASE("a changed byte elsewhere is found before its use, or is of no use") {
  const std::vector<u8>& good = two_archs();
  const PackPlaces at(good);
  const auto before = must(opened(good)->record(0));
  for (u64 i = at.manifest + at.manifest_bytes; i < good.size(); i += 7) {
    std::vector<u8> bad = good;
    bad[i] ^= 0x10;
    const ErrorReport report = refusal(bad);
    CAPTURE(i);
    if (report.code == ErrorCode::kOk) continue;  // between two parts
    REQUIRE(report.code == ErrorCode::kCorruptArtifact);
  }
}

TEST_CASE("a truncated pack is refused at every length") {
  const std::vector<u8>& good = two_archs();
  for (size_t size = 0; size < good.size(); size += size < 4200 ? 1 : 997) {
    CAPTURE(size);
    const std::vector<u8> bad(good.begin(), good.begin() + static_cast<ptrdiff_t>(size));
    REQUIRE(refusal(bad).code == ErrorCode::kCorruptArtifact);
  }
  std::vector<u8> longer = good;
  longer.push_back(0);
  expect(refusal(longer), ErrorCode::kCorruptArtifact, "was appended to");
}

TEST_CASE("a file that is no pack, or one of another machine or version, is told as such") {
  std::vector<u8> bad = two_archs();
  bad[0] = 'X';
  expect(refusal(bad), ErrorCode::kCorruptArtifact, "it is no pack");
  bad = two_archs();
  write32le(&bad[8], 0x04030201);
  expect(refusal(bad), ErrorCode::kCorruptArtifact, "another byte order");
  bad = two_archs();
  write32le(&bad[12], 7);
  seal_header(bad);
  expect(refusal(bad), ErrorCode::kUnsupported, "format 7");
  bad = two_archs();
  write32le(&bad[16], pack_format::kLaunchAbi + 1);
  seal_header(bad);
  expect(refusal(bad), ErrorCode::kUnsupported, "launch version 2");
  write32le(&bad[16], 0);
  seal_header(bad);
  expect(refusal(bad), ErrorCode::kUnsupported, "launch version 0");
  bad = two_archs();
  write32le(&bad[20], 4);
  seal_header(bad);
  expect(refusal(bad), ErrorCode::kUnsupported, "features 0x4");
}

TEST_CASE("offsets and sizes that overflow are refused") {
  const u64 kLarge[] = {~u64{0}, ~u64{0} - 95, u64{1} << 63, u64{1} << 40, two_archs().size() + 1};
  for (u64 value : kLarge) {
    CAPTURE(value);
    for (u64 field : {32, 40, 48, 56, 64, 72, 80}) {
      CAPTURE(field);
      std::vector<u8> bad = two_archs();
      write64le(&bad[field], value);
      seal_header(bad);
      CHECK(refusal(bad).code == ErrorCode::kCorruptArtifact);
    }
    std::vector<u8> bad = two_archs();
    const PackPlaces at(bad);
    write64le(&bad[at.row(1) + 80], value);
    seal(bad);
    expect(refusal(bad), ErrorCode::kCorruptArtifact, "entry 1 is not within the file");
    bad = two_archs();
    write64le(&bad[at.blobs + 32], value);
    seal(bad);
    expect(refusal(bad), ErrorCode::kCorruptArtifact, "blob 0 is not within the file");
    write64le(&bad[at.blobs + 32], 4096);
    write64le(&bad[at.blobs + 40], value);
    seal(bad);
    expect(refusal(bad), ErrorCode::kCorruptArtifact, "blob 0 is not within the file");
  }
}

TEST_CASE("two entries of one key, and an index that is not sorted") {
  std::vector<u8> bad = two_archs();
  const PackPlaces at(bad);
  std::copy_n(bad.begin() + static_cast<ptrdiff_t>(at.row(0)), pack_format::kRowBytes,
              bad.begin() + static_cast<ptrdiff_t>(at.row(1)));
  seal(bad);
  expect(refusal(bad), ErrorCode::kCorruptArtifact, "the same chain and the same device");
  bad = two_archs();
  std::swap_ranges(bad.begin() + static_cast<ptrdiff_t>(at.row(0)),
                   bad.begin() + static_cast<ptrdiff_t>(at.row(1)),
                   bad.begin() + static_cast<ptrdiff_t>(at.row(1)));
  seal(bad);
  expect(refusal(bad), ErrorCode::kCorruptArtifact, "not sorted");
}

TEST_CASE("an entry under another chain's key is refused") {
  std::vector<u8> bad = two_archs();
  const PackPlaces at(bad);
  // The two rows keep their keys and exchange their entries.
  for (u64 i = 32; i < pack_format::kRowBytes; ++i) {
    if (i < 64 || i >= 80) std::swap(bad[at.row(0) + i], bad[at.row(1) + i]);
  }
  seal(bad);
  expect(refusal(bad), ErrorCode::kCorruptArtifact, "another chain, architecture or device");
}

TEST_CASE("machine code of another GPU under a right key is refused") {
  std::vector<u8> bad = one_kernel();
  const PackPlaces at(bad);
  REQUIRE(at.num_blobs == 1);
  const auto blob = bad.begin() + static_cast<ptrdiff_t>(at.blobs);
  const std::vector<u8> old(blob, blob + 32);
  const u64 offset = llvm::support::endian::read64le(&bad[at.blobs + 32]);
  const u64 size = llvm::support::endian::read64le(&bad[at.blobs + 40]);
  const auto replace = [&] {
    const KernelKey digest = sha256(llvm::makeArrayRef(bad).slice(offset, size));
    for (auto it = bad.begin(); it != bad.end();) {
      it = std::search(it, bad.end(), old.begin(), old.end());
      if (it != bad.end()) it = std::copy(digest.bytes.begin(), digest.bytes.end(), it);
    }
    seal(bad);
  };
  SUBCASE("another SM") {
    bad[offset + 49] = 90;
    replace();
    expect(refusal(bad), ErrorCode::kCorruptArtifact, "it is for sm_90");
  }
  SUBCASE("another processor") {
    bad[offset + 18] = 62;
    replace();
    expect(refusal(bad), ErrorCode::kCorruptArtifact, "it is not for a GPU");
  }
  SUBCASE("no machine code") {
    bad[offset] = 0;
    replace();
    expect(refusal(bad), ErrorCode::kCorruptArtifact, "it is no machine code");
  }
  SUBCASE("the writer refuses it as well") {
    ChainRecord record = *layer_record({}, "a100");
    record.arch = "sm_90a";
    PackWriter writer;
    expect(take_report(writer.add(record).takeError()), ErrorCode::kUnsupported, "it is for sm_80");
  }
}

TEST_CASE("a record that this library does not know is skipped, unless it is critical") {
  const PackEntry entry = must(opened(one_kernel())->entry(0));
  std::vector<u8> bytes = encode_entry(entry);
  const auto with = [&](u32 tag) {
    std::vector<u8> more = bytes;
    const u8 record[16] = {static_cast<u8>(tag),
                           0,
                           0,
                           static_cast<u8>(tag >> 24),
                           5,
                           0,
                           0,
                           0,
                           'h',
                           'e',
                           'l',
                           'l',
                           'o'};
    more.insert(more.end(), record, record + sizeof record);
    return more;
  };
  CHECK(encode_entry(must(decode_entry(with(99)))) == bytes);
  expect(take_report(decode_entry(with(99 | pack_format::kCritical)).takeError()),
         ErrorCode::kUnsupported, "a record of kind 99");
  expect(take_report(decode_entry(with(1)).takeError()), ErrorCode::kCorruptArtifact,
         "two records of kind 1");
  bytes.erase(bytes.end() - 8, bytes.end());
  expect(take_report(decode_entry(bytes).takeError()), ErrorCode::kCorruptArtifact, "beyond");
}

TEST_CASE("an entry whose facts a launch could not take is refused") {
  const PackEntry good = must(opened(one_kernel())->entry(0));
  REQUIRE(entry_problem(good).empty());
  const auto refused = [&](const auto& change) {
    PackEntry bad = good;
    change(bad, bad.record.buckets[0].kernels[0]);
    expect(take_report(decode_entry(encode_entry(bad)).takeError()), ErrorCode::kCorruptArtifact,
           "");
    CHECK_FALSE(entry_problem(bad).empty());
  };
  refused([](PackEntry&, KernelRecord& k) { k.slots[0].tensor = 4; });
  refused([](PackEntry&, KernelRecord& k) { k.slots[0].tensor = -2; });
  refused([](PackEntry&, KernelRecord& k) { k.slots[0] = {-1, i64{1} << 40}; });
  refused([](PackEntry&, KernelRecord& k) { k.scalars = {0}; });
  refused([](PackEntry&, KernelRecord& k) { k.threads = 0; });
  refused([](PackEntry&, KernelRecord& k) { k.threads = 2048; });
  refused([](PackEntry&, KernelRecord& k) { k.cluster = 0; });
  refused([](PackEntry&, KernelRecord& k) { k.smem_bytes = -1; });
  refused([](PackEntry&, KernelRecord& k) { k.grid.block = 0; });
  refused([](PackEntry&, KernelRecord& k) { k.grid.scale = -1; });
  refused([](PackEntry&, KernelRecord& k) { k.symbol = "a b"; });
  refused([](PackEntry&, KernelRecord& k) { k.maps.resize(1); });
  refused([](PackEntry& e, KernelRecord&) { e.record.workspace_bytes = -1; });
  refused([](PackEntry& e, KernelRecord&) { e.record.tensors[0].align = 3; });
  refused([](PackEntry& e, KernelRecord&) { e.record.tensors[0].align = 4096; });
  refused([](PackEntry& e, KernelRecord&) { e.record.tensors[0].output = true; });
  refused([](PackEntry& e, KernelRecord&) { e.record.tensors[0].type.strides[0] = -1; });
  refused(
      [](PackEntry& e, KernelRecord&) { e.record.tensors[0].type.shape[0].size = i64{1} << 62; });
  refused([](PackEntry& e, KernelRecord&) { e.record.tensors[0].type.shape[0].symbolic = true; });
  refused([](PackEntry& e, KernelRecord&) { e.record.num_inputs = 9; });
  refused([](PackEntry& e, KernelRecord&) { e.record.buckets.clear(); });
  refused([](PackEntry& e, KernelRecord&) { e.record.symbol = Symbol{"M", 5, 4}; });
}

TEST_CASE("the whole file can be pinned by its SHA-256") {
  PackOptions options;
  options.expected_sha256 = sha256(two_archs()).hex();
  CHECK(refusal(two_archs(), options).code == ErrorCode::kOk);
  options.expected_sha256[5] ^= 1;
  expect(refusal(two_archs(), options), ErrorCode::kCorruptArtifact, "its SHA-256 is");
  options.expected_sha256 = "abc";
  expect(refusal(two_archs(), options), ErrorCode::kCorruptArtifact, "abc is expected");
  // A byte between two parts is in no digest but this one.
  std::vector<u8> padded = two_archs();
  const PackPlaces at(padded);
  options.expected_sha256 = sha256(padded).hex();
  u64 padding = padded.size();
  for (u64 i = at.manifest + at.manifest_bytes; i < padded.size(); ++i) {
    std::vector<u8> changed = padded;
    changed[i] ^= 1;
    if (refusal(changed).code == ErrorCode::kOk) padding = i;
    if (padding == i) break;
  }
  REQUIRE(padding < padded.size());
  padded[padding] ^= 1;
  CHECK(refusal(padded).code == ErrorCode::kOk);
  expect(refusal(padded, options), ErrorCode::kCorruptArtifact, "its SHA-256 is");
}

TEST_CASE("the manifest names the oldest driver that loads all machine code") {
  const auto oldest = [](const std::vector<const char*>& compilers, bool host) {
    PackWriter writer({false, false});
    for (size_t i = 0; i < compilers.size(); ++i) {
      LayerSizes sizes;
      sizes.k = 128 * static_cast<int>(i + 1);
      ChainRecord record =
          *test::planned_record(test::layer_chain(sizes), must(find_target("h200")), host);
      for (BucketRecord& bucket : record.buckets) {
        for (KernelRecord& kernel : bucket.kernels) {
          Cubin cubin = *kernel.cubin;
          cubin.compiler_id = compilers[i];
          kernel.cubin = std::make_shared<const Cubin>(cubin);
        }
      }
      must(writer.add(record));
    }
    const std::vector<u8> bytes = must(writer.bytes());
    const std::string text = must(must(Pack::open_memory(bytes))->manifest());
    const llvm::json::Value manifest = must(parse_json(text));
    const llvm::json::Value* version = manifest.getAsObject()->get("min_driver");
    REQUIRE(version != nullptr);
    return version->getAsString().getValueOr("null").str();
  };
  CHECK(oldest({"nvrtc 12.8.93 CL-35583870"}, false) == "12.0");
  CHECK(oldest({"nvrtc 12.8.93 CL-35583870", "nvrtc 13.0.88 CL-36424714"}, false) == "13.0");
  CHECK(oldest({"host g++ 12.2"}, true) == "null");
  CHECK(oldest({}, false) == "null");
}

TEST_CASE("an empty pack is a pack") {
  const std::vector<u8> bytes = pack_of({});
  const auto pack = opened(bytes);
  CHECK(pack->size() == 0);
  CHECK(must(pack->rows_of(KernelKey{})) == std::pair<size_t, size_t>{0, 0});
  CHECK_FALSE(static_cast<bool>(pack->verify()));
}

TEST_CASE("files: absent, a folder, a pipe, shortened and changed while it is open") {
  const test::TempDir folder;
  expect(take_report(Pack::open(folder / "absent.ctnpack").takeError()), ErrorCode::kIo,
         "No such file");
  expect(take_report(Pack::open(folder / "").takeError()), ErrorCode::kIo, "is a folder");
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  expect(take_report(Pack::open(pipe).takeError()), ErrorCode::kIo, "no regular file");
  const std::string path = folder / "a.ctnpack";
  const auto write = [&](const std::vector<u8>& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  };
  write({});
  expect(take_report(Pack::open(path).takeError()), ErrorCode::kCorruptArtifact, "it is no pack");
  write(two_archs());
  auto pack = must(Pack::open(path));
  CHECK(must(pack->file_digest()) == sha256(two_archs()));
  CHECK_FALSE(static_cast<bool>(pack->verify()));
  REQUIRE(::truncate(path.c_str(), 5000) == 0);
  expect(take_report(pack->record(0).takeError()), ErrorCode::kIo, "has become shorter");
  write(std::vector<u8>(two_archs().size(), 0x5a));
  expect(take_report(pack->record(0).takeError()), ErrorCode::kCorruptArtifact,
         "the digest of entry 0 differs");
}
