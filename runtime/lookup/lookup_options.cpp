// SPDX-License-Identifier: Apache-2.0
#include "runtime/lookup/lookup_options.h"

#include "compiler/compile/environment.h"
#include "llvm/ADT/StringRef.h"

namespace catenary {
namespace {

Expected<JitMode> jit_of_environment() {
  const std::string text = environment("CATENARY_JIT");
  if (text.empty() || text == "auto") return JitMode::kAuto;
  if (text == "warn") return JitMode::kWarn;
  if (text == "off") return JitMode::kOff;
  return make_error(ErrorCode::kInvalidArgument, "CATENARY_JIT is '{}': use auto, warn or off",
                    text);
}

}  // namespace

Expected<LookupOptions> with_environment(LookupOptions options) {
  if (!options.jit) {
    Expected<JitMode> jit = jit_of_environment();
    if (!jit) return jit.takeError();
    options.jit = *jit;
  }
  if (options.trace.empty()) options.trace = environment("CATENARY_TRACE");
  const std::string path = environment("CATENARY_PACK_PATH");
  llvm::SmallVector<llvm::StringRef, 4> names;
  llvm::StringRef(path).split(names, ':', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  std::vector<std::shared_ptr<const Pack>> packs;
  for (llvm::StringRef name : names) {
    Expected<std::shared_ptr<const Pack>> pack = Pack::open(name.str());
    if (!pack) {
      const ErrorReport report = take_report(pack.takeError());
      return make_error_text(report.code, "CATENARY_PACK_PATH: " + report.message);
    }
    packs.push_back(std::move(*pack));
  }
  options.packs.insert(options.packs.begin(), packs.begin(), packs.end());
  return options;
}

}  // namespace catenary
