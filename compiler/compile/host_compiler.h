// SPDX-License-Identifier: Apache-2.0
// KernelSource -> a shared object for the simulator, by the host's own C++ compiler: the emitted
// text as it is, over the templates, with the host shims of sim/ in place of the PTX wrappers.
// Needs no GPU, no driver and no NVRTC.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile/kernel_compiler.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace catenary {

// Machine code for the simulator has the arch "host:sm_90a": the arch that the plan is for.
inline constexpr llvm::StringLiteral kHostArch = "host:";

// The arch of the plan: "sm_90a" of "host:sm_90a", any other text as it is.
std::string_view planned_arch(std::string_view arch);
inline bool is_host_arch(std::string_view arch) { return planned_arch(arch) != arch; }

// For messages: "the simulator of sm_90a" of "host:sm_90a", any other text as it is.
std::string arch_words(std::string_view arch);

class HostCompiler final : public KernelCompiler {
 public:
  // The process's compiler, found and tried out once: CATENARY_CXX alone where it is set, else g++,
  // then clang++ on the path. kHostCompilerMissing lists what was tried and why it failed.
  static Expected<const HostCompiler*> get();

  // The compiler `program`, a path or a name on the path. kHostCompilerMissing.
  static Expected<std::unique_ptr<HostCompiler>> open(const std::string& program);

  // The same compiler; headers below `folder` replace those of the same names. For tests that plant
  // faults: header_digest() is that of this one, so the two must not share a cache.
  HostCompiler over(std::string folder) const;

  const std::string& path() const override { return path_; }
  // "host g++ (Debian 12.2.0-14+deb12u1) 12.2.0".
  const std::string& compiler_id() const override { return compiler_id_; }
  // Any: it only decides which parts of a template are compiled.
  bool supports(std::string_view arch) const override;

  // Cubin::image is a shared object (simulator/object.h), Cubin::arch "host:" and the job's. A
  // compile takes a few tenths of a second, in a folder of the process's own below TMPDIR.
  // kCompileFailed as KernelCompiler says, also for a compiler that ends without an object or not
  // within 5 minutes; kHostCompilerMissing: it cannot be started; kIo: no file can be written
  // there.
  Expected<CompileResult> compile(const CompileJob& job) const override;

  std::string option_text(std::string_view arch, const CompileOptions& options) const override;
  // templates_digest() and shims_digest().
  std::string header_digest() const override;

 private:
  HostCompiler() = default;
  std::vector<std::string> option_list(std::string_view arch, const CompileOptions& options) const;
  // The first of `programs` that will do; `variable` is how the user chose it.
  static Expected<std::unique_ptr<HostCompiler>> find(llvm::ArrayRef<std::string> programs,
                                                      llvm::StringRef variable);
  // Empty, or why the compiler will not do.
  Expected<std::string> try_out();
  std::string path_;
  std::string compiler_id_;
  std::string over_;              // a folder of headers that come first; empty: none
  bool fills_variables_ = false;  // knows -ftrivial-auto-var-init
};

}  // namespace catenary
