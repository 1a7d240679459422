// SPDX-License-Identifier: Apache-2.0
// `catenary pack merge`, `split` and `extract`: packs from packs, entry by entry, byte for byte.
#include <CLI/CLI.hpp>
#include <map>

#include "ir/counted.h"
#include "ir/output_file.h"
#include "llvm/Support/Path.h"
#include "tools/chain_file.h"
#include "tools/files.h"
#include "tools/output.h"
#include "tools/pack/pack_commands.h"

namespace catenary::tools {
namespace {

struct EditCommand {
  std::vector<std::string> packs;  // merge
  std::string pack;                // split, extract
  std::string key;
  std::string output;
  std::string code;
};

Error merge(const EditCommand& command) {
  if (Error error = OutputFile::check(command.output)) return error;
  PackWriter writer;
  i64 left_out = 0;
  for (const std::string& path : command.packs) {
    auto pack = Pack::open(path);
    if (!pack) return pack.takeError();
    for (size_t i = 0; i < (*pack)->size(); ++i) {
      Expected<bool> added = writer.add(**pack, i);
      if (!added) return added.takeError();
      left_out += *added ? 0 : 1;
    }
  }
  if (Error error = write_pack(writer, command.output)) return error;
  json_result()["left_out"] = left_out;
  if (left_out > 0) {
    out("{} {} in an earlier pack\n", counted(left_out, "entry"), left_out == 1 ? "was" : "were");
  }
  return Error::success();
}

// "llm.sm_90a.ctnpack" in `folder`, of llm.ctnpack.
std::string part_path(const std::string& folder, const std::string& path, std::string arch) {
  std::replace(arch.begin(), arch.end(), ':', '-');
  return fmt::format("{}/{}.{}.ctnpack", folder, llvm::sys::path::stem(path).str(), arch);
}

Error split(const EditCommand& command) {
  auto pack = Pack::open(command.pack);
  if (!pack) return pack.takeError();
  if (Error error = prepare_folder(command.output)) return error;
  std::map<std::string, PackWriter> writers;
  for (size_t i = 0; i < (*pack)->size(); ++i) {
    Expected<PackEntry> entry = (*pack)->entry(i);
    if (!entry) return entry.takeError();
    Expected<bool> added = writers[entry->record.arch].add(**pack, i);
    if (!added) return added.takeError();
  }
  llvm::json::Array files;
  for (const auto& [arch, writer] : writers) {
    const std::string path = part_path(command.output, command.pack, arch);
    if (Error error = write_pack(writer, path)) return error;
    files.push_back(json_string(path));
  }
  json_result() = llvm::json::Object{{"files", std::move(files)}};
  return Error::success();
}

// The machine code of an entry as files.
Error write_code(const ChainRecord& record, const std::string& folder) {
  if (Error error = prepare_folder(folder)) return error;
  llvm::json::Array files;
  for (const BucketRecord& bucket : record.buckets) {
    for (const KernelRecord& kernel : bucket.kernels) {
      const bool host = llvm::StringRef(record.arch).startswith("host:");
      const std::string path =
          fmt::format("{}/{}.{}{}", folder, kernel.symbol, kernel.identity.hex().substr(0, 8),
                      host ? ".so" : ".cubin");
      const std::vector<u8>& image = kernel.cubin->image;
      if (Error error =
              write_output(path, {reinterpret_cast<const char*>(image.data()), image.size()})) {
        return error;
      }
      out("{}\n", path);
      files.push_back(json_string(path));
    }
  }
  json_result()["files"] = std::move(files);
  return Error::success();
}

Error extract(const EditCommand& command) {
  if (command.output.empty() == command.code.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "extract writes one thing: a pack by --output, or machine code by --code");
  }
  auto pack = Pack::open(command.pack);
  if (!pack) return pack.takeError();
  Expected<size_t> row = find_row(**pack, command.key);
  if (!row) return row.takeError();
  if (!command.code.empty()) {
    auto record = (*pack)->record(*row);
    if (!record) return record.takeError();
    return write_code(**record, command.code);
  }
  PackWriter writer;
  Expected<bool> added = writer.add(**pack, *row);
  if (!added) return added.takeError();
  return write_pack(writer, command.output);
}

}  // namespace

void add_pack_edit(CLI::App& pack, int& exit_code) {
  const auto callback = [&exit_code](CLI::App& command, std::shared_ptr<EditCommand> options,
                                     Error (*run)(const EditCommand&)) {
    add_output_options(command);
    command.callback([options, run, &exit_code] { exit_code = report(run(*options)); });
  };
  auto merged = std::make_shared<EditCommand>();
  CLI::App* merge_command = pack.add_subcommand(
      "merge", "Join packs; of two entries for one chain and GPU the first stays");
  merge_command->add_option("packs", merged->packs, "Pack files")->required();
  merge_command->add_option("-o,--output", merged->output, "The pack to write")->required();
  callback(*merge_command, merged, &merge);

  auto parts = std::make_shared<EditCommand>();
  CLI::App* split_command =
      pack.add_subcommand("split", "Write a pack for each architecture of a pack");
  split_command->add_option("pack", parts->pack, "Pack file")->required();
  parts->output = ".";
  split_command->add_option("-o,--output", parts->output, "Folder for the packs")
      ->capture_default_str();
  callback(*split_command, parts, &split);

  auto one = std::make_shared<EditCommand>();
  CLI::App* extract_command =
      pack.add_subcommand("extract", "Write one entry as a pack, or its machine code as files");
  extract_command->add_option("pack", one->pack, "Pack file")->required();
  extract_command
      ->add_option("key", one->key, "The first digits of its key; KEY@GPU where several have it")
      ->required();
  extract_command->add_option("-o,--output", one->output, "The pack to write");
  extract_command->add_option("--code", one->code, "Folder for the machine code");
  callback(*extract_command, one, &extract);
}

}  // namespace catenary::tools
