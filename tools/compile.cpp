// SPDX-License-Identifier: Apache-2.0
// `catenary compile`: writes the files of a chain for one or more architectures. Needs no GPU; for
// sources only, no NVRTC.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "ir/counted.h"
#include "tools/artifacts.h"
#include "tools/chain_file.h"
#include "tools/command.h"
#include "tools/command_tree.h"
#include "tools/engine_options.h"
#include "tools/files.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/targets.h"

namespace catenary::tools {
namespace {

struct CompileCommand {
  std::string file;
  std::vector<std::string> archs;
  std::vector<std::string> kinds = {"source", "cubin"};
  std::string folder = ".";
  std::string dump;
  bool no_cache = false;
  bool batch_invariant = false;
  bool algebraic_norms = false;

  bool wants(std::string_view kind) const { return llvm::is_contained(kinds, kind); }
};

struct Job {
  std::string name;  // as the user spells it
  Target target;
};

Expected<std::vector<Job>> find_jobs(const CompileCommand& command) {
  Expected<std::vector<std::string>> names = target_names(command.archs);
  if (!names) return names.takeError();
  std::vector<Job> jobs;
  if (names->empty()) {
    Expected<Target> target = choose_target("");
    if (!target) return target.takeError();
    jobs.push_back({target->arch, *target});
  }
  for (const std::string& arch : *names) {
    Expected<Target> target = find_target(arch);
    if (!target) return target.takeError();
    jobs.push_back({arch, *target});
  }
  return jobs;
}

void print_kernels(const CompiledChain& compiled) {
  const auto name = [&](size_t bucket, const CompiledKernel& kernel) {
    return bucket_folder(compiled.chain, compiled.plan, bucket) + kernel.source.symbol;
  };
  size_t width = 6;
  for (size_t b = 0; b < compiled.buckets.size(); ++b) {
    for (const CompiledKernel& k : compiled.buckets[b]) width = std::max(width, name(b, k).size());
  }
  out("  {:<{}}  {:>9}  {:>8}  {:>10}  {:>10}\n", "kernel", width, "registers", "spills", "shared",
      "cubin");
  for (size_t b = 0; b < compiled.buckets.size(); ++b) {
    for (size_t k = 0; k < compiled.buckets[b].size(); ++k) {
      const CompiledKernel& kernel = compiled.buckets[b][k];
      const KernelResources& used = kernel.cubin->resources;
      const i64 shared = used.static_smem_bytes + compiled.plan.buckets[b].kernels[k].smem_bytes;
      out("  {:<{}}  {:>9}  {:>8}  {:>10}  {:>10}\n", name(b, kernel), width, used.registers,
          bytes_text(used.spill_bytes), bytes_text(shared),
          bytes_text(static_cast<i64>(kernel.cubin->image.size())));
    }
  }
}

llvm::json::Value kernels_json(const CompiledChain& compiled) {
  llvm::json::Array kernels;
  for (size_t b = 0; b < compiled.buckets.size(); ++b) {
    for (size_t k = 0; k < compiled.buckets[b].size(); ++k) {
      const Cubin& cubin = *compiled.buckets[b][k].cubin;
      const KernelResources& used = cubin.resources;
      const i64 shared = used.static_smem_bytes + compiled.plan.buckets[b].kernels[k].smem_bytes;
      kernels.push_back(
          llvm::json::Object{{"symbol", cubin.symbol},
                             {"folder", bucket_folder(compiled.chain, compiled.plan, b)},
                             {"registers", used.registers},
                             {"spill_bytes", used.spill_bytes},
                             {"shared_bytes", shared},
                             {"cubin_bytes", static_cast<i64>(cubin.image.size())}});
    }
  }
  return kernels;
}

void print_written(const Artifacts& written, const std::string& folder) {
  out("  {} written into {}\n", counted(written.files.size(), "file"), folder);
  for (const std::string& note : written.notes) out("  {}\n", note);
}

// `result`: the target's member of --json.
Error compile_for(const CompileCommand& command, const VerifiedChain& chain, const Job& job,
                  Engine& engine, llvm::json::Object& result) {
  const std::string folder = command.folder + "/" + job.name;
  const ArtifactKinds kinds{command.wants("source"), command.wants("ptx"), command.wants("cubin")};
  out("{} for {}, planned for {}\n", chain.chain().name, job.target.arch, job.target.name);
  Artifacts written;
  if (!kinds.ptx && !kinds.cubin && command.dump.empty()) {
    Expected<Plan> plan = engine.plan(chain, job.target);
    if (!plan) return plan.takeError();
    if (Error error = write_sources(folder, chain, *plan, written)) return error;
    print_written(written, folder);
    result["written"] = artifacts_json(written);
    return Error::success();
  }
  std::shared_ptr<const CompiledChain> compiled;
  {
    const Progress progress(fmt::format("compiling for {}", job.target.arch));
    auto made = engine.compile(chain.chain(), job.target);
    if (!made) return made.takeError();
    compiled = std::move(*made);
  }
  print_kernels(*compiled);
  result["kernels"] = kernels_json(*compiled);
  if (Error error = write_kernels(folder, *compiled, kinds, written)) return error;
  print_written(written, folder);
  result["written"] = artifacts_json(written);
  if (command.dump.empty()) return Error::success();
  const std::string dump = command.dump + "/" + job.name;
  Artifacts dumped;
  if (Error error = write_dump(dump, *compiled, dumped)) return error;
  print_written(dumped, dump);
  result["dump"] = artifacts_json(dumped);
  return Error::success();
}

Error compile(const CompileCommand& command, const VerifiedChain& chain) {
  Expected<std::vector<Job>> jobs = find_jobs(command);
  if (!jobs) return jobs.takeError();
  for (const Job& job : *jobs) {
    for (const std::string& folder : {command.folder, command.dump}) {
      if (folder.empty()) continue;
      if (Error error = prepare_folder(folder + "/" + job.name)) return error;
    }
  }
  EngineOptions options = engine_options(!command.no_cache);
  options.plan.batch_invariant = command.batch_invariant;
  Engine engine(std::move(options));
  llvm::json::Array targets;
  Error error = Error::success();
  Progress progress(jobs->size() == 1 ? fmt::format("compiling for {}", jobs->front().target.arch)
                                      : fmt::format("compiling for {} architectures", jobs->size()),
                    static_cast<i64>(jobs->size()));
  for (const Job& job : *jobs) {
    llvm::json::Object result{{"arch", job.target.arch}, {"target", job.target.name}};
    error = compile_for(command, chain, job, engine, result);
    targets.push_back(std::move(result));
    if (error) break;
    progress.advance();
  }
  json_result()["chain"] = chain.chain().name;
  json_result()["targets"] = std::move(targets);
  return error;
}

}  // namespace

void add_compile(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CompileCommand>();
  CLI::App* command =
      app.add_subcommand("compile", "Write source, PTX and machine code; needs no GPU");
  command->add_option("file", options->file, "Chain file, - for standard input")
      ->required()
      ->type_name(kChainFile);
  command
      ->add_option(
          "--arch,--target", options->archs,
          "Architectures or GPU names, separated by commas (sm_80,sm_90a); default: the GPU "
          "of this machine, else h200")
      ->type_name(kTarget)
      ->allow_extra_args(false);
  command
      ->add_option("--emit", options->kinds,
                   "What to write, separated by commas: source, ptx, cubin")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"source", "ptx", "cubin"}))
      ->capture_default_str();
  command
      ->add_option("-o,--output", options->folder,
                   "Output folder; each architecture has a subfolder")
      ->type_name(kFolder)
      ->capture_default_str();
  command
      ->add_option("--dump", options->dump,
                   "Also write chain, plan, source, PTX, cubin and SASS into this folder")
      ->type_name(kFolder);
  command->add_flag("--no-cache", options->no_cache, "Neither read nor write the cubin cache");
  add_batch_invariant(*command, options->batch_invariant);
  add_algebraic_norms(*command, options->algebraic_norms);
  add_output_options(*command);
  command->callback([options, &exit_code] {
    exit_code = with_chain(
        options->file, [&](const VerifiedChain& chain) { return compile(*options, chain); },
        options->algebraic_norms);
  });
}

}  // namespace catenary::tools
