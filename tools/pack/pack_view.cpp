// SPDX-License-Identifier: Apache-2.0
// `catenary pack list`, `show` and `diff`: what is in packs.
#include <CLI/CLI.hpp>
#include <map>

#include "ir/counted.h"
#include "runtime/record/canonical.h"
#include "tools/chain_file.h"
#include "tools/files.h"
#include "tools/output.h"
#include "tools/pack/pack_commands.h"

namespace catenary::tools {
namespace {

struct CodeSize {
  i64 kernels = 0;
  i64 bytes = 0;
};

Expected<CodeSize> code_size(const Pack& pack, const ChainRecord& record) {
  CodeSize size;
  for (const BucketRecord& bucket : record.buckets) {
    for (const KernelRecord& kernel : bucket.kernels) {
      Expected<PackBlob> blob = pack.find_blob(kernel.identity);
      if (!blob) return blob.takeError();
      ++size.kernels;
      size.bytes += static_cast<i64>(blob->bytes);
    }
  }
  return size;
}

llvm::json::Object entry_facts(const PackRow& row, const ChainRecord& record,
                               const CodeSize& size) {
  llvm::json::Object facts{{"key", row.key.hex()},
                           {"chain", json_string(record.name)},
                           {"arch", json_string(record.arch)},
                           {"target", json_string(record.target.name)},
                           {"sm_count", record.target.sm_count},
                           {"options", json_string(options_text(record.options))},
                           {"kernels", size.kernels},
                           {"code_bytes", size.bytes}};
  if (record.symbol) {
    facts["symbol"] = llvm::json::Array{record.symbol->lo, record.symbol->hi};
  }
  return facts;
}

Error list(const std::string& path) {
  auto pack = Pack::open(path);
  if (!pack) return pack.takeError();
  llvm::json::Array entries;
  for (size_t i = 0; i < (*pack)->size(); ++i) {
    Expected<PackEntry> entry = (*pack)->entry(i);
    if (!entry) return entry.takeError();
    const ChainRecord& record = entry->record;
    Expected<CodeSize> size = code_size(**pack, record);
    if (!size) return size.takeError();
    Expected<PackRow> row = (*pack)->row(i);
    if (!row) return row.takeError();
    out("{}  {:<12}  {:<8} {:>4} SMs  {:>3} kernels {:>10}  {}\n",
        row->key.hex().substr(0, kShownKey), message_text(record.arch),
        message_text(record.target.name), record.target.sm_count, size->kernels,
        bytes_text(size->bytes), entry_text(record));
    entries.push_back(entry_facts(*row, record, *size));
  }
  out("{} in {}\n", counted((*pack)->size(), "entry"), path);
  json_result()["file"] = json_string(path);
  json_result()["entries"] = std::move(entries);
  return Error::success();
}

Error show(const std::string& path, const std::string& key) {
  auto pack = Pack::open(path);
  if (!pack) return pack.takeError();
  Expected<size_t> index = find_row(**pack, key);
  if (!index) return index.takeError();
  Expected<PackRow> row = (*pack)->row(*index);
  if (!row) return row.takeError();
  Expected<PackEntry> entry = (*pack)->entry(*index);
  if (!entry) return entry.takeError();
  const ChainRecord& record = entry->record;
  Expected<CodeSize> size = code_size(**pack, record);
  if (!size) return size.takeError();
  json_result() = entry_facts(*row, record, *size);
  json_result()["text"] = json_string(record.text);
  json_result()["made_by"] = json_string(entry->made_by);
  json_result()["workspace_bytes"] = record.workspace_bytes;
  out("key {}\n{} for {} ({}, {} SMs), {}\nmade by {}\nworkspace {}\n\n{}\n", row->key.hex(),
      message_text(record.name), message_text(record.arch), message_text(record.target.name),
      record.target.sm_count, message_text(options_text(record.options)),
      message_text(entry->made_by), bytes_text(record.workspace_bytes), record.text);
  llvm::json::Array kernels;
  for (const BucketRecord& bucket : record.buckets) {
    if (record.symbol) out("{} in {}..{}\n", record.symbol->name, bucket.lo, bucket.hi);
    for (const KernelRecord& kernel : bucket.kernels) {
      out("  {}  {} registers, {} of shared memory, {} threads\n    {}\n    {}\n", kernel.symbol,
          kernel.cubin->resources.registers, bytes_text(kernel.smem_bytes), kernel.threads,
          message_text(kernel.config_text), message_text(kernel.cubin->compiler_id));
      kernels.push_back(llvm::json::Object{{"lo", bucket.lo},
                                           {"hi", bucket.hi},
                                           {"name", kernel.symbol},
                                           {"family", json_string(kernel.family)},
                                           {"config", json_string(kernel.config_text)},
                                           {"registers", kernel.cubin->resources.registers},
                                           {"smem_bytes", kernel.smem_bytes},
                                           {"threads", kernel.threads},
                                           {"compiler", json_string(kernel.cubin->compiler_id)},
                                           {"sha256", kernel.identity.hex()}});
    }
  }
  json_result()["kernels"] = std::move(kernels);
  return Error::success();
}

// What diff() compares of an entry, and its row.
struct Compared {
  KernelKey digest;
  size_t row = 0;
};
using ComparedEntries = std::map<std::pair<KernelKey, u64>, Compared>;  // by chain and device

Expected<ComparedEntries> compared_entries(const Pack& pack) {
  ComparedEntries all;
  for (size_t i = 0; i < pack.size(); ++i) {
    Expected<PackRow> row = pack.row(i);
    if (!row) return row.takeError();
    all[{row->key, row->fit}] = {row->digest, i};
  }
  return all;
}

// One line: the sign and what the entry is.
Error print_difference(const char* sign, const Pack& pack, size_t index, llvm::json::Array& list) {
  Expected<PackRow> row = pack.row(index);
  if (!row) return row.takeError();
  Expected<PackEntry> entry = pack.entry(index);
  if (!entry) return entry.takeError();
  const ChainRecord& record = entry->record;
  out("{} {}  {:<12}  {:<8} {:>4} SMs  {}\n", sign, row->key.hex().substr(0, kShownKey),
      message_text(record.arch), message_text(record.target.name), record.target.sm_count,
      entry_text(record));
  list.push_back(row->key.hex());
  return Error::success();
}

Error diff(const std::string& first, const std::string& second) {
  auto a = Pack::open(first);
  if (!a) return a.takeError();
  auto b = Pack::open(second);
  if (!b) return b.takeError();
  auto left = compared_entries(**a);
  if (!left) return left.takeError();
  auto right = compared_entries(**b);
  if (!right) return right.takeError();
  llvm::json::Array only_first, only_second, changed;
  for (const auto& [id, entry] : *left) {
    const auto other = right->find(id);
    if (other == right->end()) {
      if (Error error = print_difference("-", **a, entry.row, only_first)) return error;
    } else if (other->second.digest != entry.digest) {
      if (Error error = print_difference("~", **a, entry.row, changed)) return error;
    }
  }
  for (const auto& [id, entry] : *right) {
    if (left->contains(id)) continue;
    if (Error error = print_difference("+", **b, entry.row, only_second)) return error;
  }
  const size_t differing = only_first.size() + only_second.size() + changed.size();
  json_result() = llvm::json::Object{{"only_first", std::move(only_first)},
                                     {"only_second", std::move(only_second)},
                                     {"changed", std::move(changed)}};
  if (differing == 0) {
    out("the same {}\n", counted(left->size(), "entry"));
    return Error::success();
  }
  return make_error(ErrorCode::kMismatch, "{} {} between {} and {}", counted(differing, "entry"),
                    differing == 1 ? "differs" : "differ", first, second);
}

}  // namespace

void add_pack_view(CLI::App& pack, int& exit_code) {
  struct Words {
    std::string first, second;
  };
  const auto add = [&](const char* name, const char* description, const char* second,
                       const char* second_description, Error (*run)(const Words&)) {
    auto words = std::make_shared<Words>();
    CLI::App* command = pack.add_subcommand(name, description);
    command->add_option("pack", words->first, "Pack file")->required();
    if (second != nullptr) {
      command->add_option(second, words->second, second_description)->required();
    }
    add_output_options(*command);
    command->callback([words, run, &exit_code] { exit_code = report(run(*words)); });
  };
  add("list", "List every entry", nullptr, nullptr,
      [](const Words& words) { return list(words.first); });
  add("show", "Print one entry: its chain and its kernels", "key",
      "The first digits of its key, as list prints it; KEY@GPU where several have it",
      [](const Words& words) { return show(words.first, words.second); });
  add("diff", "Compare the entries of two packs; exit code 1 if they differ", "other",
      "The other pack file", [](const Words& words) { return diff(words.first, words.second); });
}

}  // namespace catenary::tools
