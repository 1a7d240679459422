// SPDX-License-Identifier: Apache-2.0
#include "tools/elf_object.h"

#include <array>
#include <cstring>

#include "ir/names.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Support/Host.h"
#include "llvm/Support/MathExtras.h"

namespace catenary::tools {
namespace {

namespace elf = llvm::ELF;

static_assert(llvm::sys::IsLittleEndianHost, "the structs below are written as they are in memory");

// Sections by index. The empty .note.GNU-stack says that no code needs an executable stack.
enum Section : u16 {
  kNull,
  kData,
  kStackNote,
  kSymbols,
  kSymbolNames,
  kSectionNames,
  kNumSections
};

// Null-terminated names one after the other; the first is empty (gABI, "String Table").
class Names {
 public:
  u32 add(std::string_view name) {
    const u32 at = static_cast<u32>(text_.size());
    text_.append(name);
    text_.push_back('\0');
    return at;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_ = std::string(1, '\0');
};

template <typename T>
void append(std::string& file, const T& record) {
  file.append(reinterpret_cast<const char*>(&record), sizeof record);
}

void pad_to(std::string& file, u64 align) { file.resize(llvm::alignTo(file.size(), align), '\0'); }

elf::Elf64_Ehdr file_header(ElfMachine machine) {
  elf::Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, elf::ElfMagic, 4);
  header.e_ident[elf::EI_CLASS] = elf::ELFCLASS64;
  header.e_ident[elf::EI_DATA] = elf::ELFDATA2LSB;
  header.e_ident[elf::EI_VERSION] = elf::EV_CURRENT;
  header.e_type = elf::ET_REL;
  header.e_machine = machine == ElfMachine::kX86_64 ? elf::EM_X86_64 : elf::EM_AARCH64;
  header.e_version = elf::EV_CURRENT;
  header.e_ehsize = sizeof(elf::Elf64_Ehdr);
  header.e_shentsize = sizeof(elf::Elf64_Shdr);
  header.e_shnum = kNumSections;
  header.e_shstrndx = kSectionNames;
  return header;
}

elf::Elf64_Sym global_object(u32 name, u64 value, u64 size) {
  elf::Elf64_Sym symbol = {};
  symbol.st_name = name;
  symbol.setBindingAndType(elf::STB_GLOBAL, elf::STT_OBJECT);
  symbol.st_shndx = kData;
  symbol.st_value = value;
  symbol.st_size = size;
  return symbol;
}

// Appends the content of a section and says in `header` where it is.
void place(std::string& file, std::string_view content, u64 align, elf::Elf64_Shdr& header) {
  pad_to(file, align);
  header.sh_offset = file.size();
  header.sh_size = content.size();
  header.sh_addralign = align;
  file.append(content);
}

}  // namespace

ElfMachine host_machine() {
#if defined(__aarch64__)
  return ElfMachine::kAArch64;
#else
  return ElfMachine::kX86_64;
#endif
}

Expected<std::string> elf_object(std::string_view symbol, std::string_view bytes,
                                 ElfMachine machine) {
  if (!is_identifier(symbol)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} is no C identifier: name the symbol by letters, digits and '_'",
                      quoted(symbol));
  }
  Names symbol_names;
  std::string symbols(sizeof(elf::Elf64_Sym), '\0');  // the null symbol
  append(symbols, global_object(symbol_names.add(symbol), 0, bytes.size()));
  append(symbols, global_object(symbol_names.add(std::string(symbol) + "_end"), bytes.size(), 0));

  Names section_names;
  std::array<elf::Elf64_Shdr, kNumSections> sections = {};
  sections[kData].sh_name = section_names.add(".rodata.catenary_pack");
  sections[kData].sh_type = elf::SHT_PROGBITS;
  sections[kData].sh_flags = elf::SHF_ALLOC;
  sections[kStackNote].sh_name = section_names.add(".note.GNU-stack");
  sections[kStackNote].sh_type = elf::SHT_PROGBITS;
  sections[kSymbols].sh_name = section_names.add(".symtab");
  sections[kSymbols].sh_type = elf::SHT_SYMTAB;
  sections[kSymbols].sh_link = kSymbolNames;
  sections[kSymbols].sh_info = 1;  // the first global symbol
  sections[kSymbols].sh_entsize = sizeof(elf::Elf64_Sym);
  sections[kSymbolNames].sh_name = section_names.add(".strtab");
  sections[kSymbolNames].sh_type = elf::SHT_STRTAB;
  sections[kSectionNames].sh_name = section_names.add(".shstrtab");
  sections[kSectionNames].sh_type = elf::SHT_STRTAB;

  elf::Elf64_Ehdr header = file_header(machine);
  std::string file;
  file.reserve(bytes.size() + 2 * kElfObjectAlign);
  append(file, header);
  place(file, bytes, kElfObjectAlign, sections[kData]);
  place(file, {}, 1, sections[kStackNote]);
  place(file, symbols, alignof(elf::Elf64_Sym), sections[kSymbols]);
  place(file, symbol_names.text(), 1, sections[kSymbolNames]);
  place(file, section_names.text(), 1, sections[kSectionNames]);
  pad_to(file, alignof(elf::Elf64_Shdr));
  header.e_shoff = file.size();
  for (const elf::Elf64_Shdr& section : sections) append(file, section);
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

}  // namespace catenary::tools
