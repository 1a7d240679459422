// SPDX-License-Identifier: Apache-2.0
#include "ir/json.h"

#include <algorithm>

#include "ir/default_numerics.h"
#include "ir/dense_map.h"
#include "llvm/Support/raw_ostream.h"

CATENARY_DENSE_MAP_GROWTH(llvm::json::ObjectKey, llvm::json::Value,
                          llvm::DenseMapInfo<llvm::StringRef>)

namespace catenary {
namespace {

// The deepest nesting of brackets outside strings. Text that is no JSON may give any number.
int nesting(llvm::StringRef text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

std::string json_text(const llvm::json::Value& value, unsigned indent) {
  const DefaultNumerics numerics;
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream, indent);
  json.value(value);
  return stream.str();
}

Expected<llvm::json::Value> parse_json(llvm::StringRef text) {
  if (text.size() > kMaxJsonBytes) {
    return make_error(ErrorCode::kCorruptArtifact, "it has {} bytes of JSON, more than {}",
                      text.size(), kMaxJsonBytes);
  }
  if (const int depth = nesting(text); depth > kMaxJsonDepth) {
    return make_error(ErrorCode::kCorruptArtifact, "its JSON is nested {} deep, more than {}",
                      depth, kMaxJsonDepth);
  }
  const DefaultNumerics numerics;
  Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (value) return value;
  llvm::consumeError(value.takeError());
  return make_error(ErrorCode::kCorruptArtifact, "it is not JSON");
}

}  // namespace catenary
