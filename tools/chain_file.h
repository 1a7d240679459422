// SPDX-License-Identifier: Apache-2.0
// A .chain file: reading, verification, and errors with file, line and caret.
#pragma once

#include <string>

#include "ir/verify/verify.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary::tools {

struct ChainFile {
  std::string path;
  std::string text;
  bool algebraic_norms = false;  // the chain has this word, whatever its text says
};

// Reads `path`, "-" for standard input; at most one byte more than the parser's limit. kIo.
Expected<ChainFile> read_chain_file(const std::string& path);

Expected<VerifiedChain> verify_chain_file(const ChainFile& file);

// Prints the error to stderr, with file, line and caret if it has a location in `file`. Returns its
// exit code, 0 for success. `file` may be null.
int report(Error error, const ChainFile* file = nullptr);

// Reads and verifies `path`, calls `body`, reports the error. Returns the exit code.
// `algebraic_norms`: that of ChainFile.
int with_chain(const std::string& path, llvm::function_ref<Error(const VerifiedChain& chain)> body,
               bool algebraic_norms = false);

}  // namespace catenary::tools
