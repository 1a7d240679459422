// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sm90_code.h"

#include <llvm/BinaryFormat/ELF.h>

#include <cstring>

namespace catenary::testing {
namespace {

// The object of type T at byte `offset`; zeros past the end.
template <class T>
T at(const std::vector<u8>& image, size_t offset) {
  T value{};
  if (offset + sizeof(T) <= image.size()) std::memcpy(&value, image.data() + offset, sizeof(T));
  return value;
}

}  // namespace

std::vector<Sm90Instruction> sm90_code(const Cubin& cubin) {
  const std::vector<u8>& image = cubin.image;
  const std::string name = ".text." + cubin.symbol;
  const auto header = at<llvm::ELF::Elf64_Ehdr>(image, 0);
  const auto section = [&](u32 i) {
    return at<llvm::ELF::Elf64_Shdr>(image, header.e_shoff + i * sizeof(llvm::ELF::Elf64_Shdr));
  };
  const auto names = section(header.e_shstrndx);
  std::vector<Sm90Instruction> code;
  for (u32 i = 0; i < header.e_shnum; ++i) {
    const auto text = section(i);
    const size_t from = names.sh_offset + text.sh_name;
    if (from + name.size() >= image.size() ||
        std::memcmp(image.data() + from, name.c_str(), name.size() + 1) != 0)
      continue;
    for (u64 offset = 0; offset < text.sh_size; offset += sizeof(Sm90Instruction))
      code.push_back(at<Sm90Instruction>(image, text.sh_offset + offset));
  }
  return code;
}

std::vector<Sm90Instruction> mma_loop(const std::vector<Sm90Instruction>& code) {
  std::vector<Sm90Instruction> smallest;
  for (i64 end = 0; end < static_cast<i64>(code.size()); ++end) {
    const i64 begin = end + 1 + code[end].distance();
    if (!code[end].is_branch() || begin < 0 || begin > end) continue;
    const std::vector<Sm90Instruction> loop(code.begin() + begin, code.begin() + end + 1);
    bool has_mma = false;
    for (const Sm90Instruction& instruction : loop) has_mma |= instruction.is_mma();
    if (has_mma && (smallest.empty() || loop.size() < smallest.size())) smallest = loop;
  }
  return smallest;
}

LoadWaits waits_for_own_loads(const std::vector<Sm90Instruction>& loop) {
  LoadWaits result;
  size_t last_mma = 0;
  for (size_t i = 0; i < loop.size(); ++i) {
    if (loop[i].is_mma()) last_mma = i;
  }
  u32 taken = 0;
  for (size_t i = 0; i < loop.size(); ++i) {
    if (i <= last_mma && (loop[i].waits() & taken) != 0) ++result.waits;
    taken &= ~loop[i].waits();
    if (!loop[i].is_global_load()) continue;
    ++result.loads;
    if (loop[i].takes() < 6) taken |= 1u << loop[i].takes();
  }
  return result;
}

}  // namespace catenary::testing
