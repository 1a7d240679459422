// SPDX-License-Identifier: Apache-2.0
#include "bench/peer/cublaslt_library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>

#include "compiler/compile/nvrtc_library.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace catenary::bench {
namespace {

constexpr const char* kSonames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
constexpr const char* kLoaderPath = "the loader's path";
// Below a toolkit's folder, a library folder or a site-packages folder.
constexpr const char* kSubfolders[] = {
    "", "/lib64", "/lib", "/targets/x86_64-linux/lib", "/nvidia/cu13/lib", "/nvidia/cublas/lib"};

bool is_folder(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool is_file(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

template <typename Function>
void resolve(void* handle, const char* name, Function*& out, std::string& missing) {
  out = reinterpret_cast<Function*>(::dlsym(handle, name));
  if (out == nullptr && missing.empty()) missing = name;
}

// The first name that the library does not have; empty: it has all.
std::string resolve_all(void* handle, LtFunctions& api) {
  std::string missing;
  resolve(handle, "cublasLtCreate", api.create, missing);
  resolve(handle, "cublasLtDestroy", api.destroy, missing);
  resolve(handle, "cublasLtMatmulDescCreate", api.desc_create, missing);
  resolve(handle, "cublasLtMatmulDescDestroy", api.desc_destroy, missing);
  resolve(handle, "cublasLtMatmulDescSetAttribute", api.desc_set, missing);
  resolve(handle, "cublasLtMatrixLayoutCreate", api.layout_create, missing);
  resolve(handle, "cublasLtMatrixLayoutDestroy", api.layout_destroy, missing);
  resolve(handle, "cublasLtMatrixLayoutSetAttribute", api.layout_set, missing);
  resolve(handle, "cublasLtMatmulPreferenceCreate", api.preference_create, missing);
  resolve(handle, "cublasLtMatmulPreferenceDestroy", api.preference_destroy, missing);
  resolve(handle, "cublasLtMatmulPreferenceSetAttribute", api.preference_set, missing);
  resolve(handle, "cublasLtMatmulAlgoGetHeuristic", api.heuristic, missing);
  resolve(handle, "cublasLtMatmul", api.matmul, missing);
  resolve(handle, "cublasLtGetVersion", api.version, missing);
  resolve(handle, "cublasLtGetStatusName", api.status_name, missing);
  resolve(handle, "cublasLtGetStatusString", api.status_string, missing);
  return missing;
}

// Opens `path`, a file or a soname. On failure `problem` says why.
bool open_file(const std::string& path, LtLibrary& library, std::string& problem) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    problem = reason == nullptr ? "it cannot be opened" : reason;
    return false;
  }
  const std::string missing = resolve_all(handle, library.api);
  if (!missing.empty()) {
    problem = fmt::format("it has no {}", missing);
    return false;
  }
  library.path = path;
  return true;
}

// The library files at `place`.
std::vector<std::string> candidates(const std::string& place) {
  std::vector<std::string> files;
  if (place == kLoaderPath) return {std::begin(kSonames), std::end(kSonames)};
  if (is_file(place)) return {place};
  for (const char* subfolder : kSubfolders) {
    for (const char* soname : kSonames) {
      const std::string file = place + subfolder + "/" + soname;
      if (is_file(file)) files.push_back(file);
    }
  }
  return files;
}

}  // namespace

std::vector<std::string> cublaslt_search_places() {
  const char* chosen = std::getenv("CATENARY_CUBLASLT");
  if (chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::string> places;
  const auto add = [&](std::string place) {
    if (is_folder(place) && !llvm::is_contained(places, place)) places.push_back(std::move(place));
  };
  // In a toolkit and in a wheel cuBLASLt is next to NVRTC.
  for (const std::string& place : nvrtc_search_paths()) {
    add(is_file(place) ? place.substr(0, place.rfind('/')) : place);
  }
  add("/usr/local/cuda");
  places.push_back(kLoaderPath);
  return places;
}

Expected<LtLibrary> open_cublaslt() {
  std::vector<std::string> tried;
  for (const std::string& place : cublaslt_search_places()) {
    std::string problem;
    for (const std::string& file : candidates(place)) {
      LtLibrary library;
      if (open_file(file, library, problem)) return library;
    }
    tried.push_back(problem.empty() ? place : fmt::format("{} ({})", place, problem));
  }
  return make_error(ErrorCode::kUnsupported,
                    "no usable cuBLASLt 12 or 13 in {}: set CATENARY_CUBLASLT to its file or "
                    "folder, or install the CUDA toolkit",
                    llvm::join(tried, "; "));
}

}  // namespace catenary::bench
