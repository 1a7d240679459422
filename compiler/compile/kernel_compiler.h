// SPDX-License-Identifier: Apache-2.0
// What makes machine code of an emitted kernel: NVRTC for GPUs (nvrtc.h), the host's C++ compiler
// for the simulator (host_compiler.h). Callers choose one and know no more of it than this.
#pragma once

#include <string>
#include <string_view>

#include "compiler/emit/source.h"
#include "ir/error.h"

namespace catenary {

struct CompileOptions {
  bool line_info = false;     // -lineinfo: profilers show the emitted source
  bool allow_spills = false;  // false: a spill or a C75xx warning is kKernelRejected
  bool want_ptx = false;
  bool operator==(const CompileOptions&) const = default;
};

struct CompileResult {
  Cubin cubin;
  std::string ptx;  // when asked for, and where there is such a thing
  std::string log;  // the compiler's own text
  double milliseconds = 0;
};

struct CompileJob {
  KernelSource source;
  std::string arch;  // of the plan, "sm_90a"
  CompileOptions options;
};

class KernelCompiler {
 public:
  // Can it compile for this architecture?
  virtual bool supports(std::string_view arch) const = 0;

  // The library's or the program's file, for people.
  virtual const std::string& path() const = 0;

  // Name and full build, part of the key.
  virtual const std::string& compiler_id() const = 0;

  // The options that a kernel is compiled with, as text lines; part of the key.
  virtual std::string option_text(std::string_view arch, const CompileOptions& options) const = 0;

  // Digest of every header that a kernel may include; part of the key.
  virtual std::string header_digest() const = 0;

  // One compile. Thread-safe. kCompileFailed: one sentence that names the IR value and the
  // compiler's first error; the rest of the log follows on further lines.
  virtual Expected<CompileResult> compile(const CompileJob& job) const = 0;

 protected:
  ~KernelCompiler() = default;
};

}  // namespace catenary
