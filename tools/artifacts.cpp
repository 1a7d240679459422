// SPDX-License-Identifier: Apache-2.0
#include "tools/artifacts.h"

#include "compiler/compile/environment.h"
#include "compiler/compile/host_compiler.h"
#include "compiler/emit/emit.h"
#include "compiler/explain.h"
#include "ir/json.h"
#include "ir/names.h"
#include "ir/output_file.h"
#include "ir/text/text.h"
#include "llvm/Support/Program.h"
#include "tools/engine_options.h"
#include "tools/files.h"
#include "tools/output.h"

namespace catenary::tools {
namespace {

Error write(const std::string& path, llvm::StringRef bytes, Artifacts& written) {
  if (Error error = write_output(path, bytes)) return error;
  written.files.push_back(path);
  return Error::success();
}

// nvdisasm or cuobjdump, on the path or in the CUDA toolkit.
struct Disassembler {
  std::string program;
  std::vector<llvm::StringRef> arguments;  // before the cubin's path
};

std::optional<Disassembler> find_disassembler() {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string home = environment(variable);
    if (!home.empty()) folders.push_back(home + "/bin");
  }
  folders.push_back("/usr/local/cuda/bin");
  const std::vector<llvm::StringRef> toolkit(folders.begin(), folders.end());
  for (const char* name : {"nvdisasm", "cuobjdump"}) {
    llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName(name);
    if (!found) found = llvm::sys::findProgramByName(name, toolkit);
    if (!found) continue;
    if (name == std::string_view("cuobjdump")) return Disassembler{*found, {"-sass"}};
    return Disassembler{*found, {}};
  }
  return std::nullopt;
}

// A disassembler that fails is a note, not an error: the other files are still useful.
void write_sass(const Disassembler& tool, const std::string& cubin, const std::string& path,
                Artifacts& written) {
  const auto note = [&](const std::string& problem) {
    written.notes.push_back(fmt::format("no SASS of {}: {}", cubin, problem));
  };
  Expected<OutputFile> file = OutputFile::open(path);
  if (!file) return note(take_report(file.takeError()).message);
  std::vector<llvm::StringRef> arguments{tool.program};
  arguments.insert(arguments.end(), tool.arguments.begin(), tool.arguments.end());
  arguments.push_back(cubin);
  const std::string output = file->path_for_programs();
  const llvm::Optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(output),
                                                       llvm::StringRef("")};
  std::string problem;
  const int status =
      llvm::sys::ExecuteAndWait(tool.program, arguments, llvm::None, redirects, 60, 0, &problem);
  if (status != 0) {
    return note(fmt::format("{} failed with exit code {}{}", tool.program, status,
                            problem.empty() ? "" : fmt::format(" ({})", problem)));
  }
  if (Error error = file->commit()) return note(take_report(std::move(error)).message);
  written.files.push_back(path);
}

Error write_ptx(const std::string& path, const CompiledKernel& kernel, Artifacts& written) {
  Expected<const KernelCompiler*> compiler = nvrtc();
  if (!compiler) return compiler.takeError();
  CompileOptions options;
  options.want_ptx = true;
  Expected<CompileResult> result =
      (*compiler)->compile(CompileJob{kernel.source, kernel.cubin->arch, options});
  if (!result) return result.takeError();
  return write(path, result->ptx, written);
}

// `path` has no suffix yet.
Error write_kernel(const std::string& path, const CompiledKernel& kernel, ArtifactKinds kinds,
                   const std::optional<Disassembler>& disassembler, Artifacts& written) {
  if (kinds.source) {
    if (Error error = write(path + ".cu", kernel.source.text(), written)) return error;
  }
  if (kinds.ptx) {
    if (Error error = write_ptx(path + ".ptx", kernel, written)) return error;
  }
  if (kinds.cubin) {
    const char* suffix = is_host_arch(kernel.cubin->arch) ? ".so" : ".cubin";
    const std::vector<u8>& image = kernel.cubin->image;
    const llvm::StringRef bytes(reinterpret_cast<const char*>(image.data()), image.size());
    if (Error error = write(path + suffix, bytes, written)) return error;
  }
  if (kinds.sass && disassembler) {
    write_sass(*disassembler, path + ".cubin", path + ".sass", written);
  }
  return Error::success();
}

}  // namespace

llvm::json::Value artifacts_json(const Artifacts& written) {
  llvm::json::Array files;
  llvm::json::Array notes;
  for (const std::string& path : written.files) files.push_back(json_string(path));
  for (const std::string& note : written.notes) notes.push_back(json_string(note));
  return llvm::json::Object{{"files", std::move(files)}, {"notes", std::move(notes)}};
}

std::string bucket_folder(const VerifiedChain& chain, const Plan& plan, size_t bucket) {
  if (plan.buckets.size() == 1) return "";
  return fmt::format("{}_{}_to_{}/", chain.chain().symbol->name, plan.buckets[bucket].lo,
                     plan.buckets[bucket].hi);
}

Error write_kernels(const std::string& folder, const CompiledChain& compiled, ArtifactKinds kinds,
                    Artifacts& written) {
  const std::optional<Disassembler> disassembler =
      kinds.sass ? find_disassembler() : std::optional<Disassembler>();
  for (size_t b = 0; b < compiled.buckets.size(); ++b) {
    const std::string path = folder + "/" + bucket_folder(compiled.chain, compiled.plan, b);
    if (Error error = make_folder(path)) return error;
    for (const CompiledKernel& kernel : compiled.buckets[b]) {
      if (Error error =
              write_kernel(path + kernel.source.symbol, kernel, kinds, disassembler, written)) {
        return error;
      }
    }
  }
  if (kinds.sass && !disassembler) {
    written.notes.push_back(
        "no SASS: neither nvdisasm nor cuobjdump is on the path or in the CUDA toolkit; install "
        "one of them");
  }
  return Error::success();
}

Error write_sources(const std::string& folder, const VerifiedChain& chain, const Plan& plan,
                    Artifacts& written) {
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const std::string path = folder + "/" + bucket_folder(chain, plan, b);
    if (Error error = make_folder(path)) return error;
    for (const KernelPlan& kernel : plan.buckets[b].kernels) {
      const KernelSource source = emit(chain, plan, kernel);
      const std::string file = path + source.symbol + ".cu";
      if (Error error = write(file, source.text(), written)) return error;
    }
  }
  return Error::success();
}

Error write_plan(const std::string& folder, const VerifiedChain& chain, const Plan& plan,
                 Artifacts& written) {
  if (Error error = make_folder(folder)) return error;
  if (Error error = write(folder + "/chain.chain", print(chain.chain()), written)) return error;
  if (Error error = write(folder + "/plan.txt", explain_text(chain, plan), written)) return error;
  return write(folder + "/plan.json", json_text(explain_json(chain, plan)) + "\n", written);
}

Error write_dump(const std::string& folder, const CompiledChain& compiled, Artifacts& written) {
  if (Error error = write_plan(folder, compiled.chain, compiled.plan, written)) return error;
  const bool for_host = !compiled.buckets.empty() && !compiled.buckets.front().empty() &&
                        is_host_arch(compiled.buckets.front().front().cubin->arch);
  if (for_host) {
    written.notes.push_back(
        "no PTX and no SASS: these kernels are for the simulator; `catenary compile` writes those "
        "of a GPU");
  }
  return write_kernels(folder, compiled, {true, !for_host, true, !for_host}, written);
}

}  // namespace catenary::tools
