// SPDX-License-Identifier: Apache-2.0
#include "runtime/pack/machine_code.h"

#include <fmt/format.h>

#include <cstring>

#include "compiler/compile/host_compiler.h"
#include "compiler/target.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Support/Endian.h"

namespace catenary {
namespace {

constexpr size_t kElfHeaderBytes = 64;
constexpr size_t kOsAbiAt = 7;
constexpr size_t kMachineAt = 18;
constexpr size_t kFlagsAt = 48;
// The place of the SM number in e_flags depends on the OS ABI: the lowest byte in cubins of CUDA
// 12, the one above it in those of CUDA 13 (read from NVRTC's cubins for sm_80 to sm_100a).
constexpr u8 kOsAbiCuda12 = 0x33;
constexpr u8 kOsAbiCuda13 = 0x41;

}  // namespace

std::string machine_code_problem(llvm::ArrayRef<u8> image, std::string_view arch) {
  namespace endian = llvm::support::endian;
  if (image.size() < kElfHeaderBytes || std::memcmp(image.data(),
                                                    "\x7f"
                                                    "ELF",
                                                    4) != 0) {
    return "it is no machine code";
  }
  const u16 machine = endian::read16le(&image[kMachineAt]);
  const bool host = is_host_arch(arch);
  if (host) return machine == llvm::ELF::EM_X86_64 ? "" : "it is not for the simulator";
  if (machine != llvm::ELF::EM_CUDA) return "it is not for a GPU";
  const u32 flags = endian::read32le(&image[kFlagsAt]);
  u32 sm = 0;
  if (image[kOsAbiAt] == kOsAbiCuda12) sm = flags & 0xff;
  if (image[kOsAbiAt] == kOsAbiCuda13) sm = flags >> 8 & 0xff;
  Target target;
  target.arch = std::string(arch);
  if (sm == 0 || sm == static_cast<u32>(target.compute_capability())) return "";
  return fmt::format("it is for sm_{}", sm);
}

}  // namespace catenary
