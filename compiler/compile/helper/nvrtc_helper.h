// SPDX-License-Identifier: Apache-2.0
// NVRTC in helper processes. The library does not open NVRTC: a compile that crashes, hangs or
// needs too much memory is an error, and never the end of the host process. Keys and cubins are the
// same as those of Nvrtc.
//
// A helper takes about as long to start as a small kernel to compile, so it is used for several:
// there are at most as many as compiles at a time, and one that is idle for some seconds ends.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "compiler/compile/helper/process.h"
#include "compiler/compile/kernel_compiler.h"

namespace catenary {

class NvrtcHelper final : public KernelCompiler {
 public:
  // The process's compiler for these options, which are with_environment(). Made once. Errors are
  // those of find_helper() and HelperProcess::start().
  static Expected<const NvrtcHelper*> get(const HelperOptions& options);

  const std::string& path() const override { return facts_.path; }
  const std::string& compiler_id() const override { return facts_.compiler_id; }
  bool supports(std::string_view arch) const override { return nvrtc_supports(facts_, arch); }
  std::string option_text(std::string_view arch, const CompileOptions& options) const override;
  std::string header_digest() const override;

  // As Nvrtc::compile, and the errors of HelperProcess::compile.
  Expected<CompileResult> compile(const CompileJob& job) const override;

  // How many helpers have been started, for tests.
  int started() const;

 private:
  NvrtcHelper(std::string program, HelperOptions options)
      : program_(std::move(program)), options_(std::move(options)) {}
  Expected<std::unique_ptr<HelperProcess>> start() const;
  Expected<std::unique_ptr<HelperProcess>> take() const;
  void give_back(std::unique_ptr<HelperProcess> helper) const;
  void forget_parents_helpers() const;

  const std::string program_;
  const HelperOptions options_;
  NvrtcFacts facts_;  // of the first helper; all others have the same

  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable given_back_;
  mutable std::vector<std::unique_ptr<HelperProcess>> idle_;
  mutable int in_use_ = 0;
  mutable int started_ = 0;
  mutable pid_t owner_ = 0;
};

// NVRTC as `options` say: in helpers or in this process. `warn` gets one line, once, where there is
// no helper and this process compiles instead.
Expected<const KernelCompiler*> find_nvrtc(const HelperOptions& options,
                                           const std::function<void(const std::string&)>& warn);

}  // namespace catenary
