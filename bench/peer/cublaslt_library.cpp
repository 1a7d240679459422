// SPDX-License-Identifier: Apache-2.0
#include "bench/peer/cublaslt_library.h"

#include <sys/stat.h>

#include "compiler/compile/environment.h"
#include "compiler/compile/nvrtc_library.h"
#include "compiler/compile/shared_library.h"
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

void resolve_all(SharedLibrary& library, LtFunctions& api) {
  library.need("cublasLtCreate", api.create);
  library.need("cublasLtDestroy", api.destroy);
  library.need("cublasLtMatmulDescCreate", api.desc_create);
  library.need("cublasLtMatmulDescDestroy", api.desc_destroy);
  library.need("cublasLtMatmulDescSetAttribute", api.desc_set);
  library.need("cublasLtMatrixLayoutCreate", api.layout_create);
  library.need("cublasLtMatrixLayoutDestroy", api.layout_destroy);
  library.need("cublasLtMatrixLayoutSetAttribute", api.layout_set);
  library.need("cublasLtMatmulPreferenceCreate", api.preference_create);
  library.need("cublasLtMatmulPreferenceDestroy", api.preference_destroy);
  library.need("cublasLtMatmulPreferenceSetAttribute", api.preference_set);
  library.need("cublasLtMatmulAlgoGetHeuristic", api.heuristic);
  library.need("cublasLtMatmul", api.matmul);
  library.need("cublasLtGetVersion", api.version);
  library.need("cublasLtGetStatusName", api.status_name);
  library.need("cublasLtGetStatusString", api.status_string);
}

// Opens `path`, a file or a soname. On failure `problem` says why.
bool open_file(const std::string& path, LtLibrary& library, std::string& problem) {
  SharedLibrary opened(path);
  resolve_all(opened, library.api);
  problem = opened.problem();
  library.path = path;
  return problem.empty();
}

// The library files at `place`.
std::vector<std::string> candidates(const std::string& place) {
  if (place == kLoaderPath) return {std::begin(kSonames), std::end(kSonames)};
  if (is_file(place)) return {place};
  return library_files(place, kSubfolders, kSonames);
}

}  // namespace

std::vector<std::string> cublaslt_search_places() {
  if (const std::string chosen = environment("CATENARY_CUBLASLT"); !chosen.empty()) {
    return {chosen};
  }
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
