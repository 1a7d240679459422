// SPDX-License-Identifier: Apache-2.0
// A file's bytes as a relocatable object, so that a program links them in. No assembler, linker or
// toolkit is needed to write it.
#pragma once

#include <string>
#include <string_view>

#include "ir/error.h"

namespace catenary::tools {

enum class ElfMachine : u8 { kX86_64, kAArch64 };

// The machine that this program runs on.
ElfMachine host_machine();

// Page alignment: a pack's machine code begins on pages of its file.
inline constexpr u64 kElfObjectAlign = 4096;

// A 64-bit little-endian ELF relocatable file (System V gABI, chapter 4) whose one section of
// read-only data holds `bytes`, aligned to kElfObjectAlign. The global symbol `symbol` is their
// first byte, `symbol`_end the byte after their last. Equal arguments give equal bytes. Errors:
// kInvalidArgument if `symbol` is no C identifier.
Expected<std::string> elf_object(std::string_view symbol, std::string_view bytes,
                                 ElfMachine machine);

}  // namespace catenary::tools
