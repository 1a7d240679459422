// SPDX-License-Identifier: Apache-2.0
// The log of NVRTC and ptxas: resources, warnings, the first error and the IR value that caused it.
// Needs no NVRTC: the logs are samples of its forms.
#include "compiler/compile/nvrtc_log.h"

#include <doctest/doctest.h>

namespace catenary {
namespace {

KernelSource source_of(std::string body, std::string symbol) {
  return {std::move(symbol), "", std::move(body)};
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("resources: the largest frame, the sum of spills, of every function") {
  const PtxasReport report = parse_ptxas_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'kern' for 'sm_90a'\n"
      "ptxas info    : Function properties for kern\n"
      "ptxas         .     400 bytes stack frame, 12 bytes spill stores, 30 bytes spill loads\n"
      "ptxas info    : Used 38 registers, used 1 barriers, 512 bytes cumulative stack size, "
      "256 bytes smem\n"
      "ptxas info    : Function properties for helper\n"
      "ptxas         .     0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads\n",
      "kern");
  CHECK(report.resources == KernelResources{38, 46, 512, 256});
  CHECK(report.entry_found);
  CHECK(report.warning.empty());
}

TEST_CASE("resources: another kernel's log, an empty log and damaged lines give nothing") {
  CHECK_FALSE(parse_ptxas_log("ptxas info : Compiling entry function 'kern2' for 'sm_80'", "kern")
                  .entry_found);
  CHECK(parse_ptxas_log("", "kern").resources == KernelResources{});
  CHECK(parse_ptxas_log("ptxas info    : Used many registers, bytes smem\nptxas . "
                        "99999999999999999999 bytes stack frame",
                        "kern")
            .resources == KernelResources{});
}

TEST_CASE("a C75xx line is the warning, other codes are not") {
  CHECK(
      parse_ptxas_log("x\nptxas info    : (C7510) Potential Performance Loss: y\n", "k").warning ==
      "ptxas info    : (C7510) Potential Performance Loss: y");
  CHECK(parse_ptxas_log("ptxas info : (C7600) a\nC75\nC75x1", "k").warning.empty());
}

TEST_CASE("first error: every form of the log") {
  struct Case {
    const char* log;
    LogError error;
  };
  const Case cases[] = {
      {"k.cu(7): warning #177-D: unused\nk.cu(12): error: no \"x\"\nk.cu(13): error: y\n",
       {"no \"x\"", "k.cu", 12, 12}},
      {"k.cu(1): catastrophic error: cannot open source file \"a.h\"\n",
       {"cannot open source file \"a.h\"", "k.cu", 1, 1}},
      {"pipeline/pipeline.cuh(3): error: static assertion failed with \"n\"\n  code\n"
       "          detected during:\n"
       "            instantiation of class \"B<N>\" at line 9\n"
       "            instantiation of \"void f()\" at line 21 of k.cu\n"
       "1 error detected\n",
       {"static assertion failed with \"n\"", "pipeline/pipeline.cuh", 3, 21}},
      {"pipeline/pipeline.cuh(3): error: a\n\ntile/x.cuh(4): error: b at line 5 of k.cu\n",
       {"a", "pipeline/pipeline.cuh", 3, 0}},
      {"ptxas error   : Entry function 'k' uses too much shared data (0x61a80 bytes)\n",
       {"Entry function 'k' uses too much shared data (0x61a80 bytes)", "", 0, 0}},
      {"ptxas application ptx input, line 23; error   : Unknown modifier '.x'\n",
       {"Unknown modifier '.x'", "", 0, 0}},
      {"nvrtc: error: unrecognized option --x found\n",
       {"unrecognized option --x found", "", 0, 0}},
      {"At end of source: error: expected a \";\"\n", {"expected a \";\"", "", 0, 0}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.log);
    const auto error = first_log_error(c.log, "k");
    REQUIRE(error);
    CHECK(error->text == c.error.text);
    CHECK(error->line == c.error.line);
    CHECK(error->emitted_line == c.error.emitted_line);
    if (c.error.line > 0) CHECK(error->file == c.error.file);
  }
  CHECK_FALSE(first_log_error("k.cu(7): warning #177-D: unused\n", "k"));
  CHECK_FALSE(first_log_error("", "k"));
}

TEST_CASE("the value of a line is in its trailing comment") {
  const char* body = "a;\n  v1 = f(v0);  // %h = gelu %g\n// %x\nv;  // % = y\nb;  // %q= z";
  CHECK(value_of_line(body, 1) == "");
  CHECK(value_of_line(body, 2) == "%h");
  CHECK(value_of_line(body, 3) == "");
  CHECK(value_of_line(body, 5) == "%q");
  for (int line : {-1, 0, 6, 1 << 30}) CHECK(value_of_line(body, line) == "");
}

TEST_CASE("a log that says that memory ran out is told from an error of the source") {
  for (const char* log :
       {"ptxas fatal   : Memory allocation failure\n",
        "k.cu(3): catastrophic error: out of memory\n", "nvrtc: error: Out of memory\n",
        "LLVM ERROR: out of memory\n",
        "k.cu(7): warning #177-D: unused\nk.cu(9): internal error: std::bad_alloc\n"}) {
    CAPTURE(log);
    CHECK(says_out_of_memory(log));
  }
  for (const char* log :
       {"", "k.cu(12): error: identifier \"x\" is undefined\n",
        "k.cu(7): warning: out of memory is a name\n", "// out of memory\nk.cu(1): error: y\n"}) {
    CAPTURE(log);
    CHECK_FALSE(says_out_of_memory(log));
  }
}

TEST_CASE("a long log is cut, and the sentence stays first") {
  const std::string log = "k.cu(1): error: bad\n" + std::string(200'000, 'x');
  const std::string message = compile_error_message(source_of("", "k"), "sm_80", log, "status");
  CHECK(first_line(message) == "kernel k does not compile for sm_80: k.cu(1): bad");
  CHECK(message.size() < (64 << 10) + 200);
  CHECK(has(message, "more bytes of log"));
  CHECK(compile_error_message(source_of("", "k"), "sm_80", "", "status") ==
        "kernel k does not compile for sm_80: status");
}

}  // namespace
}  // namespace catenary
