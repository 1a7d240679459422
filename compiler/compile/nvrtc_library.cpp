// SPDX-License-Identifier: Apache-2.0
// Search and opening of NVRTC. libnvrtc 13 has no RUNPATH and opens libnvrtc-builtins by its bare
// soname at the first compile, so the builtins beside it are opened here by their full path; the
// loader then finds them by soname wherever they lie.
#include "compiler/compile/nvrtc_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "llvm/ADT/StringExtras.h"

namespace catenary {
namespace {

constexpr const char* kSonames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
// Below a toolkit's folder, a library folder or a site-packages folder.
constexpr const char* kSubfolders[] = {"",
                                       "/lib64",
                                       "/lib",
                                       "/targets/x86_64-linux/lib",
                                       "/nvidia/cu13/lib",
                                       "/nvidia/cuda_nvrtc/lib"};
constexpr const char* kInProcess = "this process";
constexpr const char* kLoaderPath = "the loader's path";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void append_matches(const std::string& pattern, std::vector<std::string>& out) {
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    out.insert(out.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
}

std::vector<std::string> site_packages() {
  std::vector<std::string> folders;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string prefix = environment(variable); !prefix.empty()) {
      append_matches(prefix + "/lib/python3*/site-packages", folders);
    }
  }
  if (const std::string home = environment("HOME"); !home.empty()) {
    append_matches(home + "/.local/lib/python3*/site-packages", folders);
  }
  append_matches("/usr/lib/python3/dist-packages", folders);
  append_matches("/usr/local/lib/python3*/dist-packages", folders);
  append_matches("/usr/local/lib/python3*/site-packages", folders);
  return folders;
}

// The file that a handle was opened from; empty when the loader does not say.
std::string path_of(void* handle) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name) return "";
  return map->l_name;
}

Error missing_symbol(const std::string& path, const char* symbol) {
  return make_error(ErrorCode::kNvrtcMissing,
                    "{} is not a usable NVRTC: it has no {}; use NVRTC 12.8 to 13.x", path, symbol);
}

template <typename Function>
bool resolve(void* handle, const char* name, Function*& out) {
  out = reinterpret_cast<Function*>(::dlsym(handle, name));
  return out != nullptr;
}

// Null when all are there, else the first missing name.
const char* resolve_all(void* handle, NvrtcFunctions& api) {
  const char* missing = nullptr;
  auto need = [&](const char* name, auto& out) {
    if (!resolve(handle, name, out) && !missing) missing = name;
  };
  need("nvrtcVersion", api.version);
  need("nvrtcGetNumSupportedArchs", api.num_supported_archs);
  need("nvrtcGetSupportedArchs", api.supported_archs);
  need("nvrtcCreateProgram", api.create_program);
  need("nvrtcDestroyProgram", api.destroy_program);
  need("nvrtcCompileProgram", api.compile_program);
  need("nvrtcGetCUBINSize", api.cubin_size);
  need("nvrtcGetCUBIN", api.cubin);
  need("nvrtcGetPTXSize", api.ptx_size);
  need("nvrtcGetPTX", api.ptx);
  need("nvrtcGetProgramLogSize", api.log_size);
  need("nvrtcGetProgramLog", api.log);
  need("nvrtcGetErrorString", api.error_string);
  return missing;
}

bool version_accepted(int major, int minor) { return (major == 12 && minor >= 8) || major == 13; }

// A library that is open but unusable stays mapped, see NvrtcLibrary.
Expected<NvrtcLibrary> adopt(void* handle, const std::string& path) {
  NvrtcLibrary library;
  library.path = path;
  if (const char* missing = resolve_all(handle, library.api)) return missing_symbol(path, missing);
  if (library.api.version(&library.major, &library.minor) != kNvrtcSuccess ||
      !version_accepted(library.major, library.minor)) {
    return make_error(ErrorCode::kNvrtcMissing,
                      "NVRTC {}.{} at {} is not usable: use NVRTC 12.8 to 13.x", library.major,
                      library.minor, path);
  }
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos) {
    // Absent beside the library: the loader may still find it, which the first compile tells.
    ::dlopen(fmt::format("{}/libnvrtc-builtins.so.{}.{}", path.substr(0, slash), library.major,
                         library.minor)
                 .c_str(),
             RTLD_NOW | RTLD_LOCAL);
  }
  int count = 0;
  library.api.num_supported_archs(&count);
  library.archs.resize(std::max(count, 0));
  if (count > 0) library.api.supported_archs(library.archs.data());
  std::ranges::sort(library.archs);
  return library;
}

Expected<NvrtcLibrary> open_file(const std::string& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = ::dlerror();
    return make_error(ErrorCode::kNvrtcMissing, "{} is not a usable NVRTC: {}", path,
                      reason ? reason : "it cannot be opened");
  }
  return adopt(handle, path);
}

// The first NVRTC file in `folder` or where toolkits and wheels keep it below; empty: none.
std::string file_in_folder(const std::string& folder) {
  for (const char* subfolder : kSubfolders) {
    for (const char* soname : kSonames) {
      const std::string path = folder + subfolder + "/" + soname;
      struct stat info;
      if (::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) return path;
    }
  }
  return "";
}

// By bare soname, with RTLD_NOLOAD for "only if it is in the process already".
std::optional<Expected<NvrtcLibrary>> open_soname(int flags) {
  for (const char* soname : kSonames) {
    if (void* handle = ::dlopen(soname, RTLD_NOW | RTLD_LOCAL | flags)) {
      const std::string path = path_of(handle);
      return adopt(handle, path.empty() ? soname : path);
    }
  }
  return std::nullopt;
}

// Nothing when the place holds no library at all.
std::optional<Expected<NvrtcLibrary>> try_place(const std::string& place) {
  if (place == kInProcess) return open_soname(RTLD_NOLOAD);
  if (place == kLoaderPath) return open_soname(0);
  const std::string file = file_in_folder(place);
  if (file.empty()) return std::nullopt;
  return open_file(file);
}

}  // namespace

std::vector<std::string> nvrtc_search_paths() {
  if (const std::string chosen = environment("CATENARY_NVRTC"); !chosen.empty()) return {chosen};
  std::vector<std::string> places{kInProcess, kLoaderPath};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string folder = environment(variable); !folder.empty()) places.push_back(folder);
  }
  places.push_back("/usr/local/cuda");
  for (const std::string& folder : site_packages()) places.push_back(folder);
  std::vector<std::string> distinct;
  for (std::string& place : places) {
    if (!llvm::is_contained(distinct, place)) distinct.push_back(std::move(place));
  }
  return distinct;
}

Expected<NvrtcLibrary> open_nvrtc_library(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    return make_error(ErrorCode::kNvrtcMissing,
                      "{} does not exist: name an NVRTC library or a folder that holds one", path);
  }
  if (!S_ISDIR(info.st_mode)) return open_file(path);
  const std::string file = file_in_folder(path);
  if (file.empty()) {
    return make_error(
        ErrorCode::kNvrtcMissing,
        "{} holds no libnvrtc.so.13 or libnvrtc.so.12: name the library or its folder", path);
  }
  return open_file(file);
}

Expected<NvrtcLibrary> find_nvrtc_library(llvm::function_ref<Error(const NvrtcLibrary&)> accept) {
  const bool chosen = !environment("CATENARY_NVRTC").empty();
  std::vector<std::string> tried;
  for (const std::string& place : nvrtc_search_paths()) {
    std::optional<Expected<NvrtcLibrary>> found;
    if (chosen) {
      found.emplace(open_nvrtc_library(place));
    } else {
      found = try_place(place);
    }
    if (!found) {
      tried.push_back(place);
      continue;
    }
    Error problem = *found ? accept(**found) : found->takeError();
    if (!problem) return std::move(**found);
    tried.push_back(fmt::format("{} ({})", place, take_report(std::move(problem)).message));
  }
  return make_error(ErrorCode::kNvrtcMissing,
                    "no usable NVRTC in {}: set CATENARY_NVRTC to its file or folder, install the "
                    "CUDA toolkit 12.8 or newer, or run `pip install nvidia-cuda-nvrtc`",
                    llvm::join(tried, "; "));
}

}  // namespace catenary
