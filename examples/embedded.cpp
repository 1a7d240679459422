// SPDX-License-Identifier: Apache-2.0
// A program with its kernels inside: the pack of embedded.chain is linked in by
// catenary_embed_pack(), and compiling is off. Where it runs there is no NVRTC, no cache and no
// file beside it: a GPU needs the driver only.
#include <catenary/pack.hpp>

#include "example.h"
#include "layer_pack.h"

using example::Bf16;

namespace {

constexpr std::int64_t kRows = 64, kInner = 512, kColumns = 384;

ctn::Chain build() {
  ctn::Chain chain("embedded");
  const auto x = chain.input("x", ctn::bf16, {kRows, kInner});
  const auto w = chain.weight("w", ctn::bf16, {kColumns, kInner});
  const auto b = chain.weight("b", ctn::bf16, {kColumns});
  chain.output(ctn::silu(ctn::linear(x, w) + b), ctn::bf16);
  return chain;
}

int program() {
  const ctn::Chain chain = build();
  example::require_same(chain, "embedded.chain");
  const auto x = example::random_numbers<Bf16>(kRows * kInner, 1, 1);
  const auto w = example::random_numbers<Bf16>(kColumns * kInner, 0.1, 2);
  const auto b = example::random_numbers<Bf16>(kColumns, 1, 3);

  ctn_engine_options options{};
  options.jit = CTN_JIT_OFF;
  options.cache_mode = CTN_CACHE_OFF;
  const ctn::Engine engine(options);
  const ctn::Pack pack(std::as_bytes(std::span(ctn_pack_layer, ctn_pack_layer_end)));
  ctn::add_pack(engine, pack);
  if (!example::has_device()) {
    std::printf("no GPU: CATENARY_DEVICE=sim runs the layer in the simulator\n%s",
                pack.info().c_str());
    return 0;
  }
  const ctn::Executable layer = engine.prepare(chain, /*device=*/0);
  const ctn::Stream stream(0);
  const ctn::Buffer dx(0, x), dw(0, w), db(0, b), dy(0, kRows * kColumns * sizeof(Bf16));
  layer.launch(stream.get(), {dx.get(), dw.get(), db.get(), dy.get()});
  std::vector<Bf16> y(kRows * kColumns);
  dy.download(y.data());

  example::Check check;
  for (std::int64_t m = 0; m < kRows; ++m) {
    for (std::int64_t n = 0; n < kColumns; n += 7) {
      const double sum = example::dot(&x[m * kInner], &w[n * kInner], kInner);
      check.near("device", m * kColumns + n, example::number(y[m * kColumns + n]),
                 example::silu(sum + example::number(b[n])));
    }
  }
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
