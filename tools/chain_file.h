// SPDX-License-Identifier: Apache-2.0
// A .chain file as the command sees it: its text, what it means, and how an error in it is shown.
#pragma once

#include <string>

#include "ir/verify/verify.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary::tools {

struct ChainFile {
  std::string path;
  std::string text;
};

// Reads `path`, "-" for standard input. kIo when it cannot be read; never more than the parser's
// limit, whatever the file is.
Expected<ChainFile> read_chain_file(const std::string& path);

Expected<VerifiedChain> verify_chain_file(const ChainFile& file);

// Prints the error to stderr (with file, line and caret where it has a place in `file`) and gives
// its exit code; 0 for success. `file` may be null.
int report(Error error, const ChainFile* file = nullptr);

// Reads and verifies `path`, hands the chain to `body`, reports what comes out.
int with_chain(const std::string& path, llvm::function_ref<Error(const VerifiedChain& chain)> body);

}  // namespace catenary::tools
