// SPDX-License-Identifier: Apache-2.0
// JSON as text. All JSON that the project writes or reads goes through these two functions: LLVM's
// own depend on the locale of the thread, and its parser recurses without a limit. Objects of JSON
// survive that memory runs out only where this header is included: never LLVM's own.
#pragma once

#include <string>

#include "ir/error.h"
#include "llvm/Support/JSON.h"

// Defined in json.cpp by ir/dense_map.h, also for what LLVM's library calls.
template <>
void llvm::DenseMap<llvm::json::ObjectKey, llvm::json::Value,
                    llvm::DenseMapInfo<llvm::StringRef>>::grow(unsigned at_least);

namespace catenary {

inline constexpr size_t kMaxJsonBytes = 16 << 20;
inline constexpr int kMaxJsonDepth = 64;  // nested arrays and objects

// `value` with `indent` blanks per level, or on one line for 0. Without a line end.
std::string json_text(const llvm::json::Value& value, unsigned indent = 2);

// kCorruptArtifact: no JSON, more than kMaxJsonBytes, or nested deeper than kMaxJsonDepth. The
// sentence begins with "it", for a caller that names the file.
Expected<llvm::json::Value> parse_json(llvm::StringRef text);

}  // namespace catenary
