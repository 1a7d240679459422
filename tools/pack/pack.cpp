// SPDX-License-Identifier: Apache-2.0
// `catenary pack`: builds packs and looks into them. What its subcommands share.
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <map>
#include <set>

#include "ir/counted.h"
#include "ir/json.h"
#include "ir/names.h"
#include "ir/output_file.h"
#include "llvm/ADT/StringRef.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/output.h"
#include "tools/pack/pack_commands.h"

namespace catenary::tools {
namespace {

constexpr size_t kMaxPackBytes = size_t{2} << 30;

// The members of an object have no order of their own.
std::map<std::string, llvm::json::Value> sorted(const llvm::json::Object& object) {
  std::map<std::string, llvm::json::Value> members;
  for (const auto& [name, value] : object) members.emplace(name.str(), value);
  return members;
}

}  // namespace

void print_pack(const std::string& path, const std::vector<u8>& bytes) {
  Expected<std::shared_ptr<const Pack>> pack = Pack::open_memory(bytes);
  if (!pack) {
    llvm::consumeError(pack.takeError());
    return;
  }
  const std::string digest = sha256(bytes).hex();
  out("{}: {}, {}\nsha256 {}\n", path, counted((*pack)->size(), "entry"),
      bytes_text(static_cast<i64>(bytes.size())), digest);
  json_result()["file"] = json_string(path);
  json_result()["bytes"] = static_cast<i64>(bytes.size());
  json_result()["sha256"] = digest;
  Expected<std::string> text = (*pack)->manifest();
  Expected<llvm::json::Value> manifest = text ? parse_json(*text) : text.takeError();
  if (!manifest) {
    llvm::consumeError(manifest.takeError());
    return;
  }
  const llvm::json::Object& facts = *manifest->getAsObject();
  for (const auto& [arch, count] : sorted(*facts.getObject("archs"))) {
    out("  {:<14} {}\n", arch, counted(count.getAsInteger().getValueOr(0), "entry"));
  }
  if (const auto driver = facts.getString("min_driver")) {
    out("  driver         {} or newer\n", driver->str());
  }
  for (const auto& [family, value] : sorted(*facts.getObject("families"))) {
    const llvm::json::Object& object = *value.getAsObject();
    out("  {:<14} {}, {} of machine code\n", family,
        counted(object.getInteger("kernels").getValueOr(0), "kernel"),
        bytes_text(object.getInteger("bytes").getValueOr(0)));
  }
  json_result()["manifest"] = std::move(*manifest);
}

Error write_pack(const PackWriter& writer, const std::string& path) {
  Expected<std::vector<u8>> bytes = writer.bytes();
  if (!bytes) return bytes.takeError();
  if (bytes->size() > kMaxPackBytes) {
    return make_error(ErrorCode::kResourceLimit,
                      "the pack would have {}, and 2 GiB is the limit: build one for each "
                      "architecture",
                      bytes_text(static_cast<i64>(bytes->size())));
  }
  const llvm::StringRef text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (Error error = write_output(path, text)) return error;
  print_pack(path, *bytes);
  return Error::success();
}

Expected<size_t> find_row(const Pack& pack, const std::string& words) {
  const auto [prefix, gpu] = llvm::StringRef(words).split('@');
  std::vector<size_t> found;
  std::set<KernelKey> keys;
  std::string example;
  for (size_t i = 0; i < pack.size(); ++i) {
    Expected<PackRow> row = pack.row(i);
    if (!row) return row.takeError();
    if (!llvm::StringRef(row->key.hex()).startswith_insensitive(prefix)) continue;
    Expected<PackEntry> entry = pack.entry(i);
    if (!entry) return entry.takeError();
    const Target& target = entry->record.target;
    if (!gpu.empty() && gpu != target.name && gpu != std::to_string(target.sm_count)) continue;
    found.push_back(i);
    keys.insert(row->key);
    example = fmt::format("{}@{}", row->key.hex().substr(0, kShownKey), target.name);
  }
  if (found.size() == 1) return found[0];
  if (keys.size() == 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the pack {} has {} with the key {}: add the GPU, or its number of SMs, as "
                      "in {}",
                      pack.name(), counted(found.size(), "entry"), catenary::quoted(prefix),
                      message_text(example));
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "{} of the pack {} begins with {}: give a key that `catenary pack list` prints",
                    found.empty() ? "no key" : "more than one key", pack.name(),
                    catenary::quoted(words));
}

std::string entry_text(const ChainRecord& record) {
  std::string text = record.name;
  if (const auto& symbol = record.symbol) {
    text += fmt::format(", {} in {}..{}", symbol->name, symbol->lo, symbol->hi);
  }
  if (record.tensors.empty()) return message_text(text);
  const TensorRecord& first = record.tensors[0];
  std::vector<std::string> sizes;
  for (const Dim& dim : first.type.shape) {
    sizes.push_back(dim.symbolic ? record.symbol->name : std::to_string(dim.size));
  }
  text +=
      fmt::format(", {}: {}[{}]", first.name, dtype_text(first.type.dtype), fmt::join(sizes, ", "));
  return message_text(text);
}

void add_pack(CLI::App& app, int& exit_code) {
  CLI::App* pack = app.add_subcommand(
      "pack", "Build packs: chains that run without a compiler; show, verify and change them");
  pack->require_subcommand(1);
  add_pack_build(*pack, exit_code);
  add_pack_view(*pack, exit_code);
  add_pack_verify(*pack, exit_code);
  add_pack_edit(*pack, exit_code);
  add_pack_object(*pack, exit_code);
}

}  // namespace catenary::tools
