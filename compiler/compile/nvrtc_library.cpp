// SPDX-License-Identifier: Apache-2.0
// Search and opening of NVRTC. libnvrtc 13 has no RUNPATH and opens libnvrtc-builtins by its bare
// soname at the first compile, so the builtins beside it are opened here by their full path; the
// loader then finds them by soname wherever they are.
#include "compiler/compile/nvrtc_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "compiler/compile/address_space.h"
#include "compiler/compile/environment.h"
#include "compiler/compile/shared_library.h"
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

// Never destroyed: a thread may compile while the process ends.
struct AddedFolders {
  std::mutex mutex;
  std::vector<std::string> folders;
};
AddedFolders& added_folders() {
  static AddedFolders& added = *new AddedFolders;
  return added;
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

void resolve_all(SharedLibrary& library, NvrtcFunctions& api) {
  library.need("nvrtcVersion", api.version);
  library.need("nvrtcGetNumSupportedArchs", api.num_supported_archs);
  library.need("nvrtcGetSupportedArchs", api.supported_archs);
  library.need("nvrtcCreateProgram", api.create_program);
  library.need("nvrtcDestroyProgram", api.destroy_program);
  library.need("nvrtcCompileProgram", api.compile_program);
  library.need("nvrtcGetCUBINSize", api.cubin_size);
  library.need("nvrtcGetCUBIN", api.cubin);
  library.need("nvrtcGetPTXSize", api.ptx_size);
  library.need("nvrtcGetPTX", api.ptx);
  library.need("nvrtcGetProgramLogSize", api.log_size);
  library.need("nvrtcGetProgramLog", api.log);
  library.need("nvrtcGetErrorString", api.error_string);
}

bool version_accepted(int major, int minor) { return (major == 12 && minor >= 8) || major == 13; }

Expected<NvrtcLibrary> adopt(SharedLibrary& opened, const std::string& path) {
  NvrtcLibrary library;
  library.path = path;
  resolve_all(opened, library.api);
  if (!opened.problem().empty()) {
    return make_error(ErrorCode::kNvrtcMissing,
                      "{} is not a usable NVRTC: {}; use NVRTC 12.8 to 13.x", path,
                      opened.problem());
  }
  if (library.api.version(&library.major, &library.minor) != kNvrtcSuccess ||
      !version_accepted(library.major, library.minor)) {
    return make_error(ErrorCode::kNvrtcMissing,
                      "NVRTC {}.{} at {} is not usable: use NVRTC 12.8 to 13.x", library.major,
                      library.minor, path);
  }
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos) {
    // If it is absent there, the loader may still find it elsewhere; the first compile shows that.
    SharedLibrary(fmt::format("{}/libnvrtc-builtins.so.{}.{}", path.substr(0, slash), library.major,
                              library.minor));
  }
  int count = 0;
  library.api.num_supported_archs(&count);
  library.archs.resize(std::max(count, 0));
  if (count > 0) library.api.supported_archs(library.archs.data());
  std::ranges::sort(library.archs);
  return library;
}

// A file that is larger than what the limit of address space leaves cannot be mapped. The loader
// reports that only as text.
Error check_room(const std::string& path) {
  struct stat info {};
  const i64 left = address_space_left();
  if (::stat(path.c_str(), &info) != 0 || info.st_size <= left) return Error::success();
  return make_error(ErrorCode::kOutOfMemory,
                    "the limit of address space of NVRTC's process (ulimit -v, or "
                    "CATENARY_HELPER_MEMORY) leaves {} MiB, and {} has {}: raise the limit",
                    left >> 20, path, info.st_size >> 20);
}

Expected<NvrtcLibrary> open_file(const std::string& path) {
  SharedLibrary library(path);
  if (!library.is_open()) {
    if (Error error = check_room(path)) return error;
    return make_error(ErrorCode::kNvrtcMissing, "{} is not a usable NVRTC: {}", path,
                      library.problem());
  }
  return adopt(library, path);
}

// The first NVRTC file in `folder` or where toolkits and wheels keep it below; empty: none.
std::string file_in_folder(const std::string& folder) {
  const std::vector<std::string> files = library_files(folder, kSubfolders, kSonames);
  return files.empty() ? "" : files.front();
}

// By bare soname, with RTLD_NOLOAD for "only if it is in the process already".
std::optional<Expected<NvrtcLibrary>> open_soname(int flags) {
  for (const char* soname : kSonames) {
    SharedLibrary library(soname, flags);
    if (library.is_open()) return adopt(library, library.path());
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

void add_nvrtc_folder(std::string folder) {
  const std::lock_guard lock(added_folders().mutex);
  added_folders().folders.push_back(std::move(folder));
}

std::vector<std::string> nvrtc_folders() {
  llvm::SmallVector<llvm::StringRef, 4> given;
  const std::string path = environment("CATENARY_NVRTC_PATH");
  llvm::StringRef(path).split(given, ':', -1, false);
  std::vector<std::string> folders;
  for (llvm::StringRef folder : given) folders.push_back(folder.str());
  const std::lock_guard lock(added_folders().mutex);
  const std::vector<std::string>& added = added_folders().folders;
  folders.insert(folders.end(), added.begin(), added.end());
  return folders;
}

std::vector<std::string> nvrtc_search_paths() {
  if (const std::string chosen = environment("CATENARY_NVRTC"); !chosen.empty()) return {chosen};
  std::vector<std::string> places{kInProcess};
  for (std::string& folder : nvrtc_folders()) places.push_back(std::move(folder));
  places.push_back(kLoaderPath);
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

std::string loaded_nvrtc_path() {
  if (!environment("CATENARY_NVRTC").empty()) return "";
  for (const char* soname : kSonames) {
    const SharedLibrary library(soname, RTLD_NOLOAD);
    if (library.is_open()) return library.path();
  }
  return "";
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
  ErrorReport no_memory;
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
    ErrorReport report = take_report(std::move(problem));
    tried.push_back(fmt::format("{} ({})", place, report.message));
    if (report.code == ErrorCode::kOutOfMemory) no_memory = std::move(report);
  }
  if (no_memory.code == ErrorCode::kOutOfMemory) {
    return make_error_text(no_memory.code, no_memory.message);
  }
  return make_error(ErrorCode::kNvrtcMissing,
                    "no usable NVRTC in {}: set CATENARY_NVRTC to its file or folder, install the "
                    "CUDA toolkit 12.8 or newer, or run `pip install nvidia-cuda-nvrtc`",
                    llvm::join(tried, "; "));
}

}  // namespace catenary
