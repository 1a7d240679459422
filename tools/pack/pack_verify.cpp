// SPDX-License-Identifier: Apache-2.0
// `catenary pack verify`: a pack against its digests. `catenary pack check`: packs against what a
// program asked for.
#include <CLI/CLI.hpp>

#include "ir/counted.h"
#include "ir/output_file.h"
#include "runtime/lookup/pack_lookup.h"
#include "tools/chain_file.h"
#include "tools/output.h"
#include "tools/pack/pack_commands.h"
#include "tools/pack/trace_file.h"
#include "tools/progress.h"

namespace catenary::tools {
namespace {

Error verify_pack(const std::string& path, const std::string& digest) {
  PackOptions options;
  options.expected_sha256 = digest;
  auto pack = Pack::open(path, options);
  if (!pack) return pack.takeError();
  {
    Progress progress("verifying",
                      static_cast<i64>((*pack)->header().entries + (*pack)->header().blobs));
    if (Error error = (*pack)->verify([&] { progress.advance(); })) return error;
  }
  Expected<KernelKey> whole = (*pack)->file_digest();
  if (!whole) return whole.takeError();
  json_result()["file"] = json_string(path);
  json_result()["entries"] = static_cast<i64>((*pack)->size());
  json_result()["sha256"] = whole->hex();
  out("{}: {} verified\nsha256 {}\n", path, counted((*pack)->size(), "entry"), whole->hex());
  return Error::success();
}

struct CheckCommand {
  std::string trace;
  std::vector<std::string> packs;
  std::string misses;
};

Error check_trace(const CheckCommand& command) {
  if (!command.misses.empty()) {
    if (Error error = OutputFile::check(command.misses)) return error;
  }
  Expected<std::vector<ChainRequest>> requests = read_trace(command.trace);
  if (!requests) return requests.takeError();
  LookupOptions options;
  options.jit = JitMode::kOff;
  options.warn = [](const std::string& line) { err("catenary: warning: {}\n", line); };
  for (const std::string& path : command.packs) {
    auto pack = Pack::open(path);
    if (!pack) return pack.takeError();
    options.packs.push_back(std::move(*pack));
  }
  PackLookup lookup(std::move(options));
  llvm::json::Array missed;
  for (const ChainRequest& request : *requests) {
    auto found = lookup.find(request);
    if (!found) return found.takeError();
    if (*found) continue;
    const std::string message = take_report(lookup.miss(request)).message;
    out("{}\n", message);
    missed.push_back(llvm::json::Object{{"chain", request.chain.chain().name},
                                        {"arch", request.arch()},
                                        {"message", llvm::json::fixUTF8(message)}});
  }
  if (!command.misses.empty()) {
    if (Error error = write_output(command.misses, lookup.missed())) return error;
  }
  const size_t count = missed.size();
  json_result()["asked"] = static_cast<i64>(requests->size());
  json_result()["missed"] = std::move(missed);
  if (count == 0) {
    out("the packs have all of {}, {}\n", command.trace, counted(requests->size(), "chain"));
    return Error::success();
  }
  return make_error(ErrorCode::kMismatch, "{} of {} {} in no pack", count,
                    counted(requests->size(), "chain"), count == 1 ? "is" : "are");
}

}  // namespace

void add_pack_verify(CLI::App& pack, int& exit_code) {
  struct Words {
    std::string path, digest;
  };
  auto words = std::make_shared<Words>();
  CLI::App* verify = pack.add_subcommand("verify", "Check every byte of a pack by its digests");
  verify->add_option("pack", words->path, "Pack file")->required();
  verify->add_option("--sha256", words->digest, "What the SHA-256 of the file must be");
  add_output_options(*verify);
  verify->callback(
      [words, &exit_code] { exit_code = report(verify_pack(words->path, words->digest)); });

  auto options = std::make_shared<CheckCommand>();
  CLI::App* check = pack.add_subcommand(
      "check", "Look for every chain of a trace in packs; exit code 1 if one is missed");
  check->add_option("trace", options->trace, "Trace file, - for standard input")->required();
  check->add_option("packs", options->packs, "Pack files")->required();
  check->add_option("--misses", options->misses, "Write the misses to this file, as a trace");
  add_output_options(*check);
  check->callback([options, &exit_code] { exit_code = report(check_trace(*options)); });
}

}  // namespace catenary::tools
