// SPDX-License-Identifier: Apache-2.0
// `catenary pack object`: a pack as an object file, so that a program has it inside.
#include <CLI/CLI.hpp>

#include "ir/counted.h"
#include "ir/names.h"
#include "ir/output_file.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "tools/chain_file.h"
#include "tools/elf_object.h"
#include "tools/files.h"
#include "tools/output.h"
#include "tools/pack/pack_commands.h"

namespace catenary::tools {
namespace {

constexpr char kHeader[] =
    R"(/* Made by `catenary pack object`: the pack {0}, which the program links in. */
#ifndef CTN_PACK_{1}_H
#define CTN_PACK_{1}_H
#ifdef __cplusplus
extern "C" {{
#endif
extern const unsigned char ctn_pack_{1}[];     /* its first byte; aligned to 4096 */
extern const unsigned char ctn_pack_{1}_end[]; /* after its last byte */
#ifdef __cplusplus
}}
#endif
#endif
)";

struct ObjectCommand {
  std::string pack;
  std::string output;
  std::string name;
  std::string machine;
  std::string header;
};

Expected<ElfMachine> machine_of(const std::string& text) {
  if (text.empty()) return host_machine();
  if (text == "x86_64") return ElfMachine::kX86_64;
  if (text == "aarch64") return ElfMachine::kAArch64;
  return make_error(ErrorCode::kInvalidArgument,
                    "{} is not a machine that an object can be for: choose x86_64 or aarch64",
                    catenary::quoted(text));
}

Expected<std::string> file_bytes(const std::string& path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (buffer) return (*buffer)->getBuffer().str();
  return make_error(ErrorCode::kIo, "{} cannot be read ({}): check the path",
                    catenary::quoted(path), buffer.getError().message());
}

// The pack, the object and the header are three files.
Error check_files(const ObjectCommand& command) {
  for (const std::string& path : {command.output, command.header}) {
    if (path.empty()) continue;
    if (OutputFile::same(path, command.pack)) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{} is the pack itself: give the object and the header paths of their own",
                        catenary::quoted(path));
    }
    if (Error error = OutputFile::check(path)) return error;
  }
  if (command.header.empty() || !OutputFile::same(command.output, command.header)) {
    return Error::success();
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "{} is the object and the header: give each a path of its own",
                    catenary::quoted(command.header));
}

// The bytes that are checked are the bytes that are written.
Error write_object(const ObjectCommand& command) {
  const std::string name =
      command.name.empty() ? llvm::sys::path::stem(command.pack).str() : command.name;
  if (!is_identifier(name)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} is no C identifier: name the pack by --name, in letters, digits and '_'",
                      catenary::quoted(name));
  }
  Expected<ElfMachine> machine = machine_of(command.machine);
  if (!machine) return machine.takeError();
  if (Error error = check_files(command)) return error;
  Expected<std::string> bytes = file_bytes(command.pack);
  if (!bytes) return bytes.takeError();
  const llvm::ArrayRef<u8> raw(reinterpret_cast<const u8*>(bytes->data()), bytes->size());
  PackOptions verify;
  verify.verify_all = true;
  auto pack = Pack::open_memory(raw, verify);
  if (!pack) {
    const ErrorReport report = take_report(pack.takeError());
    return make_error(report.code, "{}: {}", command.pack, report.message);
  }
  Expected<std::string> object = elf_object("ctn_pack_" + name, *bytes, *machine);
  if (!object) return object.takeError();
  if (Error error = write_output(command.output, *object)) return error;
  if (!command.header.empty()) {
    const std::string file = llvm::sys::path::filename(command.pack).str();
    if (Error error = write_output(command.header, fmt::format(kHeader, escaped(file), name))) {
      return error;
    }
  }
  out("{}: {}, {}\n", command.output, counted((*pack)->size(), "entry"),
      bytes_text(static_cast<i64>(bytes->size())));
  out("extern const unsigned char ctn_pack_{0}[], ctn_pack_{0}_end[];\n", name);
  json_result()["file"] = json_string(command.output);
  json_result()["symbol"] = "ctn_pack_" + name;
  json_result()["bytes"] = static_cast<i64>(bytes->size());
  return Error::success();
}

}  // namespace

void add_pack_object(CLI::App& pack, int& exit_code) {
  auto options = std::make_shared<ObjectCommand>();
  CLI::App* command = pack.add_subcommand(
      "object", "Write a pack as an object file (ELF), to be linked into a program");
  command->add_option("pack", options->pack, "Pack file")->required();
  command->add_option("-o,--output", options->output, "The object file to write")->required();
  command->add_option("--name", options->name,
                      "The pack is ctn_pack_NAME in C (default: the name of its file)");
  command->add_option("--header", options->header, "Also write a C header that declares it");
  command->add_option("--machine", options->machine,
                      "Machine of the program: x86_64 or aarch64 (default: this one)");
  add_output_options(*command);
  command->callback([options, &exit_code] { exit_code = report(write_object(*options)); });
}

}  // namespace catenary::tools
