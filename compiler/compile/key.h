// SPDX-License-Identifier: Apache-2.0
// The identity of a cubin: SHA-256 over length-prefixed, typed fields. Covers everything that can
// change the machine code and nothing else: no path, no time, no device name, no driver.
#pragma once

#include <string>
#include <string_view>

#include "compiler/emit/source.h"
#include "llvm/ADT/ArrayRef.h"

namespace catenary {

// Everything the key is made of, in order. `record` is its canonical text form, stored beside the
// cubin and compared on a hit, so that a misfiled entry or a collision is caught.
struct KeyFields {
  std::string body;             // emitted source, banner excluded
  std::string template_digest;  // KernelCompiler::header_digest()
  std::string arch;
  std::string options;      // normalised compiler options, joined by newlines
  std::string compiler_id;  // KernelCompiler::compiler_id()
};

KernelKey kernel_key(const KeyFields& fields);

// "field <name> <sha256 of value>\n" lines plus schema version: short, comparable, readable.
std::string key_record(const KeyFields& fields);

}  // namespace catenary
