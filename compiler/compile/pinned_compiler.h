// SPDX-License-Identifier: Apache-2.0
// NVRTC by the name of its build: keys of kernels need no more of it, so that a kernel of the cache
// is found where no NVRTC is opened, or installed.
#pragma once

#include <functional>

#include "compiler/compile/kernel_compiler.h"

namespace catenary {

class PinnedCompiler final : public KernelCompiler {
 public:
  using Open = std::function<Expected<const KernelCompiler*>()>;

  // `build`: a compiler_id(), "nvrtc 13.0.88 CL-36424714". `open` is called by compile() only.
  PinnedCompiler(std::string build, Open open);

  const std::string& path() const override { return path_; }  // empty
  const std::string& compiler_id() const override { return build_; }
  // What NVRTC does not know is found by compile().
  bool supports(std::string_view) const override { return true; }
  std::string option_text(std::string_view arch, const CompileOptions& options) const override;
  std::string header_digest() const override;

  // Errors of `open`; kNvrtcMissing: it gives another build; kUnsupported: one that does not
  // compile for the architecture. Else the result of its compile().
  Expected<CompileResult> compile(const CompileJob& job) const override;

 private:
  const std::string build_;
  const Open open_;
  const std::string path_;
};

}  // namespace catenary
