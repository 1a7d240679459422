// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile/helper/nvrtc_helper.h"

#include <unistd.h>

#include <map>

#include "compiler/compile/nvrtc.h"
#include "compiler/compile/templates.h"
#include "ir/callbacks.h"
#include "llvm/ADT/ScopeExit.h"

namespace catenary {
namespace {

constexpr int kMaxHelpers = 8;

}  // namespace

Expected<const NvrtcHelper*> NvrtcHelper::get(const HelperOptions& options) {
  static std::mutex mutex;
  // Never destroyed: threads may compile until the process ends. Helpers end with it.
  static auto& instances = *new std::map<HelperOptions, std::unique_ptr<NvrtcHelper>>;
  const CallbacksHeld held;
  const std::lock_guard lock(mutex);
  if (const auto it = instances.find(options); it != instances.end()) return it->second.get();
  Expected<std::string> program = find_helper(options);
  if (!program) return program.takeError();
  std::unique_ptr<NvrtcHelper> made(new NvrtcHelper(std::move(*program), options));
  made->owner_ = ::getpid();
  auto first = HelperProcess::start(made->program_, options);
  if (!first) return first.takeError();
  made->facts_ = (*first)->greeting().nvrtc;
  made->started_ = 1;
  made->idle_.reserve(kMaxHelpers);  // giving back needs no memory
  made->idle_.push_back(std::move(*first));
  return (instances[options] = std::move(made)).get();
}

std::string NvrtcHelper::option_text(std::string_view arch, const CompileOptions& options) const {
  return nvrtc_option_text(arch, options);
}

std::string NvrtcHelper::header_digest() const { return std::string(templates_digest()); }

int NvrtcHelper::started() const {
  const std::lock_guard lock(mutex_);
  return started_;
}

Expected<std::unique_ptr<HelperProcess>> NvrtcHelper::start() const {
  auto helper = HelperProcess::start(program_, options_);
  if (!helper) return helper;
  if ((*helper)->greeting().nvrtc == facts_) return helper;
  // The key of a kernel names the compiler of the first helper.
  return make_error(ErrorCode::kNvrtcMissing,
                    "NVRTC was {} at {} when this process began to compile, and is {} at {} now: "
                    "restart the process",
                    facts_.compiler_id, facts_.path, (*helper)->greeting().nvrtc.compiler_id,
                    (*helper)->greeting().nvrtc.path);
}

// In a child of fork() the helpers are its parent's.
void NvrtcHelper::forget_parents_helpers() const {
  if (owner_ == ::getpid()) return;
  for (const auto& helper : idle_) helper->leave_to_parent();
  idle_.clear();
  in_use_ = 0;
  owner_ = ::getpid();
}

Expected<std::unique_ptr<HelperProcess>> NvrtcHelper::take() const {
  {
    std::unique_lock lock(mutex_);
    forget_parents_helpers();
    given_back_.wait(lock, [&] { return in_use_ < kMaxHelpers; });
    ++in_use_;
    while (!idle_.empty()) {
      std::unique_ptr<HelperProcess> helper = std::move(idle_.back());
      idle_.pop_back();
      if (helper->is_running()) return helper;
    }
    ++started_;
  }
  return start();
}

void NvrtcHelper::give_back(std::unique_ptr<HelperProcess> helper) const {
  {
    const std::lock_guard lock(mutex_);
    --in_use_;
    if (helper && helper->is_running()) idle_.push_back(std::move(helper));
  }
  given_back_.notify_one();
}

Expected<CompileResult> NvrtcHelper::compile(const CompileJob& job) const {
  for (;;) {
    std::unique_ptr<HelperProcess> helper;
    const auto returned = llvm::make_scope_exit([&] { give_back(std::move(helper)); });
    auto taken = take();
    if (!taken) return taken.takeError();
    helper = std::move(*taken);
    Expected<CompileResult> result = helper->compile(job, options_.seconds);
    // One that ended while it was idle has not seen the job.
    if (result || !helper->was_idle()) return result;
    llvm::consumeError(result.takeError());
  }
}

Expected<const KernelCompiler*> find_nvrtc(const HelperOptions& options,
                                           const std::function<void(const std::string&)>& warn) {
  Expected<HelperOptions> chosen = with_environment(options);
  if (!chosen) return chosen.takeError();
  if (chosen->use == HelperUse::kOff) return Nvrtc::get();
  if (chosen->use == HelperUse::kPreferred) {
    Expected<std::string> program = find_helper(*chosen);
    if (!program) {
      const std::string why = take_report(program.takeError()).message;
      if (warn) warn("NVRTC runs in this process: " + why);
      return Nvrtc::get();
    }
  }
  return NvrtcHelper::get(*chosen);
}

}  // namespace catenary
