// SPDX-License-Identifier: Apache-2.0
// Measured choices: records as bytes, the folder that keeps them and what may go wrong with it, and
// plans that take them.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cerrno>

#include "compiler/compile/host_compiler.h"
#include "compiler/compile/templates.h"
#include "compiler/explain.h"
#include "ir/text/text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "runtime/engine.h"
#include "runtime/tuning/tuning.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using test::FaultyFiles;
using test::Harm;
using test::TempDir;

namespace {

VerifiedChain verified(const std::string& text) {
  Expected<Chain> chain = parse(text);
  REQUIRE_MESSAGE(chain, take_report(chain.takeError()).message);
  Expected<VerifiedChain> result = verify(std::move(*chain));
  REQUIRE_MESSAGE(result, take_report(result.takeError()).message);
  return std::move(*result);
}

std::string linear(const char* x, i64 m, i64 n, i64 k, const char* activation = "relu") {
  return fmt::format(
      "chain linear(input {0}: bf16[{1}, {3}], weight w: bf16[{2}, {3}]) {{\n"
      "  h = contract \"mk,nk->mn\"({0}, w)\n  y = {4}(h)\n  return y: bf16\n}}\n",
      x, m, n, k, activation);
}

Target h200() { return *find_target("h200"); }

Plan planned(const std::string& text, const PlanOptions& options = {}) {
  Expected<Plan> plan = make_plan(verified(text), h200(), options);
  REQUIRE_MESSAGE(plan, take_report(plan.takeError()).message);
  return std::move(*plan);
}

const KernelPlan& first(const Plan& plan) { return plan.buckets[0].kernels[0]; }

// A tile of `kernel` that can run and was not chosen.
CandidateSummary other_tile(const KernelPlan& kernel) {
  for (const CandidateSummary& tile : kernel.candidates) {
    if (!tile.chosen && tile.rejected.empty() && tile.id.split_k == 1) return tile;
  }
  FAIL("no other tile");
  return {};
}

// PlanOptions::tuned with one choice.
std::function<std::optional<TunedChoice>(const std::string&)> choice_for(std::string signature,
                                                                         CandidateId id,
                                                                         std::string note) {
  return [=](const std::string& asked) -> std::optional<TunedChoice> {
    if (asked != signature) return std::nullopt;
    return TunedChoice{id, note};
  };
}

TuningRecord sample_record(const std::string& text) {
  const Plan plan = planned(text);
  const CandidateSummary other = other_tile(first(plan));
  TuningRecord record;
  record.signature = first(plan).signature;
  record.target = plan.target.name;
  record.arch = plan.target.arch;
  record.sm_count = plan.target.sm_count;
  record.templates = templates_digest();
  record.device = "NVIDIA H200";
  record.driver = "580.159";
  record.compiler = "nvrtc 13.0";
  record.date = "2026-11-22T01:02:03Z";
  record.chain = "linear";
  record.winner = other.id;
  record.model = {"gemm_sm90", "model's", 1};
  record.candidates = {{record.model, 12.5, 15.0, 14.0, 16.0, ""},
                       {other.id, 13.5, 12.25, 12.0, 13.0, ""},
                       {{"gemm_sm80", "64x64", 2}, 99.0, std::nullopt, 0, 0, "spills \"much\""}};
  return record;
}

struct Store {
  explicit Store(const std::string& folder, CacheMode mode = CacheMode::kReadWrite)
      : store({.directory = folder,
               .mode = mode,
               .warn = [this](const std::string& text) { warnings.push_back(text); },
               .file_system = &files},
              "") {}
  FaultyFiles files;
  std::vector<std::string> warnings;
  TuningStore store;
};

std::string file_of(const std::string& folder, const TuningRecord& record,
                    const Target& target = h200()) {
  return folder + "/v1/" + CacheDirectory::entry_name(tuning_key(target, record.signature));
}

void write(const std::string& folder, const TuningRecord& record) {
  Store store(folder);
  Error error = store.store.write(record);
  REQUIRE_MESSAGE(!error, take_report(std::move(error)).message);
}

// Nothing is found, with one warning however often it is asked for.
void check_passed_over(const std::string& folder, const TuningRecord& record, const char* reason) {
  Store store(folder);
  CHECK_FALSE(store.store.find(h200(), record.signature));
  CHECK_FALSE(store.store.find(h200(), record.signature));
  REQUIRE(store.warnings.size() == 1);
  CHECK_MESSAGE(store.warnings[0].find(reason) != std::string::npos, store.warnings[0]);
}

const std::string kLinear = linear("x", 4096, 4096, 4096);

}  // namespace

TEST_CASE("a record survives its bytes, and damaged bytes are refused") {
  const TuningRecord record = sample_record(kLinear);
  std::vector<u8> bytes = tuning_bytes(record);
  Expected<TuningRecord> read = parse_tuning(bytes);
  REQUIRE(read);
  CHECK(tuning_bytes(*read) == bytes);
  CHECK(read->signature == record.signature);
  CHECK(read->winner == record.winner);
  REQUIRE(read->candidates.size() == 3);
  CHECK(read->candidates[1].median_us == 12.25);
  CHECK_FALSE(read->candidates[2].median_us);
  CHECK(read->candidates[2].note == "spills \"much\"");
  for (size_t at = 0; at < bytes.size(); at += 7) {
    std::vector<u8> damaged = bytes;
    damaged[at] ^= 1;
    Expected<TuningRecord> refused = parse_tuning(damaged);
    CHECK_MESSAGE(!refused, at);
    if (!refused) CHECK(take_report(refused.takeError()).code == ErrorCode::kCorruptArtifact);
  }
  for (const size_t size : {size_t{0}, size_t{5}, bytes.size() / 2, bytes.size() - 1}) {
    Expected<TuningRecord> refused = parse_tuning(llvm::ArrayRef(bytes).take_front(size));
    CHECK_FALSE(refused);
    llvm::consumeError(refused.takeError());
  }
}

TEST_CASE("the callback of a warning may use the store that warns") {
  const TempDir folder;
  const TuningRecord record = sample_record(kLinear);
  write(folder.path(), record);
  test::write_file(file_of(folder.path(), record), {1});
  std::unique_ptr<TuningStore> store;
  int warnings = 0;
  const auto warn = [&](const std::string&) {
    ++warnings;
    CHECK_FALSE(store->find(h200(), record.signature));
  };
  store =
      std::make_unique<TuningStore>(TuningOptions{.directory = folder.path(), .warn = warn}, "");
  CHECK_FALSE(store->find(h200(), record.signature));
  CHECK(warnings == 1);
}

// A record whose digest is right, with `to` in place of the first `from` of its JSON.
std::vector<u8> forged(const TuningRecord& record, const std::string& from, const std::string& to) {
  const std::vector<u8> bytes = tuning_bytes(record);
  const std::string text(bytes.begin(), bytes.end());
  const size_t line = text.find('\n');
  std::string body = text.substr(line + 1);
  REQUIRE(body.find(from) != std::string::npos);
  body.replace(body.find(from), from.size(), to);
  llvm::SHA256 hash;
  hash.update(body);
  const std::string forged = text.substr(0, text.rfind(' ', line) + 1) +
                             llvm::toHex(hash.final(), /*LowerCase=*/true) + "\n" + body;
  return {forged.begin(), forged.end()};
}

TEST_CASE("a record with a right digest must keep the limits of JSON and of its fields") {
  const TuningRecord record = sample_record(kLinear);
  REQUIRE(parse_tuning(forged(record, "{", " {")));
  const std::string split = "\"split_k\": 1";
  const std::string deep = "{\"x\": " + std::string(300'000, '[');
  const std::pair<std::string, std::string> forgeries[] = {
      {"{", deep},
      {"{", "{\"x\": " + std::string(100, '[') + std::string(100, ']') + ","},
      {split, "\"split_k\": -1"},
      {split, "\"split_k\": 4294967297"},
      {split, "\"split_k\": 1e300"},
      {"\"sm_count\": 132", "\"sm_count\": 4294967428"},
      {"\"sm_count\": 132", "\"sm_count\": -132"},
      {"\"us\": 12.25", "\"us\": 1e999"},
  };
  for (const auto& [from, to] : forgeries) {
    CAPTURE(to.substr(0, 40));
    Expected<TuningRecord> refused = parse_tuning(forged(record, from, to));
    REQUIRE_FALSE(refused);
    CHECK(take_report(refused.takeError()).code == ErrorCode::kCorruptArtifact);
  }
}

TEST_CASE("the summary names both times, the device and the day") {
  const TuningRecord record = sample_record(kLinear);
  CHECK(tuning_summary(record) ==
        "measured 12.25 us, 15.00 us by the cost model's model's (NVIDIA H200, 2026-11-22)");
}

TEST_CASE("a contraction's identity does not know names and knows the rest") {
  const auto problem = [](const std::string& text) { return first(planned(text)).signature; };
  const std::string one = problem(kLinear);
  CHECK_FALSE(one.empty());
  CHECK(problem(linear("rows", 4096, 4096, 4096)) == one);
  CHECK(problem(linear("x", 4096, 4096, 4096, "silu")) != one);
  CHECK(problem(linear("x", 4096, 4096, 2048)) != one);
  CHECK(problem(linear("x", 2048, 4096, 4096)) != one);
  // The same problem in a longer chain has the same signature, though an operand is computed there.
  const Plan longer = planned(
      "chain two(input a: bf16[4096, 4096], weight v: bf16[4096, 4096], weight w: bf16[4096, "
      "4096]) {\n  h = cast(relu(contract \"mk,nk->mn\"(a, v)), bf16)\n"
      "  y = relu(contract \"mk,nk->mn\"(h, w))\n  return y: bf16\n}\n");
  CHECK(longer.buckets[0].kernels[1].signature == one);
  // Fix-ups and kernels without a contraction have none.
  CHECK(
      first(planned("chain p(input x: f32[64]) { y = relu(x) return y: f32 }")).signature.empty());
}

TEST_CASE("a plan takes a measured choice and says so") {
  const KernelPlan model = first(planned(kLinear));
  const CandidateSummary other = other_tile(model);
  PlanOptions options;
  options.tuned = choice_for(model.signature, other.id, "measured well");
  const Plan plan = planned(kLinear, options);
  CHECK(first(plan).tuned == "measured well");
  CHECK(first(plan).config_text != model.config_text);
  CHECK(first(plan).signature == model.signature);
  const std::string text = explain_text(verified(kLinear), plan);
  CHECK(text.find("tuned       measured well") != std::string::npos);
  CHECK(model.tuned.empty());
  CHECK(explain_text(verified(kLinear), planned(kLinear)).find("tuned") == std::string::npos);
}

TEST_CASE("a choice that cannot be taken leaves the cost model's") {
  const KernelPlan model = first(planned(kLinear));
  const CandidateSummary other = other_tile(model);
  PlanOptions options;
  options.tuned = choice_for(model.signature, {"gemm_sm90", "7x7x7", 1}, "unknown tile");
  CHECK(first(planned(kLinear, options)).config_text == model.config_text);
  options.tuned = choice_for("another contraction", other.id, "not this one");
  CHECK(first(planned(kLinear, options)).config_text == model.config_text);
  // What ptxas refused is not taken again.
  options.tuned = choice_for(model.signature, other.id, "refused");
  options.rejected = {{model.signature, other.id}};
  CHECK(first(planned(kLinear, options)).config_text == model.config_text);
  CHECK(first(planned(kLinear, options)).tuned.empty());
  // A tile that the caller forces has the last word.
  options = {};
  options.tuned = choice_for(model.signature, {"gemm_sm90", "7x7x7", 1}, "unknown tile");
  options.force_tile = other.id.tile;
  CHECK(first(planned(kLinear, options)).tuned.empty());
}

TEST_CASE("a store gives back what was written, to the same device only") {
  const TempDir folder;
  const TuningRecord record = sample_record(kLinear);
  {
    Store before(folder / "t");
    CHECK_FALSE(before.store.find(h200(), record.signature));
    CHECK(before.warnings.empty());  // no folder is no problem
    CHECK_FALSE(std::filesystem::exists(folder / "t"));
  }
  write(folder / "t", record);
  Store store(folder / "t");
  const auto found = store.store.find(h200(), record.signature);
  REQUIRE(found);
  CHECK(tuning_bytes(*found) == tuning_bytes(record));
  const auto choice = store.store.choice(h200(), record.signature);
  REQUIRE(choice);
  CHECK(choice->id == record.winner);
  CHECK_FALSE(choice->note.empty());
  Target fewer = h200();
  fewer.sm_count = 114;
  CHECK_FALSE(store.store.find(*find_target("h100"), record.signature));
  CHECK_FALSE(store.store.find(fewer, record.signature));
  CHECK_FALSE(store.store.find(h200(), record.signature + " "));
  CHECK(store.warnings.empty());
}

TEST_CASE("another device's record in this one's place is passed over") {
  const TempDir folder;
  TuningRecord record = sample_record(kLinear);
  record.target = "h100";
  write(folder / "t", record);
  const std::string from = file_of(folder / "t", record, *find_target("h100"));
  REQUIRE(std::filesystem::exists(from));
  test::write_file(file_of(folder / "t", record), test::bytes_of(from));
  ::chmod(file_of(folder / "t", record).c_str(), 0600);
  check_passed_over(folder / "t", record, "h100");
}

TEST_CASE("damaged, stale and untrusted records are passed over with one warning") {
  const TempDir folder;
  TuningRecord record = sample_record(kLinear);
  const std::string path = file_of(folder / "t", record);
  write(folder / "t", record);
  SUBCASE("damaged") {
    std::vector<u8> bytes = test::bytes_of(path);
    bytes[bytes.size() / 2] ^= 1;
    test::write_file(path, bytes);
    check_passed_over(folder / "t", record, "SHA-256");
  }
  SUBCASE("empty") {
    test::write_file(path, {});
    check_passed_over(folder / "t", record, "is not used");
  }
  SUBCASE("of other device templates") {
    record.templates = "0123";
    write(folder / "t", record);
    check_passed_over(folder / "t", record, "templates");
  }
  SUBCASE("writable by others") {
    ::chmod(path.c_str(), 0666);
    check_passed_over(folder / "t", record, "is not used");
  }
  SUBCASE("in a folder that others may write") {
    ::chmod((folder / "t").c_str(), 0777);
    check_passed_over(folder / "t", record, "no tuning records are used");
  }
}

TEST_CASE("list shows what is not used, and clear removes all") {
  const TempDir folder;
  TuningRecord record = sample_record(kLinear);
  write(folder / "t", record);
  TuningRecord old = sample_record(linear("x", 2048, 4096, 4096));
  old.templates = "0123";
  write(folder / "t", old);
  Store store(folder / "t");
  auto entries = store.store.list();
  REQUIRE(entries);
  REQUIRE(entries->size() == 2);
  CHECK(((*entries)[0].unused.empty() ? 1 : 0) + ((*entries)[1].unused.empty() ? 1 : 0) == 1);
  Expected<int> removed = store.store.clear();
  REQUIRE(removed);
  CHECK(*removed == 2);
  entries = store.store.list();
  REQUIRE(entries);
  CHECK(entries->empty());
}

TEST_CASE("a failed write says so and leaves the record that was there") {
  const TempDir folder;
  const TuningRecord record = sample_record(kLinear);
  write(folder / "t", record);
  TuningRecord newer = record;
  newer.winner.tile = "newer";
  for (const test::Op op :
       {test::Op::kWrite, test::Op::kFsync, test::Op::kClose, test::Op::kRename}) {
    CAPTURE(static_cast<int>(op));
    Store store(folder / "t");
    store.files.op = op;
    store.files.error = ENOSPC;
    store.files.nth = 1;
    store.files.persistent = true;
    Error error = store.store.write(newer);
    REQUIRE(static_cast<bool>(error));
    const ErrorReport report = take_report(std::move(error));
    CHECK(report.code == ErrorCode::kCacheIo);
    CHECK(report.message.find("No space left on device") != std::string::npos);
    CHECK(report.message.find("tuning record") != std::string::npos);
    store.files.nth = 0;
    const auto found = store.store.find(h200(), record.signature);
    REQUIRE(found);
    CHECK(found->winner == record.winner);
  }
}

TEST_CASE("a read that fails is no record, with one warning") {
  const TempDir folder;
  const TuningRecord record = sample_record(kLinear);
  write(folder / "t", record);
  for (const Harm harm : {Harm::kError, Harm::kFlip}) {
    Store store(folder / "t");
    store.files.op = test::Op::kRead;
    store.files.harm = harm;
    store.files.error = EIO;
    store.files.nth = 1;
    store.files.persistent = true;
    CHECK_FALSE(store.store.find(h200(), record.signature));
    CHECK_FALSE(store.store.find(h200(), record.signature));
    CHECK(store.warnings.size() == 1);
  }
}

TEST_CASE("modes, by option and by environment") {
  const TempDir folder;
  const TuningRecord record = sample_record(kLinear);
  write(folder / "t", record);
  Store off(folder / "t", CacheMode::kOff);
  CHECK_FALSE(off.store.find(h200(), record.signature));
  Store reading(folder / "t", CacheMode::kReadOnly);
  CHECK(reading.store.find(h200(), record.signature));
  Error error = reading.store.write(record);
  CHECK(take_report(std::move(error)).message.find("CATENARY_TUNING=rw") != std::string::npos);
  const test::ScopedEnv directory("CATENARY_TUNING_DIR", (folder / "t").c_str());
  const auto finds = [&](const char* mode) {
    const test::ScopedEnv environment("CATENARY_TUNING", mode);
    const TuningStore store({}, "");
    return store.find(h200(), record.signature).has_value();
  };
  CHECK(finds("ro"));
  CHECK(finds("rw"));
  CHECK_FALSE(finds("off"));
  std::vector<std::string> warnings;
  const test::ScopedEnv environment("CATENARY_TUNING", "on");
  TuningOptions options;
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  const TuningStore store(options, "");
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("CATENARY_TUNING=on") != std::string::npos);
}

TEST_CASE("an engine compiles by the records of its folder") {
  if (auto compiler = HostCompiler::get(); !compiler) {
    MESSAGE("skipped: " << take_report(compiler.takeError()).message);
    return;
  }
  const TempDir folder;
  const std::string text = linear("x", 64, 64, 64);
  const TuningRecord record = sample_record(text);
  write(folder / "cache/tuning", record);
  EngineOptions options;
  options.backend = Backend::kHost;
  options.cache.directory = folder / "cache";
  const auto tuned = [&] {
    Engine engine(options);
    auto compiled = engine.compile(verified(text).chain(), h200());
    REQUIRE_MESSAGE(compiled, take_report(compiled.takeError()).message);
    return first((*compiled)->plan).tuned;
  };
  CHECK(tuned() == tuning_summary(record));
  options.tuning.directory = "nowhere";
  options.tuning.mode = CacheMode::kOff;
  CHECK(tuned().empty());
}
