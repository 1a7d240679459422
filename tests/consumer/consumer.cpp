// SPDX-License-Identifier: Apache-2.0
// A program that uses the library: builds a chain, prints it, evaluates it on the host.
#include <cstdio>

#include "catenary/catenary.hpp"

int main() {
  try {
    ctn::Chain chain("layer");
    auto x = chain.input("x", ctn::f32, {1, 2});
    auto w = chain.weight("w", ctn::f32, {1, 2});
    chain.output(ctn::relu(ctn::linear(x, w) + 1.0), ctn::f32);
    std::printf("%s", chain.text().c_str());
    float x_data[] = {2, 3};
    float w_data[] = {4, 5};
    float y = 0;
    ctn::run_reference(chain, {x_data, w_data, &y});
    return y == 24 ? 0 : 1;
  } catch (const ctn::Error& error) {
    std::fprintf(stderr, "%s: %s\n", ctn_status_name(error.code()), error.what());
    return 2;
  }
}
