// SPDX-License-Identifier: Apache-2.0
// A peer's steps give what the case's chain gives: both are evaluated by the reference on the same
// data, step by step, each step rounding what it writes, as the peer does on a device.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "bench/cases/layer.h"
#include "bench/tuner.h"
#include "ir/random/fill.h"
#include "ir/text/text.h"

using namespace catenary;
using namespace catenary::bench;

namespace {

struct Host {
  TensorType type;
  std::vector<std::byte> bytes;
};
using Hosts = std::map<std::string, Host>;

VerifiedChain verified(const std::string& text) {
  INFO(text);
  Expected<Chain> chain = parse(text);
  REQUIRE_MESSAGE(chain, take_report(chain.takeError()).message);
  Expected<VerifiedChain> result = verify(std::move(*chain));
  REQUIRE_MESSAGE(result, take_report(result.takeError()).message);
  return std::move(*result);
}

Host empty_host(const TensorType& type) {
  return {type, std::vector<std::byte>(static_cast<size_t>(num_elements(type) * 2))};
}

// Random numbers for the parameters; matrices are scaled about as the benchmark scales them.
Hosts parameters(const VerifiedChain& chain, llvm::ArrayRef<i32> ends) {
  Hosts hosts;
  u64 seed = 1;
  for (ValueId id : chain.parameters()) {
    Host host = empty_host(chain.info(id).type);
    if (host.type.dtype == DType::kI32) {
      host.bytes.resize(ends.size() * sizeof(i32));
      std::memcpy(host.bytes.data(), ends.data(), host.bytes.size());
      hosts[chain.value(id).name] = std::move(host);
      continue;
    }
    Fill fill{FillKind::kNormal, ++seed};
    if (chain.value(id).role == Role::kWeight && host.type.rank() == 2) fill.scale = 1.0 / 64;
    fill_tensor(host.type, host.bytes, fill);
    hosts[chain.value(id).name] = std::move(host);
  }
  return hosts;
}

// Evaluates `chain`, whose parameters are the named tensors in order.
// Every output.
std::vector<Host> evaluated(const VerifiedChain& chain, const std::vector<const Host*>& arguments) {
  REQUIRE(chain.parameters().size() == arguments.size());
  ReferenceInputs inputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    REQUIRE(chain.info(chain.parameters()[i]).type.shape == arguments[i]->type.shape);
    inputs.parameters.push_back({arguments[i]->type, arguments[i]->bytes.data()});
  }
  Expected<Reference> reference = Reference::create(chain, inputs);
  REQUIRE(reference);
  std::vector<Host> outputs;
  for (const std::vector<Interval>& values : reference->evaluate()) {
    Host& out =
        outputs.emplace_back(empty_host(chain.output_type(static_cast<int>(outputs.size()))));
    for (size_t i = 0; i < values.size(); ++i) {
      store_element(DType::kBF16, out.bytes.data(), static_cast<i64>(i), values[i].value);
    }
  }
  return outputs;
}

// D = A B^T + bias, read and written as the problem's strides say, by plain loops. That they stay
// inside their tensors is bench_test's.
void run(const PeerGemm& product, Hosts& hosts) {
  const LtProblem& p = product.problem;
  REQUIRE((p.epilogue == LtEpilogue::kNone || p.epilogue == LtEpilogue::kBias));
  const std::byte* left = hosts.at(product.a).bytes.data();
  const std::byte* right = hosts.at(product.b).bytes.data();
  const std::byte* bias = product.bias.empty() ? nullptr : hosts.at(product.bias).bytes.data();
  const auto element = [&](i64 g, i64 m, i64 n) {
    double sum = bias == nullptr ? 0 : load_element(DType::kBF16, bias, product.bias_offset + n);
    const i64 a = product.a_offset + g * p.batch_a + m * (p.a_m_major ? 1 : p.row_a);
    const i64 b = product.b_offset + g * p.batch_b + n * (p.b_n_major ? 1 : p.row_b);
    for (i64 k = 0; k < p.k; ++k) {
      sum += load_element(DType::kBF16, left, a + k * (p.a_m_major ? p.row_a : 1)) *
             load_element(DType::kBF16, right, b + k * (p.b_n_major ? p.row_b : 1));
    }
    return sum;
  };
  std::byte* out = hosts.at(product.d).bytes.data();
  for (i64 g = 0; g < p.batch; ++g) {
    for (i64 m = 0; m < p.m; ++m) {
      for (i64 n = 0; n < p.n; ++n) {
        store_element(DType::kBF16, out, product.d_offset + g * p.batch_d + m * p.row_d + n,
                      element(g, m, n));
      }
    }
  }
}

// Elements that no step has written.
void poison(Host& host) {
  for (std::byte& byte : host.bytes) byte = std::byte{0xff};
}

// The largest distance in root mean squares.
double distance(const Host& got, const Host& want) {
  double squares = 0;
  double most = 0;
  const i64 count = num_elements(want.type);
  for (i64 i = 0; i < count; ++i) {
    const double right = load_element(DType::kBF16, want.bytes.data(), i);
    const double off = load_element(DType::kBF16, got.bytes.data(), i) - right;
    squares += right * right;
    if (!std::isfinite(off)) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::fabs(off));
  }
  return most / std::sqrt(squares / static_cast<double>(count));
}

void check_peer(const Case& spec, const Peer& peer) {
  INFO(spec.name << ": " << peer.name);
  const VerifiedChain chain = verified(spec.chain);
  Hosts hosts = parameters(chain, spec.ends);
  std::vector<const Host*> arguments;
  for (ValueId id : chain.parameters()) arguments.push_back(&hosts.at(chain.value(id).name));
  const std::vector<Host> want = evaluated(chain, arguments);
  std::vector<std::string> outputs;
  for (const Output& output : chain.chain().outputs) {
    outputs.push_back(chain.value(output.value).name);
    hosts[outputs.back()] = empty_host(want[outputs.size() - 1].type);
    poison(hosts.at(outputs.back()));
  }
  for (const PeerScratch& scratch : peer.scratch) hosts[scratch.name] = empty_host(scratch.type);
  for (const PeerStep& step : peer.steps) {
    if (const auto* product = std::get_if<PeerGemm>(&step)) {
      run(*product, hosts);
      continue;
    }
    if (const auto* zeros = std::get_if<PeerZeros>(&step)) {
      std::memset(hosts.at(zeros->d).bytes.data() + 2 * zeros->offset, 0,
                  static_cast<size_t>(2 * zeros->elements));
      continue;
    }
    const VerifiedChain pointwise = verified(std::get<PeerPointwise>(step).chain);
    arguments.clear();
    for (ValueId id : pointwise.parameters()) {
      arguments.push_back(&hosts.at(pointwise.value(id).name));
    }
    std::vector<Host> results = evaluated(pointwise, arguments);
    for (size_t i = 0; i < results.size(); ++i) {
      hosts[pointwise.value(pointwise.chain().outputs[i].value).name] = std::move(results[i]);
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    CHECK_MESSAGE(distance(hosts.at(outputs[i]), want[i]) < kCoarseLimit, outputs[i]);
  }
}

}  // namespace

TEST_CASE("the peers of small batches compute what the chains compute") {
  int checked = 0;
  for (const Case& spec : all_cases()) {
    if (!matches(spec.name, "small/1x2048x4096/*,small_bias_silu/1x*,mlp/1x*")) continue;
    check_peer(spec, spec.peer);
    ++checked;
  }
  CHECK(checked == 3);
}

TEST_CASE("the peers of several contractions over one activation compute all outputs") {
  check_peer(qkv_case(3, {24, 16, 8}), qkv_case(3, {24, 16, 8}).peer);
  check_peer(wgrads_case(24, 16, 8), wgrads_case(24, 16, 8).peer);
}

TEST_CASE("the peers of products whose epilogue reads tensors compute what the chains compute") {
  for (const i64 groups : {1, 3}) {
    for (const Case& spec : tensor_epilogue_cases(5, groups, 16, 24)) check_peer(spec, spec.peer);
  }
}

TEST_CASE("the peers of grouped layers and their gradients compute what the chains compute") {
  for (const Case& spec : grouped_cases(5, 3, 16, 24)) {
    check_peer(spec, spec.peer);
    if (!spec.second_peer.name.empty()) check_peer(spec, spec.second_peer);
  }
}

TEST_CASE("the peers of experts compute what the chains compute, empty experts too") {
  for (const Case& spec : ragged_cases("some", {3, 0, 8, 1, 0}, 16, 24)) {
    check_peer(spec, spec.peer);
  }
}

TEST_CASE("the peers of layers compute what the chains compute, with every epilogue but GELU") {
  using Kind = Layer::Kind;
  using Epilogue = Layer::Epilogue;
  std::vector<Layer> layers;
  for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kBias, Epilogue::kBiasSilu}) {
    layers.push_back({Kind::kDense, "dense", DType::kBF16, epilogue, 5, 16, 24});
    for (const bool rows_first : {true, false}) {
      layers.push_back(
          {Kind::kGrouped, "grouped", DType::kBF16, epilogue, 5, 16, 24, 3, rows_first});
    }
  }
  layers.push_back({Kind::kDual, "dual", DType::kBF16, Epilogue::kSwiglu, 5, 16, 24});
  for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kSwiglu}) {
    layers.push_back(
        {Kind::kExperts, "experts", DType::kBF16, epilogue, 12, 16, 24, 4, false, {3, 0, 8, 1}});
  }
  for (const Layer& layer : layers) {
    const Case spec = layer_case(layer);
    check_peer(spec, spec.peer);
    if (!spec.second_peer.name.empty()) check_peer(spec, spec.second_peer);
  }
}
