// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile/pinned_compiler.h"

#include "compiler/compile/nvrtc.h"
#include "compiler/compile/templates.h"

namespace catenary {

PinnedCompiler::PinnedCompiler(std::string build, Open open)
    : build_(std::move(build)), open_(std::move(open)) {}

std::string PinnedCompiler::option_text(std::string_view arch,
                                        const CompileOptions& options) const {
  return nvrtc_option_text(arch, options);
}

std::string PinnedCompiler::header_digest() const { return std::string(templates_digest()); }

Expected<CompileResult> PinnedCompiler::compile(const CompileJob& job) const {
  Expected<const KernelCompiler*> opened = open_();
  if (!opened) return opened.takeError();
  const KernelCompiler& compiler = **opened;
  if (compiler.compiler_id() != build_) {
    return make_error(ErrorCode::kNvrtcMissing,
                      "kernel {} is not in the cache, which is pinned to {}, and NVRTC is {} at "
                      "{}: install the pinned build, or change the pin",
                      job.source.symbol, message_text(build_), compiler.compiler_id(),
                      compiler.path());
  }
  if (compiler.supports(job.arch)) return compiler.compile(job);
  return make_error(ErrorCode::kUnsupported,
                    "{} cannot compile for {}: install a newer NVRTC, or choose another target",
                    build_, job.arch);
}

}  // namespace catenary
