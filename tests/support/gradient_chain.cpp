// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gradient_chain.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "ir/text/text.h"

namespace catenary {
namespace {

template <typename T>
T value_of(Expected<T> result, const std::string& about) {
  if (!result) FAIL(about << "\n" << take_report(result.takeError()).message);
  return std::move(*result);
}

}  // namespace

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

VerifiedChain verified_text(const std::string& text) {
  return value_of(verify(value_of(parse(text), text)), text);
}

VerifiedChain gradient_chain(const std::string& name) {
  return verified_text(
      read_text(fmt::format("{}/tests/chains/gradient/{}.chain", CATENARY_SOURCE_DIR, name)));
}

Gradient gradient_of(const VerifiedChain& chain, const GradientOptions& options) {
  return value_of(make_gradient(chain, options), print(chain.chain()));
}

}  // namespace catenary
