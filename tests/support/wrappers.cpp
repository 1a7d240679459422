// SPDX-License-Identifier: Apache-2.0
#include "tests/support/wrappers.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace fs = std::filesystem;

namespace catenary::test {
namespace {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Without comments and preprocessor lines (continued ones too).
std::string code_of(const std::string& text) {
  std::istringstream lines(text);
  std::string code;
  bool directive = false;
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find_first_not_of(" \t");
    directive = directive || (first != std::string::npos && line[first] == '#');
    if (!directive) code += line.substr(0, line.find("//")) + "\n";
    directive = directive && line.ends_with("\\");
  }
  return code;
}

std::string normalised(const std::string& text) {
  std::istringstream words(text);
  std::string result;
  for (std::string word; words >> word;) result += (result.empty() ? "" : " ") + word;
  return result;
}

// Splits at commas outside of brackets.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[' || c == '<') ++depth;
    if (c == ')' || c == ']' || c == '>') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(normalised(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!normalised(part).empty()) parts.push_back(normalised(part));
  return parts;
}

// The text between the bracket at `open` and the matching one.
std::string bracketed(const std::string& code, size_t open) {
  int depth = 0;
  for (size_t i = open; i < code.size(); ++i) {
    if (code[i] == '(') ++depth;
    if (code[i] == ')' && --depth == 0) return code.substr(open + 1, i - open - 1);
  }
  return "";
}

}  // namespace

std::vector<Wrapper> wrappers_in(std::string_view file, const std::string& text) {
  static const std::regex kHead(
      "(template\\s*<([^>]*)>\\s*)?CATENARY_DEVICE\\s+([\\w:]+)\\s+(\\w+)\\s*\\(");
  const std::string code = code_of(text);
  std::vector<Wrapper> found;
  for (std::sregex_iterator it(code.begin(), code.end(), kHead), end; it != end; ++it) {
    const size_t open = static_cast<size_t>(it->position() + it->length()) - 1;
    found.push_back({std::string(file), (*it)[4], (*it)[3], normalised((*it)[2]),
                     split(bracketed(code, open))});
  }
  return found;
}

std::vector<Wrapper> wrappers_of_folder(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(CATENARY_SOURCE_DIR) / folder)) {
    if (entry.path().extension() == ".cuh") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Wrapper> all;
  for (const fs::path& path : files) {
    const auto found = wrappers_in(path.filename().string(), read_text(path.string()));
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

bool has_word(const std::string& text, const std::string& name) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !in_word(text[at - 1])) && (end == text.size() || !in_word(text[end]))) {
      return true;
    }
  }
  return false;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace catenary::test
