// SPDX-License-Identifier: Apache-2.0
// The functions of templates/ptx/ and their host shims, found in the text of the headers: every
// `CATENARY_DEVICE type name(parameters)` outside of preprocessor lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace catenary::test {

struct Wrapper {
  std::string file;  // "mbarrier.cuh"
  std::string name;
  std::string result;                   // "void"
  std::string template_parameters;      // "int kPending", "" for none
  std::vector<std::string> parameters;  // "u32 barrier", in order, blanks normalised
};

// The wrappers of one header's text, in order.
std::vector<Wrapper> wrappers_in(std::string_view file, const std::string& text);

// The wrappers of all *.cuh files in `folder`, relative to CATENARY_SOURCE_DIR, by file name.
std::vector<Wrapper> wrappers_of_folder(const std::string& folder);

// Whether `name` occurs in `text` as a whole word.
bool has_word(const std::string& text, const std::string& name);

// The text of a file; empty if there is none.
std::string read_text(const std::string& path);

}  // namespace catenary::test
