// SPDX-License-Identifier: Apache-2.0
// `catenary tune`: measures the best candidates of a chain's contractions on a device and stores
// the winners, which later compiles for that device take. Also lists and removes stored records.
#include "tuner/tune.h"
#include "ir/counted.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "ir/json.h"
#include "ir/output_file.h"
#include "tools/chain_file.h"
#include "tools/command.h"
#include "tools/command_tree.h"
#include "tools/engine_options.h"
#include "tools/files.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tuner/number_option.h"

namespace catenary::tools {
namespace {

constexpr u64 kMaxDevice = std::numeric_limits<int>::max();

struct TuneCommand {
  std::string file;
  std::string output;
  int device = 0;
  tuner::TuneOptions options = tuner::default_tuning();
  bool list = false;
  bool clear = false;
};

void print_record(const TuningRecord& record) {
  out("{:<26} {:>5} {:>12} {:>10} {:>10} {:>10}\n", "tile", "split", "predicted us", "us", "p10",
      "p90");
  std::vector<TunedCandidate> rows = record.candidates;
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    if (a.median_us.has_value() != b.median_us.has_value()) return a.median_us.has_value();
    return a.median_us && *a.median_us < *b.median_us;
  });
  for (const TunedCandidate& row : rows) {
    std::string note = row.note;
    if (row.id == record.model) note += "  cost model";
    if (row.id == record.winner) note += "  <- taken";
    if (!row.median_us) {
      out("{:<26} {:>5} {:>12.2f} {:>32}  {}\n", row.id.tile, row.id.split_k, row.predicted_us,
          "not timed", note);
      continue;
    }
    out("{:<26} {:>5} {:>12.2f} {:>10.2f} {:>10.2f} {:>10.2f}{}\n", row.id.tile, row.id.split_k,
        row.predicted_us, *row.median_us, row.p10_us, row.p90_us, note);
  }
}

llvm::json::Value records_json(llvm::ArrayRef<TuningRecord> records) {
  llvm::json::Array array;
  for (const TuningRecord& record : records) array.push_back(tuning_json(record));
  return array;
}

Error write_records(const std::string& path, llvm::ArrayRef<TuningRecord> records) {
  return write_output(path, json_text(records_json(records)) + "\n");
}

// Keeps the records, or says why not.
Error keep(llvm::ArrayRef<TuningRecord> records) {
  TuningStore store = tuning_store();
  if (!store.writable()) {
    out("not kept: the folder of tuning records is off or read-only (CATENARY_TUNING)\n");
    return Error::success();
  }
  for (const TuningRecord& record : records) {
    if (Error error = store.write(record)) return error;
  }
  json_result()["kept_in"] = json_string(store.directory());
  out("kept {} in {}\n", counted(records.size(), "record"), store.directory());
  return Error::success();
}

Error tune(const TuneCommand& command, const VerifiedChain& chain) {
  if (!command.output.empty()) {
    if (Error error = OutputFile::check(command.output)) return error;
  }
  auto session = tuner::Session::open(command.device);
  if (!session) return session.takeError();
  const cuda::DeviceInfo& info = (*session)->info();
  if ((*session)->driver().simulated()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} keeps no time: unset CATENARY_DEVICE and run on a GPU", info.name);
  }
  Expected<const KernelCompiler*> nvrtc = tools::nvrtc();
  if (!nvrtc) return nvrtc.takeError();
  tuner::RandomPool pool(command.options.seed);
  std::vector<std::string> contests;
  Progress progress("tuning");
  auto records = tuner::tune_chain(
      **session, pool, chain, command.options, [&](const std::string& contest, i64 done, i64 all) {
        progress.set_what(fmt::format("{} {}", done % 2 == 0 ? "compiling" : "timing", contest));
        progress.set(done, all);
        if (done % 2 == 0) contests.push_back(contest);
      });
  if (!records) return records.takeError();
  for (size_t i = 0; i < records->size(); ++i) {
    TuningRecord& record = (*records)[i];
    record.device = info.name;
    record.driver = tuner::display_driver_version();
    record.compiler = (*nvrtc)->compiler_id();
    record.date = tuner::utc_date();
    out("{}\n", contests[i]);
    print_record(record);
  }
  json_result()["records"] = records_json(*records);
  if (!command.output.empty()) {
    if (Error error = write_records(command.output, *records)) return error;
  }
  return keep(*records);
}

Error list_records() {
  const TuningStore store = tuning_store();
  auto entries = store.list();
  if (!entries) return entries.takeError();
  llvm::json::Array list;
  for (const TuningEntry& entry : *entries) {
    const bool damaged = entry.record.winner.tile.empty();
    list.push_back(llvm::json::Object{
        {"name", entry.name},
        {"unused", entry.unused},
        {"record", damaged ? llvm::json::Value(nullptr) : tuning_json(entry.record)}});
    const TuningRecord& r = entry.record;
    const std::string id = entry.name.substr(0, 2) + entry.name.substr(3, 14);
    if (r.winner.tile.empty()) {
      out("{}  DAMAGED: {}\n", id, entry.unused);
      continue;
    }
    out("{}  {:<6} {:<20} {:<26} {}{}\n", id, message_text(r.target), message_text(r.chain),
        message_text(r.winner.tile), tuning_summary(r),
        entry.unused.empty() ? "" : "  NOT USED: " + entry.unused);
  }
  json_result()["directory"] = json_string(store.directory());
  json_result()["records"] = std::move(list);
  out("{} in {}\n", counted(entries->size(), "record"), store.directory());
  return Error::success();
}

Error clear_records() {
  TuningStore store = tuning_store();
  Expected<int> removed = store.clear();
  if (!removed) return removed.takeError();
  json_result()["removed"] = *removed;
  out("removed {} from {}\n", counted(*removed, "record"), store.directory());
  return Error::success();
}

int run_tune(const TuneCommand& command) {
  if (command.list) return report(list_records());
  if (command.clear) return report(clear_records());
  if (command.file.empty()) {
    return report(make_error(ErrorCode::kInvalidArgument,
                             "no chain is named: give a chain file, --list or --clear"));
  }
  return with_chain(command.file, [&](const VerifiedChain& chain) { return tune(command, chain); });
}

}  // namespace

void add_tune(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<TuneCommand>();
  CLI::App* command = app.add_subcommand(
      "tune", "Measure the best candidates of a chain's contractions and keep the winners");
  auto* file = command->add_option("file", options->file, "Chain file, - for standard input")
                   ->type_name(kChainFile);
  command->add_option("--device", options->device, "Device number")
      ->transform(whole_number(0, kMaxDevice))
      ->capture_default_str();
  command->add_option("--top", options->options.top, "Rivals of the cost model's choice")
      ->transform(whole_number(1, 64))
      ->capture_default_str();
  command->add_option("--rounds", options->options.timing.rounds, "Rounds of each contest")
      ->transform(whole_number(1, 1000))
      ->capture_default_str();
  command->add_option("--output", options->output, "Write the records to this JSON file as well")
      ->type_name(kFile);
  add_output_options(*command);
  auto* list = command->add_flag("--list", options->list, "List the records that are kept");
  auto* clear = command->add_flag("--clear", options->clear, "Remove all of them");
  list->excludes(file, clear);
  clear->excludes(file);
  command->callback([options, &exit_code] { exit_code = run_tune(*options); });
}

}  // namespace catenary::tools
