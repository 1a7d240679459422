// SPDX-License-Identifier: Apache-2.0
// Runs a layer of the pack that catenary_embed_pack() has linked in; nothing is compiled.
#include <catenary/pack.hpp>

#include "layer_pack.h"

int main() {
  ctn_engine_options options{};
  options.jit = CTN_JIT_OFF;
  options.cache_mode = CTN_CACHE_OFF;
  const ctn::Engine engine(options);
  ctn::add_pack(engine, ctn::Pack(std::as_bytes(std::span(ctn_pack_layer, ctn_pack_layer_end))));
  ctn::Chain chain("relu");
  const auto x = chain.input("x", ctn::f32, {64});
  chain.output(ctn::relu(x), ctn::f32);
  std::vector<float> values(64, -1.0f);
  values[63] = 3;
  const ctn::Buffer dx(0, values), dy(0, values.size() * sizeof(float));
  const ctn::Stream stream(0);
  engine.prepare(chain, 0).launch(stream.get(), {dx.get(), dy.get()});
  dy.download(values.data());
  return values[0] == 0 && values[63] == 3 ? 0 : 1;
}
