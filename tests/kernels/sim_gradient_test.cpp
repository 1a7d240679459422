// SPDX-License-Identifier: Apache-2.0
// Forward and backward in the simulator: every chain against the reference's intervals on the data
// that the chains before it wrote, and the gradients against those of the reference in f32.
#include <doctest/doctest.h>

#include <cmath>

#include "compiler/compile/host_compiler.h"
#include "runtime/driver/simulated_driver.h"
#include "tests/support/gradient_chain.h"
#include "tests/support/gradient_check.h"
#include "tools/check_gradient.h"

using namespace catenary;
using namespace catenary::tools;

namespace {

bool has_compiler() {
  auto compiler = HostCompiler::get();
  if (compiler) return true;
  llvm::consumeError(compiler.takeError());
  MESSAGE("skipped: no host compiler");
  return false;
}

template <typename T>
T must(Expected<T> result) {
  if (!result) FAIL(take_report(result.takeError()).message);
  return std::move(*result);
}

Execution simulated(const VerifiedChain& chain, const ExecutionOptions& options) {
  Execution execution = must(prepare_inputs(chain, options));
  REQUIRE(execution.device == DeviceKind::kSim);
  return execution;
}

// ||a - b|| / ||b||
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

// Contiguous gradients by kind and index, as numbers.
using Gradients = std::map<std::pair<GradientKind, int>, std::vector<double>>;

Gradients gradients_of(const Gradient& gradient, const GradientTensors& tensors, i64 symbol) {
  Gradients result;
  for (const GradientChain& part : gradient.chains) {
    const size_t parameters = part.chain.parameters().size();
    for (size_t i = parameters; i < part.operands.size(); ++i) {
      const GradientOperand& operand = part.operands[i];
      if (operand.kind != GradientKind::kInputGradient &&
          operand.kind != GradientKind::kWeightGradient) {
        continue;
      }
      const TensorType type =
          with_symbol(part.chain.output_type(static_cast<int>(i - parameters)), symbol);
      std::vector<double>& values = result[{operand.kind, operand.index}];
      const auto bytes = tensors.bytes(operand.kind, operand.index);
      for (i64 e = 0; e < num_elements(type); ++e) {
        values.push_back(load_element(type.dtype, bytes.data(), e));
      }
    }
  }
  return result;
}

// The bytes of `from` as f32, element by element.
std::vector<std::byte> as_f32(DType dtype, llvm::ArrayRef<std::byte> from) {
  const size_t count = from.size() / static_cast<size_t>(dtype_bytes(dtype));
  std::vector<std::byte> to(count * 4);
  for (size_t i = 0; i < count; ++i) {
    const auto at = static_cast<i64>(i);
    store_element(DType::kF32, to.data(), at, load_element(dtype, from.data(), at));
  }
  return to;
}

// The gradients of the chain in f32 by the reference, on the same numbers: nothing is rounded to a
// narrow dtype but parameters and output gradients.
Gradients unrounded_gradients(const VerifiedChain& chain, const ChainData& data,
                              const GradientTensors& tensors) {
  const VerifiedChain exact = must(verify(f32_chain(chain.chain())));
  GradientOptions options;
  options.save_f32 = true;
  const Gradient gradient = must(make_gradient(exact, options));
  ChainData own = fill_chain(exact, data.inputs.symbol, FillKind::kNormal, 1);
  for (size_t p = 0; p < own.buffers.size(); ++p) {
    const DType dtype = data.inputs.parameters[p].type.dtype;
    own.buffers[p] = dtype == DType::kI32 ? data.buffers[p] : as_f32(dtype, data.buffers[p]);
    own.inputs.parameters[p].data = own.buffers[p].data();
  }
  GradientTensors own_tensors(gradient, own, 1);
  for (size_t i = 0; i < chain.chain().outputs.size(); ++i) {
    const int output = static_cast<int>(i);
    own_tensors.set(GradientKind::kOutputGradient, output,
                    as_f32(chain.output_type(output).dtype,
                           tensors.bytes(GradientKind::kOutputGradient, output)));
  }
  for (size_t c = 0; c < gradient.chains.size(); ++c) {
    const Reference reference =
        must(Reference::create(gradient.chains[c].chain, own_tensors.inputs(c)));
    const auto values = reference.evaluate(1);
    for (size_t o = 0; o < values.size(); ++o) own_tensors.keep(c, o, values[o]);
  }
  return gradients_of(gradient, own_tensors, data.inputs.symbol);
}

// Runs forward and backward of a chain, and compares each kernel's results with the reference of
// its chain and the gradients with those of unrounded values.
void check_golden(const char* name, Recompute recompute) {
  INFO(name << ", recompute " << static_cast<int>(recompute));
  const VerifiedChain chain = gradient_chain(name);
  ExecutionOptions options;
  options.device = "sim";
  options.no_cache = true;
  Execution execution = simulated(chain, options);
  GradientOptions gradient_options;
  gradient_options.f32_weights = true;
  gradient_options.recompute = recompute;
  const GradientExecution loaded = must(load_gradient(options, gradient_options, execution));
  for (u64 seed = 1; seed <= 2; ++seed) {
    if (Error error = seed_execution(execution, options, seed)) {
      FAIL(take_report(std::move(error)).message);
    }
    GradientTensors tensors(loaded.gradient, execution.data, seed);
    for (const GradientRow& row : must(check_gradient_rows(loaded, tensors))) {
      INFO(row.chain, " ", row.name, " ", to_string(row.result));
      CHECK(row.result.ok());
    }
    const Gradients got = gradients_of(loaded.gradient, tensors, execution.symbol);
    const Gradients want = unrounded_gradients(chain, execution.data, tensors);
    for (const auto& [key, values] : want) {
      CAPTURE(key.second);
      CHECK(distance(got.at(key), values) < 0x1p-6);
    }
  }
}

}  // namespace

TEST_CASE("forward and backward of the golden chains") {
  if (!has_compiler()) return;
  for (const char* name : kGradientChains) check_golden(name, Recompute::kNone);
}

TEST_CASE("the operands that the forward stores are saved") {
  if (!has_compiler()) return;
  for (const char* name : {"gated_mlp", "gelu_mlp"}) check_golden(name, Recompute::kUnstored);
}
