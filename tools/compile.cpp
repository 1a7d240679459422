// SPDX-License-Identifier: Apache-2.0
// `catenary compile`: the files of a chain for one or more architectures. Needs no GPU, and for
// sources alone no NVRTC.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "tools/artifacts.h"
#include "tools/chain_file.h"
#include "tools/command.h"
#include "tools/engine_options.h"
#include "tools/files.h"
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

  bool wants(std::string_view kind) const { return llvm::is_contained(kinds, kind); }
};

struct Job {
  std::string name;  // as the user wrote it
  Target target;
};

Expected<std::vector<Job>> find_jobs(const CompileCommand& command) {
  std::vector<Job> jobs;
  std::vector<std::string> archs = command.archs;
  if (archs.empty()) archs.push_back("");
  for (const std::string& arch : archs) {
    Expected<Target> target = choose_target(arch);
    if (!target) return target.takeError();
    jobs.push_back({arch.empty() ? target->arch : arch, *target});
  }
  return jobs;
}

void print_kernels(const CompiledChain& compiled) {
  size_t width = 6;
  for (const auto& bucket : compiled.buckets) {
    for (const CompiledKernel& kernel : bucket) {
      width = std::max(width, kernel.source.symbol.size());
    }
  }
  fmt::print("  {:<{}}  {:>9}  {:>8}  {:>10}  {:>10}\n", "kernel", width, "registers", "spills",
             "shared", "cubin");
  for (size_t b = 0; b < compiled.buckets.size(); ++b) {
    for (size_t k = 0; k < compiled.buckets[b].size(); ++k) {
      const Cubin& cubin = *compiled.buckets[b][k].cubin;
      const i64 shared =
          cubin.resources.static_smem_bytes + compiled.plan.buckets[b].kernels[k].smem_bytes;
      fmt::print("  {:<{}}  {:>9}  {:>8}  {:>10}  {:>10}\n", cubin.symbol, width,
                 cubin.resources.registers, bytes_text(cubin.resources.spill_bytes),
                 bytes_text(shared), bytes_text(static_cast<i64>(cubin.image.size())));
    }
  }
}

Error compile_for(const CompileCommand& command, const VerifiedChain& chain, const Job& job,
                  Engine& engine, Artifacts& written) {
  const std::string folder = command.folder + "/" + job.name;
  const ArtifactKinds kinds{command.wants("source"), command.wants("ptx"), command.wants("cubin")};
  fmt::print("{} for {} ({})\n", chain.chain().name, job.target.arch, job.target.name);
  if (!kinds.ptx && !kinds.cubin && command.dump.empty()) {
    Expected<Plan> plan = make_plan(chain, job.target);
    if (!plan) return plan.takeError();
    return write_sources(folder, chain, *plan, written);
  }
  std::shared_ptr<const CompiledChain> compiled;
  {
    const Progress progress(fmt::format("compiling for {}", job.target.arch));
    auto result = engine.compile(chain.chain(), job.target);
    if (!result) return result.takeError();
    compiled = std::move(*result);
  }
  print_kernels(*compiled);
  if (Error error = write_kernels(folder, *compiled, kinds, written)) return error;
  if (command.dump.empty()) return Error::success();
  return write_dump(command.dump + "/" + job.name, *compiled, written);
}

Error compile(const CompileCommand& command, const VerifiedChain& chain) {
  Expected<std::vector<Job>> jobs = find_jobs(command);
  if (!jobs) return jobs.takeError();
  Engine engine(engine_options(!command.no_cache));
  Artifacts written;
  for (const Job& job : *jobs) {
    if (Error error = compile_for(command, chain, job, engine, written)) return error;
  }
  for (const std::string& file : written.files) fmt::print("wrote {}\n", file);
  for (const std::string& note : written.notes) fmt::print("{}\n", note);
  return Error::success();
}

}  // namespace

void add_compile(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CompileCommand>();
  CLI::App* command =
      app.add_subcommand("compile", "Write source, PTX and machine code; needs no GPU");
  command->add_option("file", options->file, "Chain file, - for standard input")->required();
  command
      ->add_option("--arch", options->archs,
                   "Architectures or GPU names, separated by commas (sm_80,sm_90a); default: this "
                   "machine's GPU, else h200")
      ->delimiter(',');
  command->add_option("--emit", options->kinds, "What to write: source, ptx, cubin")
      ->delimiter(',')
      ->check(CLI::IsMember({"source", "ptx", "cubin"}))
      ->capture_default_str();
  command
      ->add_option("-o,--output", options->folder,
                   "Folder; each architecture's files go into a folder of its name below it")
      ->capture_default_str();
  command->add_option("--dump", options->dump, "Also write everything there is into this folder");
  command->add_flag("--no-cache", options->no_cache, "Neither read nor write the cubin cache");
  command->callback([options, &exit_code] {
    exit_code = with_chain(options->file,
                           [&](const VerifiedChain& chain) { return compile(*options, chain); });
  });
}

}  // namespace catenary::tools
