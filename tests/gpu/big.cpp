// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "ir/random/random.h"
#include "ir/reference/compare.h"
#include "ir/text/text.h"
#include "tests/gpu/bound_chain.h"
#include "tests/gpu/modes.h"

namespace catenary::gpu_suite {
namespace {

constexpr i64 kSamples = 2000;

struct BigCase {
  const char* name;
  const char* equation;
  i64 m, n, k;
};

// 2^27 + 128 rows of 16 are 2^31 + 2^11 elements.
constexpr BigCase kCases[] = {{"A", "mk,nk->mn", (i64{1} << 27) + 128, 8, 16},
                              {"B", "mk,nk->mn", 8, (i64{1} << 27) + 128, 16},
                              {"D", "mk,nk->mn", 65544, 32776, 8}};

// A prime number of rows: an offset that wraps at 2^31 or 2^32 finds other data.
constexpr i64 kPeriodRows = 65537;

std::vector<u16> pattern(i64 rows, i64 k, u64 seed) {
  std::vector<u16> block(static_cast<size_t>(std::min(rows, kPeriodRows) * k));
  Random random(seed);
  for (size_t i = 0; i < block.size(); ++i) {
    store_element(DType::kBF16, block.data(), static_cast<i64>(i),
                  static_cast<double>(random.range(-2, 2)));
  }
  return block;
}

// The block repeated, on the host and on the device.
struct BigMatrix {
  std::vector<u16> host;
  cuda::DeviceBuffer device;
};

Expected<BigMatrix> make_matrix(Suite& suite, i64 rows, i64 k, u64 seed) {
  const std::vector<u16> block = pattern(rows, k, seed);
  const size_t total = static_cast<size_t>(rows * k);
  BigMatrix matrix;
  matrix.host.resize(total);
  std::copy(block.begin(), block.end(), matrix.host.begin());
  for (size_t filled = block.size(); filled < total; filled *= 2) {
    std::memcpy(&matrix.host[filled], matrix.host.data(), 2 * std::min(filled, total - filled));
  }
  auto device = cuda::DeviceBuffer::allocate(static_cast<i64>(2 * total));
  if (!device) return device.takeError();
  matrix.device = std::move(*device);
  if (Error error = matrix.device.upload(block.data(), static_cast<i64>(2 * block.size())))
    return error;
  if (Error error = suite.check(suite.api().ctx_synchronize(), "waiting for uploads")) return error;
  for (size_t filled = block.size(); filled < total; filled *= 2) {
    const cuda::DevicePtr base = matrix.device.get();
    if (Error error = suite.check(
            suite.api().memcpy_dtod_async(base + 2 * filled, base,
                                          2 * std::min(filled, total - filled), suite.stream()),
            "repeating a block"))
      return error;
  }
  return matrix;
}

// Samples: both ends, around 2^31 elements, 2^31 and 2^32 bytes, and random ones.
std::vector<i64> sample_indices(i64 count) {
  std::vector<i64> indices;
  for (i64 centre : {i64{0}, i64{1} << 30, i64{1} << 31, count - 1}) {
    for (i64 i = centre - 40; i <= centre + 40; ++i) {
      if (i >= 0 && i < count) indices.push_back(i);
    }
  }
  Random random(7);
  for (i64 i = 0; i < kSamples; ++i) indices.push_back(random.range(0, count - 1));
  return indices;
}

Error compare_samples(const BigCase& big, const VerifiedChain& chain, const BigMatrix& a,
                      const BigMatrix& b, const cuda::DeviceBuffer& d) {
  ReferenceInputs inputs;
  for (size_t p = 0; p < 2; ++p) {
    HostTensor tensor;
    tensor.type = chain.info(chain.parameters()[p]).type;
    tensor.data = p == 0 ? a.host.data() : b.host.data();
    inputs.parameters.push_back(std::move(tensor));
  }
  Expected<Reference> reference = Reference::create(chain, inputs);
  if (!reference) return reference.takeError();
  for (i64 index : sample_indices(big.m * big.n)) {
    u16 bits = 0;
    if (Error error = d.download(&bits, 2, 2 * index)) return error;
    const double got = load_element(DType::kBF16, &bits, 0);
    const double want = round_to(DType::kBF16, reference->output_element(0, index).value);
    if (got == want) continue;
    return make_error(ErrorCode::kMismatch, "big {}: element [{}, {}]: got {}, expected {}",
                      big.name, index / big.n, index % big.n, got, want);
  }
  return Error::success();
}

Error run_one(Suite& suite, const BigCase& big) {
  Expected<Chain> parsed =
      parse(fmt::format("chain big(input x: bf16[{}, {}], weight w: bf16[{}, {}]) {{\n"
                        "  y = contract \"{}\"(x, w)\n  return y: bf16\n}}",
                        big.m, big.k, big.n, big.k, big.equation));
  if (!parsed) return parsed.takeError();
  Engine engine(suite.engine_options());
  auto executable = engine.compile(std::move(*parsed), suite.target());
  if (!executable) return executable.takeError();
  auto loaded = engine.load(*executable, 0, suite.stream());
  if (!loaded) return loaded.takeError();
  Expected<BigMatrix> a = make_matrix(suite, big.m, big.k, 1);
  if (!a) return a.takeError();
  Expected<BigMatrix> b = make_matrix(suite, big.n, big.k, 2);
  if (!b) return b.takeError();
  auto d = cuda::DeviceBuffer::allocate(2 * big.m * big.n);
  if (!d) return d.takeError();
  const cuda::Result poisoned =
      suite.api().memset_d8_async(d->get(), 0xff, static_cast<size_t>(d->bytes()), suite.stream());
  if (Error error = suite.check(poisoned, "filling D")) return error;
  auto workspace = cuda::DeviceBuffer::allocate((*loaded)->workspace_bytes());
  if (!workspace) return workspace.takeError();
  std::vector<void*> tensors;
  for (cuda::DevicePtr pointer : {a->device.get(), b->device.get(), d->get()}) {
    tensors.push_back(reinterpret_cast<void*>(pointer));
  }
  LaunchArguments arguments;
  arguments.tensors = tensors;
  arguments.workspace = reinterpret_cast<void*>(workspace->get());
  arguments.stream = suite.stream();
  if (Error error = (*loaded)->launch(arguments)) return error;
  if (Error error = suite.check(suite.api().stream_synchronize(suite.stream()), "running big"))
    return error;
  return compare_samples(big, (*executable)->chain, *a, *b, *d);
}

}  // namespace

Error run_big(Suite& suite) {
  // A rehearsal computes nothing, and the host may not have the memory.
  if (suite.options().rehearse) return Error::success();
  for (const BigCase& big : kCases) {
    if (suite.out_of_time()) {
      return make_error(ErrorCode::kResourceLimit, "the time limit came before big {}", big.name);
    }
    if (Error error = run_one(suite, big)) return error;
    suite.progress(fmt::format("big {}: {} x {} x {} is correct", big.name, big.m, big.n, big.k),
                   true);
  }
  return Error::success();
}

}  // namespace catenary::gpu_suite
