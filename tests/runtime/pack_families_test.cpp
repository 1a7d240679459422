// SPDX-License-Identifier: Apache-2.0
// Chains of every kernel family go into a pack and come out as they were, are found by their keys,
// and packs that were written before are read as before.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "compiler/families/family.h"
#include "ir/gradient/gradient.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/lookup/pack_lookup.h"
#include "tests/support/packed_chains.h"

using namespace catenary;
using test::layer_chain;
using test::must;
using test::pack_of;

namespace {

namespace fs = std::filesystem;
const std::string kRoot = CATENARY_SOURCE_DIR;

std::string file_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

VerifiedChain chain_of(const std::string& text) { return must(verify(must(parse(text)))); }

// Rows by expert, a bias by group, a scalar, an output in place.
constexpr const char* kExperts =
    "chain experts[M in 1..64](input x: bf16[M, 256], weight w: bf16[4, 256, 256],\n"
    "    weight b: bf16[4, 256], input ends: i32[4], scalar s: f32, input r: bf16[M, 256]) {\n"
    "  h = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n"
    "  y = add(r, scale(add(h, b @ \"en\"), s))\n  return y: bf16 inplace r\n}\n";
constexpr const char* kPacked =
    "chain packed[M in 1..16](input x: f16[M, 512], weight q: u4[256, 512] packed,\n"
    "    weight s: f16[256, 4], weight z: i8[256, 4]) {\n"
    "  w = dequant(q, s, z) block (1, 128)\n  y = contract \"mk,nk->mn\"(x, w)\n"
    "  return y: f16\n}\n";

constexpr const char* kPackedRows =
    "chain rows[M in 33..200](input x: bf16[M, 512], weight q: i4[256, 512] packed,\n"
    "    weight s: bf16[256, 4]) {\n"
    "  y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128))\n  return y: bf16\n}\n";

// The valid chains of a folder. Some of tests/chains are not.
std::vector<VerifiedChain> chains_in(const char* folder) {
  std::vector<VerifiedChain> chains;
  for (const auto& entry : fs::directory_iterator(kRoot + folder)) {
    if (entry.path().extension() != ".chain") continue;
    Expected<Chain> parsed = parse(file_text(entry.path()));
    Expected<VerifiedChain> chain = parsed ? verify(std::move(*parsed)) : parsed.takeError();
    if (chain) {
      chains.push_back(std::move(*chain));
    } else {
      llvm::consumeError(chain.takeError());
    }
  }
  return chains;
}

// The chains of the examples, fp8 and quantised weights among others, and forward and backward
// chains of layers; each once.
std::vector<VerifiedChain> all_chains() {
  std::vector<VerifiedChain> chains = {chain_of(kPacked), chain_of(kPackedRows),
                                       chain_of(kExperts)};
  for (const char* folder : {"/examples", "/tests/chains"}) {
    for (VerifiedChain& chain : chains_in(folder)) chains.push_back(std::move(chain));
  }
  REQUIRE(chains.size() > 20);
  const size_t without_gradients = chains.size();
  for (const VerifiedChain& forward : chains_in("/tests/chains/gradient")) {
    Gradient gradient = must(make_gradient(forward));
    for (GradientChain& chain : gradient.chains) {
      chains.push_back(std::move(chain.chain));
    }
  }
  REQUIRE(chains.size() > without_gradients + 6);
  std::set<std::string> seen;
  llvm::erase_if(chains, [&seen](const VerifiedChain& chain) {
    return !seen.insert(canonical_text(chain)).second;
  });
  return chains;
}

// The facts that a launch takes, as text.
std::string facts(const ChainRecord& record) {
  std::string text = fmt::format("chain {} for {} ({} SMs), {} inputs, {} scalars, workspace {}\n",
                                 record.name, record.arch, record.target.sm_count,
                                 record.num_inputs, record.num_scalars, record.workspace_bytes);
  for (const TensorRecord& tensor : record.tensors) {
    const TensorType& type = tensor.type;
    text += fmt::format("  {} {} {}{}{} align {} {} in place {}\n",
                        tensor.output ? "output" : "input", tensor.name, dtype_text(type.dtype),
                        type.packed ? " packed" : "", tensor.role == Role::kWeight ? " weight" : "",
                        type.align, tensor.align, tensor.in_place);
    for (int d = 0; d < type.rank(); ++d) {
      text += fmt::format("    {} by {}\n", type.shape[d].symbolic ? -1 : type.shape[d].size,
                          type.strides.empty() ? -1 : type.strides[d]);
    }
  }
  for (const BucketRecord& bucket : record.buckets) {
    text += fmt::format("  bucket {} to {}\n", bucket.lo, bucket.hi);
    for (const KernelRecord& kernel : bucket.kernels) {
      text +=
          fmt::format("    {} {} threads {} cluster {} smem {} pdl {} CTAs {} {}\n", kernel.symbol,
                      kernel.family, kernel.threads, kernel.cluster, kernel.smem_bytes, kernel.pdl,
                      kernel.grid.ctas(bucket.lo), kernel.grid.ctas(bucket.hi));
      for (const SlotRecord& slot : kernel.slots) {
        text += fmt::format("      slot {} {}\n", slot.tensor, slot.offset);
      }
      for (const MapBinding& map : kernel.maps) {
        text += fmt::format("      map {} {} swizzle {} tf32 {}:", map.slot, dtype_text(map.dtype),
                            static_cast<int>(map.swizzle), map.as_tf32);
        for (const auto& dim : map.dims) {
          text += fmt::format(" {}+{}*M/{}/{}", dim.size.size, dim.size.scale, dim.stride, dim.box);
        }
        text += '\n';
      }
      for (const int scalar : kernel.scalars) text += fmt::format("      scalar {}\n", scalar);
    }
  }
  return text;
}

// What an engine would find for the chain.
std::shared_ptr<const ChainRecord> found(const std::shared_ptr<const Pack>& pack,
                                         const VerifiedChain& chain, const Target& target) {
  PackLookup lookup({});
  lookup.add(pack, 0);
  return must(lookup.find(make_request(chain, target, false, {})));
}

// A pack of one layer, as a library with this launch version writes it.
std::vector<u8> pack_of_launch(u32 version) {
  ChainRecord record = *test::layer_record();
  record.launch_abi = std::max(version, u32{1});
  PackWriter writer({false, false});
  must(writer.add(record));
  std::vector<u8> bytes = must(writer.bytes());
  llvm::support::endian::write32le(&bytes[16], version);
  test::seal_header(bytes);
  return bytes;
}

}  // namespace

TEST_CASE("chains of every family, symbolic and ragged, come out as they went in") {
  std::set<std::string> families;
  for (const char* name : {"h200", "a100", "b200", "l4"}) {
    CAPTURE(name);
    const Target target = must(find_target(name));
    std::vector<VerifiedChain> chains;
    std::vector<std::shared_ptr<const ChainRecord>> records;
    for (VerifiedChain& chain : all_chains()) {
      // Quantised weights and fp8 have kernels for sm_90a only.
      if (!make_plan(chain, target)) continue;
      records.push_back(test::planned_record(chain, target));
      chains.push_back(std::move(chain));
    }
    const std::vector<u8> bytes = pack_of(records, {false, false});
    const auto pack = must(Pack::open_memory(bytes));
    REQUIRE(pack->size() == records.size());
    CHECK_FALSE(static_cast<bool>(pack->verify()));
    for (size_t i = 0; i < records.size(); ++i) {
      CAPTURE(records[i]->name);
      const auto out = found(pack, chains[i], target);
      REQUIRE(out != nullptr);
      CHECK(facts(*out) == facts(*records[i]));
      for (const BucketRecord& bucket : out->buckets) {
        for (const KernelRecord& kernel : bucket.kernels) families.insert(kernel.family);
      }
    }
  }
  for (const ContractionFamily* family : contraction_families()) {
    CHECK_MESSAGE(families.count(std::string(family->name())) == 1, family->name());
  }
  CHECK(families.count("pointwise") == 1);
  CHECK(families.count("reduce") == 1);
}

TEST_CASE("machine code is checked when a chain is taken, not only by verify") {
  std::vector<u8> bytes = pack_of({test::layer_record()}, {false, false});
  const auto pack = must(Pack::open_memory(bytes));
  const PackEntry entry = must(pack->entry(0));
  for (const BucketRecord& bucket : entry.record.buckets) {
    for (const KernelRecord& kernel : bucket.kernels) {
      const PackBlob blob = must(pack->find_blob(kernel.identity));
      for (const u64 at : {blob.offset, blob.offset + blob.bytes - 1}) {
        bytes[at] ^= 1;
        const ErrorReport report = take_report(pack->record(0).takeError());
        bytes[at] ^= 1;
        CHECK(report.code == ErrorCode::kCorruptArtifact);
        CHECK(report.message.find("the digest of blob") != std::string::npos);
      }
    }
  }
  CHECK(must(pack->record(0)) != nullptr);
}

TEST_CASE("a packed tensor of an entry is an integer matrix of exact size within the limit") {
  const auto record = test::planned_record(chain_of(kPacked), must(find_target("h200")));
  const std::vector<u8> bytes = pack_of({record}, {false, false});
  const PackEntry good = must(must(Pack::open_memory(bytes))->entry(0));
  const auto problem = [&](const auto& change) {
    PackEntry bad = good;
    TensorType& type = bad.record.tensors[1].type;
    REQUIRE(type.packed);
    change(type);
    CHECK_FALSE(decode_entry(encode_entry(bad)));
    return entry_problem(bad);
  };
  constexpr i64 kLarge = i64{1} << 40;
  CHECK(problem([](TensorType& t) { t.dtype = DType::kF16; }).find("no integer matrix") !=
        std::string::npos);
  CHECK(problem([](TensorType& t) {
          t.shape[0] = {16, true};
        }).find("packed and symbolic") != std::string::npos);
  CHECK(problem([](TensorType& t) {
          t.shape[0].size = t.shape[1].size = kLarge;
        }).find("too large") != std::string::npos);
  // Its elements fit, and the padding does not.
  CHECK(problem([](TensorType& t) {
          t.dtype = DType::kI8;
          t.shape = {Dim{kLarge}, Dim{1}, Dim{1}};
          t.strides = {1, 1, 1};
        }).find("too large") != std::string::npos);
}

TEST_CASE("packs of the two launch versions before are loaded") {
  const std::pair<u32, u32> oldest[] = {{1, 1}, {2, 1}, {3, 1}, {4, 2}, {9, 7}};
  for (const auto& [version, expected] : oldest) {
    CHECK(pack_format::oldest_launch_abi(version) == expected);
  }
  CHECK(pack_format::kOldestLaunchAbi == pack_format::oldest_launch_abi(pack_format::kLaunchAbi));
  for (u32 library = 1; library <= 5; ++library) {
    for (u32 version = 0; version <= 6; ++version) {
      CAPTURE(library);
      CAPTURE(version);
      const std::vector<u8> bytes = pack_of_launch(version);
      auto pack = Pack::open_memory(bytes, {"", false, library});
      const bool spoken = version >= 1 && version <= library && version + 2 >= library;
      CHECK(static_cast<bool>(pack) == spoken);
      if (pack) {
        CHECK(must((*pack)->record(0))->launch_abi == version);
        continue;
      }
      const ErrorReport report = take_report(pack.takeError());
      CHECK(report.code == ErrorCode::kUnsupported);
      CHECK(report.message.find(fmt::format("has launch version {}", version)) !=
            std::string::npos);
    }
  }
}

// A copy of an older entry in a newer pack would be launched by the newer rules.
TEST_CASE("entries keep their launch version when packs are made of packs") {
  const std::vector<u8> bytes = pack_of_launch(2);
  const auto pack = must(Pack::open_memory(bytes, {"", false, 4}));
  PackWriter copied;
  CHECK(must(copied.add(*pack, 0)));
  CHECK(must(copied.bytes()) == bytes);
  PackWriter loaded({false, false});
  CHECK(must(loaded.add(*must(pack->record(0)))));
  const std::vector<u8> written = must(loaded.bytes());
  CHECK(llvm::support::endian::read32le(&written[16]) == 2);
  test::LayerSizes other;
  other.k = 256;
  const ErrorReport mixed = take_report(copied.add(*test::layer_record(other)).takeError());
  CHECK(mixed.code == ErrorCode::kUnsupported);
  CHECK(mixed.message.find("launch versions 2 and 1 cannot be in one pack") != std::string::npos);
  CHECK(copied.size() == 1);
}

// tests/golden/launch_<version>.ctnpack is not written again: libraries in use have written such
// packs. With a new launch version a pack of it is added. pack_launch_test has its launches.
TEST_CASE("packs that were written before are found and read as before") {
  for (u32 version = pack_format::kOldestLaunchAbi; version <= pack_format::kLaunchAbi; ++version) {
    CAPTURE(version);
    const std::string path = fmt::format("{}/tests/golden/launch_{}", kRoot, version);
    const std::pair<VerifiedChain, const char*> chains[] = {
        {layer_chain(), "h200"}, {chain_of(kExperts), "a100"}, {chain_of(kPacked), "h200"}};
    const bool updating = std::getenv("CATENARY_UPDATE_GOLDEN") != nullptr;
    if (updating && version == pack_format::kLaunchAbi && !fs::exists(path + ".ctnpack")) {
      PackWriter writer({false, false});
      for (const auto& [chain, target] : chains) {
        must(writer.add(*test::planned_record(chain, must(find_target(target)))));
      }
      REQUIRE_FALSE(static_cast<bool>(writer.write(path + ".ctnpack")));
    }
    const auto pack = must(Pack::open(path + ".ctnpack"));
    CHECK_FALSE(static_cast<bool>(pack->verify()));
    std::string text;
    for (const auto& [chain, target] : chains) {
      const auto record = found(pack, chain, must(find_target(target)));
      REQUIRE(record != nullptr);
      text += facts(*record);
    }
    if (updating) std::ofstream(path + ".facts", std::ios::binary) << text;
    CHECK(file_text(path + ".facts") == text);
  }
}
