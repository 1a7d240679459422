// SPDX-License-Identifier: Apache-2.0
// `catenary cache`: shows, verifies and removes the cubins on disk.
#include "runtime/cache/cache.h"
#include "ir/counted.h"

#include <CLI/CLI.hpp>
#include <map>
#include <utility>

#include "tools/cache_verify.h"
#include "tools/chain_file.h"
#include "tools/command.h"
#include "tools/command_tree.h"
#include "tools/engine_options.h"
#include "tools/files.h"
#include "tools/output.h"
#include "tuner/number_option.h"

namespace catenary::tools {
namespace {

Error print_path(CubinCache& cache) {
  if (cache.directory().empty()) {
    return make_error(ErrorCode::kCacheIo, "the cache has no directory: {}", cache.why_off());
  }
  json_result()["directory"] = json_string(cache.directory());
  out("{}\n", cache.directory());
  return Error::success();
}

Error print_list(CubinCache& cache) {
  auto entries = cache.list();
  if (!entries) return entries.takeError();
  llvm::json::Array list;
  for (const CacheEntryInfo& entry : *entries) {
    list.push_back(entry_json(entry));
    const std::string remark = !entry.problem.empty() ? "  DAMAGED: " + entry.problem
                               : !entry.rejection.empty()
                                   ? "  NOT USED: " + message_text(entry.rejection)
                                   : "";
    out("{}  {:<9}  {:>10}  {}  {}{}\n", entry.key_hex.substr(0, 16), message_text(entry.arch),
        bytes_text(entry.bytes), message_text(entry.symbol), message_text(entry.compiler_id),
        remark);
  }
  json_result()["directory"] = json_string(cache.directory());
  json_result()["entries"] = std::move(list);
  out("{} in {}\n", counted(entries->size(), "entry"), cache.directory());
  return Error::success();
}

Error print_stats(CubinCache& cache) {
  auto entries = cache.list();
  if (!entries) return entries.takeError();
  struct Group {
    int entries = 0;
    i64 bytes = 0;
  };
  std::map<std::string, Group> groups;
  Group all;
  int damaged = 0, rejected = 0;
  for (const CacheEntryInfo& entry : *entries) {
    const std::string kind = message_text(entry.arch + ", " + entry.compiler_id);
    for (Group* group : {&all, &groups[kind]}) {
      ++group->entries;
      group->bytes += entry.bytes;
    }
    damaged += entry.problem.empty() ? 0 : 1;
    rejected += entry.rejection.empty() ? 0 : 1;
  }
  out("directory  {}\nbound      {}\nentries    {} ({} damaged, {} rejected by the compiler), {}\n",
      cache.directory(), cache.max_bytes() == 0 ? "none" : bytes_text(cache.max_bytes()),
      all.entries, damaged, rejected, bytes_text(all.bytes));
  llvm::json::Array list;
  for (const auto& [name, group] : groups) {
    out("           {:>5}, {:>10}: {}\n", group.entries, bytes_text(group.bytes), name);
    list.push_back(
        llvm::json::Object{{"name", name}, {"entries", group.entries}, {"bytes", group.bytes}});
  }
  json_result() = llvm::json::Object{{"directory", json_string(cache.directory())},
                                     {"max_bytes", cache.max_bytes()},
                                     {"entries", all.entries},
                                     {"damaged", damaged},
                                     {"rejected", rejected},
                                     {"bytes", all.bytes},
                                     {"groups", std::move(list)}};
  return Error::success();
}

Error print_removed(Expected<int> removed, const CubinCache& cache) {
  if (!removed) return removed.takeError();
  json_result()["directory"] = json_string(cache.directory());
  json_result()["removed"] = *removed;
  out("removed {} from {}\n", counted(*removed, "entry"), cache.directory());
  return Error::success();
}

struct VerifyOptions {
  bool remove = false;
  std::string recompile;
  std::vector<std::string> archs;
};

using Action = Error (*)(CubinCache&);

// Runs `action` on the cache. Prints the warnings of opening it, except the one that the error of
// `action` repeats.
Error on_cache(llvm::function_ref<Error(CubinCache&)> action) {
  std::vector<std::string> warnings;
  CacheOptions options = cache_options(true);
  const auto print = std::exchange(
      options.warn, [&warnings](const std::string& text) { warnings.push_back(text); });
  CubinCache cache(std::move(options));
  Error error = action(cache);
  for (const std::string& text : warnings) {
    if (text != cache.why_off()) print(text);
  }
  return error;
}

int with_cache(llvm::function_ref<Error(CubinCache&)> action) { return report(on_cache(action)); }

// `verify`, with its options.
void add_verify(CLI::App& parent, int& exit_code) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verify =
      parent.add_subcommand("verify", "Verify every entry; exit code 1 if one is damaged");
  auto* remove = verify->add_flag("--remove", options->remove, "Remove the damaged entries");
  auto* recompile =
      verify
          ->add_option("--recompile", options->recompile,
                       "Compile the kernels of this chain file again, and compare the bytes with "
                       "those of its entries; exit code 1 if they differ")
          ->type_name(kChainFile)
          ->excludes(remove);
  verify
      ->add_option("--arch,--target", options->archs,
                   "What --recompile compiles for, separated by commas; default: as `catenary "
                   "compile`")
      ->type_name(kTarget)
      ->allow_extra_args(false)
      ->needs(recompile);
  add_output_options(*verify);
  verify->callback([options, &exit_code] {
    if (options->recompile.empty()) {
      exit_code =
          with_cache([&](CubinCache& cache) { return verify_entries(cache, options->remove); });
      return;
    }
    exit_code = with_chain(options->recompile, [&](const VerifiedChain& chain) {
      return on_cache(
          [&](CubinCache& cache) { return recompile_entries(cache, chain, options->archs); });
    });
  });
}

void add_action(CLI::App& parent, const char* name, const char* description, Action action,
                int& exit_code) {
  CLI::App* command = parent.add_subcommand(name, description);
  add_output_options(*command);
  command->callback([action, &exit_code] { exit_code = with_cache(action); });
}

}  // namespace

void add_cache(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("cache", "Show, verify or remove the compiled kernels on disk");
  command->require_subcommand(1);
  add_action(*command, "path", "Print the directory", &print_path, exit_code);
  add_action(*command, "stats", "Print entries and bytes by architecture and compiler",
             &print_stats, exit_code);
  add_action(*command, "list", "List every entry", &print_list, exit_code);
  add_verify(*command, exit_code);
  add_action(
      *command, "clear", "Remove every entry",
      [](CubinCache& cache) { return print_removed(cache.clear(), cache); }, exit_code);
  auto max_bytes = std::make_shared<i64>(i64{1} << 28);
  CLI::App* prune = command->add_subcommand(
      "prune", "Remove the least recently used entries until the others fit a size");
  prune->add_option("--max-size", *max_bytes, "Bytes to keep; units as in 64MiB, 1GiB")
      ->transform(byte_size())
      ->default_str("256MiB");
  add_output_options(*prune);
  prune->callback([max_bytes, &exit_code] {
    exit_code = with_cache(
        [&](CubinCache& cache) { return print_removed(cache.prune(*max_bytes), cache); });
  });
}

}  // namespace catenary::tools
