// SPDX-License-Identifier: Apache-2.0
// NVRTC as a shared library: where it may lie, and its C API once it is open. The API is declared
// here by hand, so building needs no CUDA header. Knows nothing of kernels and options.
#pragma once

#include <string>
#include <vector>

#include "ir/error.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {

// nvrtcResult: the values that are told apart.
inline constexpr int kNvrtcSuccess = 0;
inline constexpr int kNvrtcOutOfMemory = 1;
inline constexpr int kNvrtcCompilationError = 6;
inline constexpr int kNvrtcBuiltinFailure = 7;

struct NvrtcProgramObject;
using NvrtcProgram = NvrtcProgramObject*;

// Every function returns an nvrtcResult, error_string apart.
struct NvrtcFunctions {
  int (*version)(int* major, int* minor);
  int (*num_supported_archs)(int* count);
  int (*supported_archs)(int* archs);
  int (*create_program)(NvrtcProgram* program, const char* source, const char* name,
                        int num_headers, const char* const* headers,
                        const char* const* include_names);
  int (*destroy_program)(NvrtcProgram* program);
  int (*compile_program)(NvrtcProgram program, int num_options, const char* const* options);
  int (*cubin_size)(NvrtcProgram program, size_t* bytes);
  int (*cubin)(NvrtcProgram program, char* bytes);
  int (*ptx_size)(NvrtcProgram program, size_t* bytes);
  int (*ptx)(NvrtcProgram program, char* text);
  int (*log_size)(NvrtcProgram program, size_t* bytes);
  int (*log)(NvrtcProgram program, char* text);
  const char* (*error_string)(int result);
};

// Once open, an NVRTC stays mapped until the process ends: it registers exit handlers, which must
// not run in unmapped code.
struct NvrtcLibrary {
  NvrtcFunctions api{};
  std::string path;
  int major = 0;
  int minor = 0;
  std::vector<int> archs;  // 75, 80, ... : what it can compile for, ascending
};

// Opens the library file `path`, or the first one found in the folder `path` (directly, in lib64 or
// lib of a toolkit, or in the folders of a Python wheel). kNvrtcMissing: nothing usable there, or a
// version outside 12.8 to 13.x.
Expected<NvrtcLibrary> open_nvrtc_library(const std::string& path);

// Tries every search place in order and returns the first library that `accept` has no error for.
// kNvrtcMissing lists them all, with the reason where a library was there but not usable.
Expected<NvrtcLibrary> find_nvrtc_library(llvm::function_ref<Error(const NvrtcLibrary&)> accept);

// The file of an NVRTC that this process has loaded already; empty: none, or CATENARY_NVRTC chooses
// another.
std::string loaded_nvrtc_path();

// Descriptions of the places, in order: folders, files and sonames. CATENARY_NVRTC, where set, is
// the only one: an explicit choice that is wrong is reported, not skipped.
std::vector<std::string> nvrtc_search_paths();

// Folders that are searched after what the process has loaded: those of CATENARY_NVRTC_PATH, then
// those that were added, in this order.
std::vector<std::string> nvrtc_folders();
void add_nvrtc_folder(std::string folder);

}  // namespace catenary
