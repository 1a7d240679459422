// SPDX-License-Identifier: Apache-2.0
// An engine that brings its own stream, memory and tensors: opens a pack, prepares its layer
// without a compiler, binds DLPack tensors, launches on the stream, then the same from a CUDA
// graph. Usage: example_embed <pack>, a pack of layer.chain (docs/cpp.md).
#include <catenary/dlpack.hpp>
#include <catenary/pack.hpp>

#include "cuda_graph.h"
#include "example.h"

using example::Bf16;

namespace {

constexpr std::int64_t kInner = 256, kColumns = 512;

// What an engine has of a tensor: here memory of the library's, else of its own allocator.
struct Tensor {
  Tensor(std::vector<std::int64_t> sizes, const std::vector<Bf16>& data)
      : shape(std::move(sizes)), memory(0, data) {}
  ctn::DLPackTensor dlpack() {
    ctn::DLPackTensor tensor;
    tensor.data = memory.get();
    tensor.device_type = 2;  // CUDA
    tensor.ndim = static_cast<std::int32_t>(shape.size());
    tensor.code = 4;  // bfloat
    tensor.bits = 16;
    tensor.shape = shape.data();
    return tensor;
  }
  std::vector<std::int64_t> shape;
  ctn::Buffer memory;
};

// The pack's only chain, for this device; an engine knows its chains, or takes them from a file.
ctn::Chain chain_of_pack(const ctn::Pack& pack) { return ctn::chain_of(pack.compiled(0)); }

void check_rows(const char* what, const std::vector<Bf16>& x, const std::vector<Bf16>& wg,
                const std::vector<Bf16>& wu, const Tensor& y, example::Check& check) {
  std::vector<Bf16> got(static_cast<std::size_t>(y.shape[0] * kColumns));
  y.memory.download(got.data());
  for (std::int64_t m = 0; m < y.shape[0]; m += 3) {
    for (std::int64_t n = 0; n < kColumns; n += 5) {
      const double g = example::dot(&x[m * kInner], &wg[n * kInner], kInner);
      const double u = example::dot(&x[m * kInner], &wu[n * kInner], kInner);
      check.near(what, m * kColumns + n, example::number(got[m * kColumns + n]),
                 example::silu(g) * u);
    }
  }
}

int program(const char* path) {
  const ctn::Pack pack(path);
  if (!example::has_device()) {
    std::printf("no GPU: CATENARY_DEVICE=sim runs the layer in the simulator\n%s",
                pack.info().c_str());
    return 0;
  }
  ctn_engine_options options{};
  options.jit = CTN_JIT_OFF;  // no compiler is opened
  options.cache_mode = CTN_CACHE_OFF;
  const ctn::Engine engine(options);
  ctn::add_pack(engine, pack);
  const ctn::Chain chain = chain_of_pack(pack);
  const ctn::Operands operands = ctn::operands(chain);
  const ctn::Stream stream(0);  // an engine passes its own cudaStream_t
  const ctn::Executable layer = engine.prepare(chain, /*device=*/0, stream.get());
  const ctn::Buffer workspace(0, static_cast<std::size_t>(layer.workspace_bytes()));

  const auto gate = example::random_numbers<Bf16>(kColumns * kInner, 0.1, 1);
  const auto up = example::random_numbers<Bf16>(kColumns * kInner, 0.1, 2);
  Tensor wg({kColumns, kInner}, gate), wu({kColumns, kInner}, up);
  example::Check check;
  for (const std::int64_t rows : {1, 7, 64}) {
    const auto input = example::random_numbers<Bf16>(rows * kInner, 1, 3);
    Tensor x({rows, kInner}, input), y({rows, kColumns}, std::vector<Bf16>(rows * kColumns));
    const ctn::DLPackTensor tx = x.dlpack(), tg = wg.dlpack(), tu = wu.dlpack(), ty = y.dlpack();
    const ctn::DLPackArguments bound = ctn::bind_dlpack(operands, {&tx, &tg, &tu, &ty});
    const ctn::LaunchOptions launch{.symbol = bound.symbol, .workspace = workspace.get()};
    layer.launch(stream.get(), bound.tensors, launch);
    stream.synchronize();
    check_rows("launched", input, gate, up, y, check);
    if (example::simulated()) continue;  // the simulator has no libcuda
    const embed::CudaGraph graph(stream.get(),
                                 [&] { layer.launch(stream.get(), bound.tensors, launch); });
    y.memory.upload(std::vector<Bf16>(rows * kColumns).data());
    graph.launch(stream.get());
    stream.synchronize();
    check_rows("launched by the graph", input, gate, up, y, check);
  }
  return example::finish(check);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s <pack of layer.chain>\n", argv[0]);
    return 2;
  }
  return example::run([&] { return program(argv[1]); });
}
