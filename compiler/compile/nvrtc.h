// SPDX-License-Identifier: Apache-2.0
// KernelSource -> Cubin by NVRTC, opened at run time wherever it lies: CATENARY_NVRTC, already
// loaded in the process, the loader's path, CUDA_HOME and CUDA_PATH, /usr/local/cuda, the Python
// wheel's layout (site-packages/nvidia/cu13/lib, nvidia/cuda_nvrtc/lib). Its sibling
// libnvrtc-builtins is opened first, because libnvrtc 13 has no RUNPATH. Needs no GPU and no
// driver.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile/kernel_compiler.h"
#include "llvm/ADT/ArrayRef.h"

namespace catenary {

// What the library is, apart from its code.
struct NvrtcFacts {
  std::string path;
  std::string compiler_id;  // "nvrtc 13.0.88 CL-36424714"
  int major = 0;
  int minor = 0;
  std::vector<int> archs;  // 75, 80, ... : what it can compile for, ascending
  bool operator==(const NvrtcFacts&) const = default;
};

// Whether that NVRTC compiles for `arch`, as in "sm_90a".
bool nvrtc_supports(const NvrtcFacts& nvrtc, std::string_view arch);

// The options of a compile and whether spills pass, as text lines; part of the key.
std::string nvrtc_option_text(std::string_view arch, const CompileOptions& options);

// NVRTC ends the process when it gets no memory. kOutOfMemory: the process has a limit of address
// space that leaves less than NVRTC needs.
Error check_nvrtc_memory();

class Nvrtc final : public KernelCompiler {
 public:
  // The process's NVRTC, found and opened once. kNvrtcMissing lists every place that was tried.
  // Versions 12.8 to 13.x are accepted.
  static Expected<const Nvrtc*> get();

  // Opens the library at `path` (a file, or a directory to look in) for tests and doctor.
  static Expected<std::unique_ptr<Nvrtc>> open(const std::string& path);

  // Places that get() tries in order, for doctor and for the error. CATENARY_NVRTC, where set, is
  // the only one.
  static std::vector<std::string> search_places();

  const NvrtcFacts& facts() const;
  const std::string& path() const override;
  // "nvrtc 13.0.88 CL-36424714": the full build, read from a probe compile's PTX header.
  const std::string& compiler_id() const override;
  // Architectures this NVRTC can compile for, as in "sm_90a".
  bool supports(std::string_view arch) const override;

  // One compile, on a thread of its own with an 8 MiB stack (callers may have tiny ones).
  // kCompileFailed: one sentence that names the IR value (the emitted line's comment) and NVRTC's
  // first error; the rest of the log follows on further lines. kUnsupported: an architecture that
  // this NVRTC does not know. kResourceLimit: a body over 4 MiB. kOutOfMemory.
  Expected<CompileResult> compile(const CompileJob& job) const override;

  // Many compiles in parallel on min(jobs, threads, cores, 8) threads; results in the jobs' order.
  std::vector<Expected<CompileResult>> compile_all(llvm::ArrayRef<CompileJob> jobs,
                                                   int threads = 0) const;

  std::string option_text(std::string_view arch, const CompileOptions& options) const override;

  // templates_digest().
  std::string header_digest() const override;

  ~Nvrtc();

 private:
  struct Api;
  explicit Nvrtc(std::unique_ptr<Api> api);
  Expected<CompileResult> compile_checked(const CompileJob& job) const;
  std::unique_ptr<Api> api_;
};

}  // namespace catenary
