// SPDX-License-Identifier: Apache-2.0
// The gradients of the layers that people train, as text that was reviewed.
// CATENARY_UPDATE_GOLDEN=1 rewrites the files.
#include <doctest/doctest.h>

#include <cstdlib>

#include "ir/gradient/gradient.h"
#include "tests/support/gradient_chain.h"

using namespace catenary;

TEST_SUITE("ir") {
  TEST_CASE("gradients are those of the golden files") {
    for (const char* name : kGradientChains) {
      CAPTURE(name);
      const Gradient gradient = gradient_of(gradient_chain(name));
      const std::string path =
          fmt::format("{}/tests/golden/gradient/{}.chains", CATENARY_SOURCE_DIR, name);
      const std::string got = gradient_text(gradient);
      if (std::getenv("CATENARY_UPDATE_GOLDEN") != nullptr) write_text(path, got);
      INFO(path, " differs; CATENARY_UPDATE_GOLDEN=1 rewrites it");
      CHECK(got == read_text(path));
    }
  }
}
