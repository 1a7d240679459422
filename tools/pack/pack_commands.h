// SPDX-License-Identifier: Apache-2.0
// The subcommands of `catenary pack`, by file: each adds its own to `pack`.
#pragma once

#include <memory>
#include <string>

#include "runtime/pack/pack_writer.h"

namespace CLI {
class App;
}

namespace catenary::tools {

void add_pack_build(CLI::App& pack, int& exit_code);   // build
void add_pack_view(CLI::App& pack, int& exit_code);    // list, show, diff
void add_pack_verify(CLI::App& pack, int& exit_code);  // verify, check
void add_pack_edit(CLI::App& pack, int& exit_code);    // merge, split, extract
void add_pack_object(CLI::App& pack, int& exit_code);  // object

// Prints a summary of a pack that was written, as text or as members of --json.
void print_pack(const std::string& path, const std::vector<u8>& bytes);

// Writes the pack and prints it. kResourceLimit, kIo.
Error write_pack(const PackWriter& writer, const std::string& path);

inline constexpr size_t kShownKey = 16;  // digits of a key, as list prints it

// The row that `words` name: the first digits of its key, or also the GPU that it is planned for
// ("0123@h100") or that one's SMs ("0123@114"), since entries for several GPUs of one architecture
// have one key. kInvalidArgument: none or several are.
Expected<size_t> find_row(const Pack& pack, const std::string& words);

// "layer, M in 1..64, x: bf16[M, 4096]": the chain, the range of its symbol, its first tensor. For
// people; entries of one name differ in it.
std::string entry_text(const ChainRecord& record);

}  // namespace catenary::tools
