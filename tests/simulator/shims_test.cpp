// SPDX-License-Identifier: Apache-2.0
// Every PTX wrapper has a host shim with the same parameters, every host shim has its wrapper, and
// every wrapper is exercised by a kernel in tests/instructions/.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>

#include "tests/support/wrappers.h"

namespace catenary::test {
namespace {

namespace fs = std::filesystem;

const std::string kWrappers = "templates/ptx";
const std::string kShims = "templates/sim/ptx";

std::string signature(const Wrapper& wrapper) {
  std::string text = wrapper.file + ": ";
  if (!wrapper.template_parameters.empty()) text += "<" + wrapper.template_parameters + "> ";
  text += wrapper.result + " " + wrapper.name + "(";
  for (size_t i = 0; i < wrapper.parameters.size(); ++i) {
    text += (i == 0 ? "" : ", ") + wrapper.parameters[i];
  }
  return text + ")";
}

// The signature of a host shim as its wrapper must have it. Names of ignored parameters may be
// missing; the Site must be last.
std::string wrapper_signature(Wrapper shim) {
  if (shim.parameters.empty()) return signature(shim) + " without a Site";
  const std::string site = shim.parameters.back();
  if (site != "sim::Site at = sim::here()" && site != "sim::Site = sim::here()") {
    return signature(shim) + " without a Site";
  }
  shim.parameters.pop_back();
  return signature(shim);
}

// The `names` that occur in no text.
std::vector<std::string> not_in(const std::vector<std::string>& names,
                                const std::vector<std::string>& texts) {
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    bool found = false;
    for (const std::string& text : texts) found = found || has_word(text, name);
    if (!found) missing.push_back(name);
  }
  return missing;
}

}  // namespace

TEST_CASE("wrappers are found in the text of a header") {
  const auto found =
      wrappers_in("x.cuh",
                  "// CATENARY_DEVICE void comment(u32 a)\n"
                  "#define ROW CATENARY_DEVICE void \\\n  directive(u32 a)\n"
                  "CATENARY_DEVICE void one(u32 a,\n      const i32 (&b)[kRank]) {}\n"
                  "template <int kRank>\nCATENARY_DEVICE U32x2 two() { one(1); }\n");
  REQUIRE(found.size() == 2);
  CHECK(signature(found[0]) == "x.cuh: void one(u32 a, const i32 (&b)[kRank])");
  CHECK(signature(found[1]) == "x.cuh: <int kRank> U32x2 two()");
  CHECK(has_word("a b_c d", "b_c"));
  CHECK_FALSE(has_word("a b_c d", "b"));
}

TEST_CASE("every wrapper has a host shim of the same signature, and every host shim a wrapper") {
  const auto wrappers = wrappers_of_folder(kWrappers);
  const auto shims = wrappers_of_folder(kShims);
  CHECK(wrappers.size() > 100);
  std::map<std::string, std::string> shim_of;
  for (const Wrapper& shim : shims) {
    const bool first = shim_of.emplace(shim.name, wrapper_signature(shim)).second;
    CHECK_MESSAGE(first, "two host shims have the name ", shim.name);
  }
  std::map<std::string, std::string> wrapper_of;
  for (const Wrapper& wrapper : wrappers) {
    const bool first = wrapper_of.emplace(wrapper.name, signature(wrapper)).second;
    CHECK_MESSAGE(first, "two wrappers have the name ", wrapper.name);
    const auto shim = shim_of.find(wrapper.name);
    if (shim == shim_of.end()) {
      FAIL_CHECK(signature(wrapper) << " has no host shim in " << kShims);
    } else {
      CHECK(shim->second == signature(wrapper));
    }
  }
  for (const auto& [name, text] : shim_of) {
    CHECK_MESSAGE(wrapper_of.count(name) != 0, text, " has no wrapper in ", kWrappers);
  }
}

TEST_CASE("a wrapper with inline PTX has no second definition") {
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(CATENARY_SOURCE_DIR) / "templates")) {
    const std::string folder = entry.path().parent_path().filename().string();
    if (!entry.is_regular_file() || folder == "ptx") continue;
    INFO(entry.path().string());
    CHECK_FALSE(has_word(read_text(entry.path().string()), "asm"));
  }
}

TEST_CASE("every wrapper is exercised by a kernel of tests/instructions") {
  std::vector<std::string> texts;
  const fs::path folder = fs::path(CATENARY_SOURCE_DIR) / "tests/instructions";
  REQUIRE(fs::is_directory(folder));
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".cu") texts.push_back(read_text(entry.path().string()));
  }
  std::vector<std::string> names;
  for (const Wrapper& wrapper : wrappers_of_folder(kWrappers)) names.push_back(wrapper.name);
  for (const std::string& name : not_in(names, texts)) {
    FAIL_CHECK(name << " of " << kWrappers << " occurs in no kernel of tests/instructions");
  }
  CHECK(not_in({"a", "b"}, {"b c"}) == std::vector<std::string>{"a"});
}

}  // namespace catenary::test
