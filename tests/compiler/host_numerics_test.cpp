// SPDX-License-Identifier: Apache-2.0
// Plans, sources and JSON are the same bytes whatever locale, rounding mode and flush-to-zero the
// host thread has, and the thread has them again afterwards.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "compiler/emit/emit.h"
#include "compiler/explain.h"
#include "ir/json.h"
#include "ir/text/text.h"
#include "tests/support/host_numerics.h"

using namespace catenary;
using test::CommaLocale;
using test::HostRounding;

namespace {

// Constants that a comma, a rounding mode or a flush to zero would change.
constexpr const char* kConstants =
    "chain constants(input x: f32[64, 128]) {\n"
    "  y = leaky_relu(add(mul(x, 0.3), 1e-40), slope = 0.01)\n"
    "  z = clamp(y, lo = -1.7, hi = 3.3333333333333335)\n"
    "  return z: f32\n}\n";

std::vector<std::string> chains() {
  std::vector<std::string> texts{kConstants};
  for (const char* name :
       {"geglu_mlp", "grouped_linear", "moe_linear", "pseudo_linear", "small_batch"}) {
    std::ifstream file(fmt::format("{}/examples/{}.chain", CATENARY_SOURCE_DIR, name));
    std::stringstream text;
    text << file.rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

// All text that is made of the chains: canonical text, plan, JSON, sources.
std::string all_text() {
  std::string all;
  for (const std::string& text : chains()) {
    for (const char* name : {"h200", "a100"}) {
      const VerifiedChain chain = llvm::cantFail(verify(llvm::cantFail(parse(text))));
      const Target target = llvm::cantFail(find_target(name));
      const Plan plan = llvm::cantFail(make_plan(chain, target));
      all += print(chain.chain());
      all += explain_text(chain, plan);
      all += json_text(explain_json(chain, plan));
      for (const PlanBucket& bucket : plan.buckets) {
        for (const KernelPlan& kernel : bucket.kernels) {
          all += emit(chain, plan, kernel).text();
          all += kernel.signature;
        }
      }
    }
  }
  return all;
}

const std::string& plain() {
  static const std::string text = all_text();
  return text;
}

}  // namespace

TEST_CASE("the constants are in the source as hexadecimal floats") {
  CHECK(plain().find("0x1.333334p-2f") != std::string::npos);
  CHECK(plain().find("0x1.16c2p-133f") != std::string::npos);
}

TEST_CASE("text does not depend on a locale with a decimal comma") {
  const std::string& expected = plain();
  const CommaLocale locale;
  if (!locale.found()) return;
  const bool same = all_text() == expected;
  CHECK(same);
  CHECK(std::string(std::localeconv()->decimal_point) == ",");
  const llvm::json::Value number = llvm::cantFail(parse_json("[0.8]"));
  CHECK(number.getAsArray()->front().getAsNumber().getValueOr(0) == 0.8);
}

TEST_CASE("text does not depend on the rounding mode or on flush-to-zero") {
  const std::string& expected = plain();
  for (const int mode : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    for (const bool flush : {false, true}) {
      CAPTURE(mode);
      CAPTURE(flush);
      std::string got;
      int left = 0;
      {
        const HostRounding host(mode, flush);
        got = all_text();
        left = std::fegetround();
      }
      const bool same = got == expected;
      CHECK(same);
      CHECK(left == mode);
    }
  }
}
