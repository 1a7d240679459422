// SPDX-License-Identifier: Apache-2.0
// The layers of the source tree, one way only: templates/shared <- ir <- compiler, simulator <-
// runtime <- adapters, tuner <- tools, bench, examples, tests. Checked by the text of #include
// lines; and the size of files.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace fs = std::filesystem;

namespace {

const fs::path kSource = CATENARY_SOURCE_DIR;

// What a folder may include of the project. shared/: templates/shared by the host's include path.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"templates", {"shared", "ptx", "smem", "scheduler", "pipeline", "epilogue", "kernels", "sim"}},
    {"ir", {"shared", "ir"}},
    {"compiler", {"shared", "ir", "compiler"}},
    {"simulator", {"shared", "sim", "ir", "simulator"}},
    {"runtime", {"shared", "ir", "compiler", "simulator", "runtime", "catenary"}},
    {"adapters", {"shared", "ir", "compiler", "runtime", "catenary", "adapters"}},
    {"include", {"catenary"}},
    {"tuner", {"shared", "ir", "compiler", "runtime", "tuner"}},
    {"tools", {"shared", "ir", "compiler", "runtime", "catenary", "tuner", "bench", "tools"}},
    {"bench", {"shared", "ir", "compiler", "runtime", "catenary", "tuner", "bench"}},
    {"examples", {"catenary", "examples"}},
    {"tests",
     {"shared", "sim", "epilogue", "ir", "compiler", "simulator", "runtime", "catenary", "tuner",
      "bench", "tools", "adapters", "tests"}},
};

// What templates/shared may include: it is the bottom.
const std::set<std::string> kShared = {"shared"};

constexpr int kMaxLines = 500;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool is_source(const fs::path& path) {
  static const std::set<std::string> kEndings = {".h", ".hpp", ".cpp", ".c", ".cuh", ".def"};
  return kEndings.count(path.extension().string()) != 0;
}

std::vector<fs::path> sources_in(const std::string& folder) {
  std::vector<fs::path> found;
  if (!fs::exists(kSource / folder)) return found;
  for (const auto& entry : fs::recursive_directory_iterator(kSource / folder)) {
    if (entry.is_regular_file() && is_source(entry.path())) found.push_back(entry.path());
  }
  return found;
}

// First folder of each quoted or angled include that is a path.
std::vector<std::string> include_folders(const std::string& text) {
  static const std::regex kInclude("^[ \\t]*#[ \\t]*include[ \\t]*[<\"]([^>\"]+)[>\"]",
                                   std::regex::multiline);
  std::vector<std::string> folders;
  for (std::sregex_iterator it(text.begin(), text.end(), kInclude), end; it != end; ++it) {
    const std::string path = (*it)[1].str();
    if (path.find("/..") != std::string::npos) folders.push_back("..");
    const size_t slash = path.find('/');
    if (slash != std::string::npos) folders.push_back(path.substr(0, slash));
  }
  return folders;
}

const std::set<std::string>& project_folders() {
  static const std::set<std::string> kFolders = {
      "shared",   "ptx",      "smem",     "scheduler", "pipeline", "epilogue",  "kernels",
      "ir",       "compiler", "runtime",  "tuner",     "tools",    "bench",     "tests",
      "examples", "catenary", "adapters", "templates", "sim",      "simulator", ".."};
  return kFolders;
}

// The folders of the project that `text` includes from and may not.
std::vector<std::string> forbidden(const std::string& text, const std::set<std::string>& allowed) {
  std::vector<std::string> wrong;
  for (const std::string& folder : include_folders(text)) {
    if (project_folders().count(folder) != 0 && allowed.count(folder) == 0) {
      wrong.push_back(folder);
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("the check sees an include that goes the wrong way") {
  const auto wrong = forbidden(
      "#include \"ir/chain.h\"\n  # include \"runtime/engine.h\"\n#include <llvm/ADT/StringRef.h>\n"
      "#include \"../compiler/plan.h\"\n",
      kMayInclude.at("ir"));
  REQUIRE(wrong.size() == 2);
  CHECK(wrong[0] == "runtime");
  CHECK(wrong[1] == "..");
}

TEST_CASE("folders include only what is below them") {
  for (const auto& [folder, allowed] : kMayInclude) {
    const auto sources = sources_in(folder);
    for (const fs::path& path : sources) {
      const std::string relative = fs::relative(path, kSource).string();
      const bool shared = relative.rfind("templates/shared/", 0) == 0;
      for (const std::string& wrong : forbidden(read(path), shared ? kShared : allowed)) {
        FAIL_CHECK(relative << " includes from " << wrong << "/, which is not below it");
      }
    }
    INFO(folder);
    if (folder != "tools" && folder != "examples" && folder != "bench") CHECK(!sources.empty());
  }
}

TEST_CASE("the public headers include only the standard library") {
  const std::regex include("#[ \\t]*include[ \\t]*([<\"])([^>\"]+)[>\"]");
  for (const fs::path& path : sources_in("include")) {
    const std::string text = read(path);
    for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it) {
      const std::string name = (*it)[2].str();
      INFO(path.filename().string() << " includes " << name);
      const bool own = name.rfind("catenary", 0) == 0;
      const bool standard = (*it)[1].str() == "<" && name.find('/') == std::string::npos;
      const bool allowed = own || standard;
      CHECK(allowed);
    }
  }
}

TEST_CASE("no source file has more than 500 lines, and each names its licence") {
  int checked = 0;
  for (const auto& [folder, allowed] : kMayInclude) {
    for (const fs::path& path : sources_in(folder)) {
      const std::string text = read(path);
      const auto lines = std::count(text.begin(), text.end(), '\n');
      INFO(fs::relative(path, kSource).string());
      CHECK(lines <= kMaxLines);
      if (path.extension() != ".def") {
        CHECK(text.find("SPDX-License-Identifier: Apache-2.0") < 100);
      }
      ++checked;
    }
  }
  CHECK(checked > 100);
}

TEST_CASE("the environment is read by secure_getenv only") {
  const std::regex insecure("(^|[^_a-z])getenv *\\(");
  CHECK(std::regex_search("x = std::getenv(name);", insecure));
  CHECK_FALSE(std::regex_search("x = ::secure_getenv(name);", insecure));
  for (const char* folder : {"ir", "compiler", "simulator", "runtime", "adapters", "tuner", "tools",
                             "bench", "include"}) {
    for (const fs::path& path : sources_in(folder)) {
      INFO(fs::relative(path, kSource).string());
      CHECK_FALSE(std::regex_search(read(path), insecure));
    }
  }
}

TEST_CASE("only hash tables that survive a failed allocation are used") {
  const std::regex table("(Dense(Map|Set)|(Map|Set)Vector)(<|\\.h)|llvm/Support/JSON\\.h");
  CHECK(std::regex_search("llvm::SmallDenseMap<int, int> map;", table));
  CHECK_FALSE(std::regex_search("llvm::StringMap<int> map;", table));
  const std::set<std::string> allowed = {"ir/json.h", "ir/json.cpp", "ir/dense_map.h",
                                         "ir/reference/reference.cpp"};
  for (const char* folder :
       {"ir", "compiler", "simulator", "runtime", "adapters", "tuner", "tools", "bench"}) {
    for (const fs::path& path : sources_in(folder)) {
      const std::string name = fs::relative(path, kSource).string();
      INFO(name);
      CHECK((allowed.count(name) == 1 || !std::regex_search(read(path), table)));
    }
  }
}
