// SPDX-License-Identifier: Apache-2.0
// JSON as text and back: numbers, and the limits of depth and size.
#include "ir/json.h"

#include <doctest/doctest.h>

using namespace catenary;

namespace {

std::string refusal(const std::string& text) {
  auto value = parse_json(text);
  if (value) return "";
  const ErrorReport report = take_report(value.takeError());
  CHECK(report.code == ErrorCode::kCorruptArtifact);
  return report.message;
}

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

}  // namespace

TEST_CASE("a value survives its text") {
  const llvm::json::Value value = llvm::json::Object{
      {"a", 0.1}, {"b", llvm::json::Array{1, -2.5e-300, "x[{\"\\"}}, {"c", nullptr}};
  for (const unsigned indent : {0u, 2u}) {
    const std::string text = json_text(value, indent);
    CAPTURE(text);
    auto back = parse_json(text);
    REQUIRE(!!back);
    CHECK(*back == value);
  }
  CHECK(json_text(llvm::json::Array{0.5, 1}, 0) == "[0.5,1]");
}

TEST_CASE("text that is no JSON is refused") {
  for (const char* text : {"", "[", "{]", "[1,5,]", "\"\\", "nul", "[1] 2", "\"\xff\""}) {
    CAPTURE(text);
    CHECK(refusal(text) == "it is not JSON");
  }
}

TEST_CASE("nesting and size have limits") {
  CHECK(refusal(nested(kMaxJsonDepth)).empty());
  CHECK(refusal(nested(kMaxJsonDepth + 1)) == "its JSON is nested 65 deep, more than 64");
  CHECK(refusal(std::string(300'000, '[')).find("nested 300000 deep") != std::string::npos);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  CHECK(refusal(objects).find("nested 100000 deep") != std::string::npos);
  // Brackets in strings are text.
  CHECK(refusal("\"" + std::string(300'000, '[') + "\"").empty());
  CHECK(refusal("[\"\\\"" + std::string(300, '{') + "\"]").empty());
  CHECK(refusal(std::string(kMaxJsonBytes, ' ') + "1").find("more than 16777216") !=
        std::string::npos);
}
