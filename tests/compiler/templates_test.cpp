// SPDX-License-Identifier: Apache-2.0
// Rules of the device templates and of what is emitted over them: PTX stays in templates/ptx, no
// raw pointer is dereferenced above it, emitted text has no control flow, and every header compiles
// alone without an include path. The last rules need NVRTC.
#include <doctest/doctest.h>

#include <regex>

#include "compiler/compile/nvrtc.h"
#include "compiler/compile/templates.h"
#include "compiler/emit/emit.h"
#include "ir/random/random_chain.h"
#include "llvm/ADT/StringRef.h"

using namespace catenary;

namespace {

// The text without comments and string literals; lines are kept.
std::string code_of(llvm::StringRef text) {
  std::string code;
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i).startswith("//")) {
      i = std::min(text.find('\n', i), text.size());
    } else if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i) {
      }
      ++i;
      code += "\"\"";
    } else {
      code += text[i++];
    }
  }
  return code;
}

bool has_word(const std::string& code, const char* word) {
  return std::regex_search(code, std::regex(std::string("\\b") + word + "\\b"));
}

bool is_header(llvm::StringRef name) { return name.endswith(".cuh") || name.endswith(".h"); }

Plan plan_of(const VerifiedChain& chain) {
  Expected<Target> target = find_target("h200");
  REQUIRE(static_cast<bool>(target));
  Expected<Plan> plan = make_plan(chain, *target);
  REQUIRE(static_cast<bool>(plan));
  return std::move(*plan);
}

// A chain of one op over as many inputs as it has operands.
Chain chain_of_op(Op op) {
  const OpInfo& info = op_info(op);
  Chain chain;
  chain.name = std::string("one_") + std::string(info.text);
  TensorType type;
  type.dtype = DType::kBF16;
  type.shape = {Dim{64}, Dim{40}};
  llvm::SmallVector<Use, 3> operands;
  for (int i = 0; i < info.arity; ++i) {
    const bool scalar = op == Op::kScale && i == 1;
    operands.push_back({scalar ? chain.parameter(Role::kScalar, "s", TensorType{})
                               : chain.parameter(Role::kInput, fmt::format("x{}", i), type),
                        ""});
  }
  llvm::SmallVector<double, 2> attributes;
  for (std::string_view name : info.attributes) {
    if (!name.empty()) attributes.push_back(static_cast<double>(attributes.size()));
  }
  chain.returns(chain.elementwise(op, operands, attributes, "r"), DType::kF16);
  return chain;
}

const Nvrtc* nvrtc_or_skip() {
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (nvrtc) return *nvrtc;
  MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
  return nullptr;
}

void compile_all_of(const Nvrtc& nvrtc, const std::vector<CompileJob>& jobs) {
  auto results = nvrtc.compile_all(jobs);
  REQUIRE(results.size() == jobs.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]) continue;
    FAIL_CHECK(jobs[i].source.symbol << " for " << jobs[i].arch << ": "
                                     << take_report(results[i].takeError()).message.substr(0, 800));
  }
}

}  // namespace

TEST_CASE("code_of drops comments and strings and nothing else") {
  CHECK(code_of("int a; // asm \nf(\"asm\", b);") == "int a; \nf(\"\", b);");
  CHECK(has_word("x asm volatile", "asm"));
  CHECK_FALSE(has_word("plasma _asm2", "asm"));
}

TEST_CASE("inline PTX appears only in templates/ptx") {
  int in_ptx = 0;
  for (const EmbeddedTemplate& file : embedded_templates()) {
    const std::string code = code_of(file.text);
    const bool has_asm = has_word(code, "asm") || has_word(code, "__asm__");
    const bool is_ptx = llvm::StringRef(file.name).startswith("ptx/");
    INFO(file.name);
    if (!is_ptx) CHECK_FALSE(has_asm);
    in_ptx += is_ptx && has_asm;
  }
  CHECK(in_ptx >= 4);
}

TEST_CASE("no memory is touched above templates/ptx") {
  // Tensors are addressed by byte pointers and shared memory by 32-bit addresses; both only ever go
  // to a wrapper. Params and arrays in registers are the only things that are indexed.
  const std::regex rules[] = {
      std::regex(R"(\b__shared__\b)"),
      std::regex(R"(\b__ldg\b|\b__stcg\b|\batomic[A-Z]\w*)"),
      std::regex(R"(\*\s*(static_cast|reinterpret_cast|const_cast)\s*<)"),
      std::regex(R"(\breinterpret_cast\b)"),
      std::regex(R"([=(,]\s*\*\s*(p|from|to|corner|ends)\b)"),
      std::regex(R"(^\s*\*\s*(p|from|to|corner|ends)\b)", std::regex::multiline),
      std::regex(R"(\b(p|corner|ends)\s*\[)"),
      std::regex(R"(\bptr\s*\[[^\]]*\]\s*(\[|->))"),
  };
  int checked = 0;
  for (const EmbeddedTemplate& file : embedded_templates()) {
    const llvm::StringRef name = file.name;
    if (name.startswith("ptx/") || name.startswith("shared/")) continue;
    ++checked;
    const std::string code = code_of(file.text);
    for (const std::regex& rule : rules) {
      std::smatch found;
      if (std::regex_search(code, found, rule)) {
        FAIL_CHECK(file.name << " touches memory by itself: " << found.str());
      }
    }
  }
  CHECK(checked >= 8);
}

TEST_CASE("templates include nothing but templates") {
  std::vector<std::string> names;
  for (const EmbeddedTemplate& file : embedded_templates()) names.push_back(file.name);
  const std::regex include(R"(#include\s*([<"])([^>"]+)[>"])");
  for (const EmbeddedTemplate& file : embedded_templates()) {
    const std::string text = file.text;
    for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it) {
      INFO(file.name << " includes " << (*it)[2].str());
      CHECK((*it)[1].str() == "\"");
      CHECK(std::find(names.begin(), names.end(), (*it)[2].str()) != names.end());
    }
  }
}

TEST_CASE("emitted sources hold facts and no control flow") {
  int kernels = 0;
  for (u64 seed = 0; seed < 100; ++seed) {
    RandomChainOptions options;
    options.no_ragged = seed % 2 == 0;
    Expected<VerifiedChain> chain = verify(random_chain(seed, options));
    REQUIRE(static_cast<bool>(chain));
    Expected<Target> target = find_target("h200");
    REQUIRE(static_cast<bool>(target));
    Expected<Plan> plan = make_plan(*chain, *target);
    if (!plan) {
      llvm::consumeError(plan.takeError());
      continue;
    }
    for (const KernelPlan& kernel : plan->buckets[0].kernels) {
      const KernelSource source = emit(*chain, *plan, kernel);
      const std::string code = code_of(source.body);
      INFO(source.body);
      for (const char* word : {"if", "for", "while", "do", "switch", "goto", "asm"}) {
        CHECK_FALSE(has_word(code, word));
      }
      CHECK(code.find('?') == std::string::npos);
      CHECK(code.find("#define") == std::string::npos);
      // Defaults are left out; without arguments these do not compile.
      CHECK(code.find("extents()") == std::string::npos);
      CHECK(code.find("dims()") == std::string::npos);
      ++kernels;
    }
  }
  CHECK(kernels >= 100);
}

TEST_CASE("every template header compiles on its own, without an include path") {
  const Nvrtc* nvrtc = nvrtc_or_skip();
  if (nvrtc == nullptr) return;
  std::vector<CompileJob> jobs;
  for (const EmbeddedTemplate& file : embedded_templates()) {
    if (!is_header(file.name)) continue;
    CompileJob job;
    job.arch = "sm_80";
    job.source.symbol = "ctn_alone_" + std::to_string(jobs.size());
    job.source.body = fmt::format("#include \"{}\"\nextern \"C\" __global__ void {}() {{}}\n",
                                  file.name, job.source.symbol);
    jobs.push_back(std::move(job));
  }
  CHECK(jobs.size() >= 15);
  compile_all_of(*nvrtc, jobs);
}

TEST_CASE("every elementwise op compiles") {
  const Nvrtc* nvrtc = nvrtc_or_skip();
  if (nvrtc == nullptr) return;
  std::vector<CompileJob> jobs;
  for (Op op : all_ops()) {
    if (!is_elementwise(op)) continue;
    Expected<VerifiedChain> chain = verify(chain_of_op(op));
    if (!chain) {
      FAIL_CHECK(op_info(op).text << ": " << take_report(chain.takeError()).message);
      continue;
    }
    const Plan plan = plan_of(*chain);
    REQUIRE(plan.buckets[0].kernels.size() == 1);
    CompileJob job;
    job.source = emit(*chain, plan, plan.buckets[0].kernels[0]);
    job.arch = "sm_80";
    const std::string functor = fmt::format("op_{}", op_info(op).text);
    CHECK(job.source.body.find(functor) != std::string::npos);
    jobs.push_back(std::move(job));
  }
  CHECK(jobs.size() >= 20);
  compile_all_of(*nvrtc, jobs);
}
