// SPDX-License-Identifier: Apache-2.0
#include <catenary/catenary.hpp>
#include <cstdio>

int main() {
  ctn::Chain chain("layer");
  auto x = chain.input("x", ctn::f32, {64, 128});
  auto w = chain.weight("w", ctn::f32, {256, 128});
  auto b = chain.weight("b", ctn::f32, {256});
  chain.output(ctn::silu(ctn::linear(x, w) + b), ctn::f32);

  ctn::Engine engine;
  ctn::Executable layer = engine.prepare(chain, /*device=*/0);  // plan, compile, load
  ctn::Buffer dx(0, std::vector<float>(64 * 128, 0.5f));
  ctn::Buffer dw(0, std::vector<float>(256 * 128, 0.0625f));
  ctn::Buffer db(0, std::vector<float>(256, -1.0f));
  ctn::Buffer dy(0, 64 * 256 * sizeof(float));
  ctn::Stream stream(0);  // or any CUstream or cudaStream_t
  layer.launch(stream.get(), {dx.get(), dw.get(), db.get(), dy.get()});

  std::vector<float> y(64 * 256);
  dy.download(y.data());
  std::printf("%zu kernel, y[0] = %.3f\n", layer.compiled().kernels().size(), y[0]);
}
