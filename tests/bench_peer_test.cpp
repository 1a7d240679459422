// SPDX-License-Identifier: Apache-2.0
// A peer's steps give what the case's chain gives: both are evaluated by the reference on the same
// data, step by step, each step rounding what it writes, as the peer does on a device.
#include <doctest/doctest.h>

#include <cmath>

#include "bench/cases.h"
#include "bench/check.h"
#include "ir/fill.h"
#include "ir/text.h"

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
Hosts parameters(const VerifiedChain& chain) {
  Hosts hosts;
  u64 seed = 1;
  for (ValueId id : chain.parameters()) {
    Host host = empty_host(chain.info(id).type);
    REQUIRE(host.type.dtype == DType::kBF16);
    Fill fill{FillKind::kNormal, ++seed};
    if (chain.value(id).role == Role::kWeight && host.type.rank() == 2) fill.scale = 1.0 / 64;
    fill_tensor(host.type, host.bytes, fill);
    hosts[chain.value(id).name] = std::move(host);
  }
  return hosts;
}

// Evaluates `chain`, whose parameters are the named tensors in order.
Host evaluated(const VerifiedChain& chain, const std::vector<const Host*>& arguments) {
  REQUIRE(chain.parameters().size() == arguments.size());
  ReferenceInputs inputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    REQUIRE(chain.info(chain.parameters()[i]).type.shape == arguments[i]->type.shape);
    inputs.parameters.push_back({arguments[i]->type, arguments[i]->bytes.data()});
  }
  Expected<Reference> reference = Reference::create(chain, inputs);
  REQUIRE(reference);
  const std::vector<Interval> values = reference->evaluate()[0];
  Host out = empty_host(chain.output_type(0));
  for (size_t i = 0; i < values.size(); ++i) {
    store_element(DType::kBF16, out.bytes.data(), static_cast<i64>(i), values[i].value);
  }
  return out;
}

Host run(const PeerProduct& product, const Hosts& hosts) {
  const LtProblem& p = product.problem;
  REQUIRE(p == dense_problem(p.dtype, p.m, p.n, p.k, p.epilogue));
  std::vector<const Host*> arguments = {&hosts.at(product.a), &hosts.at(product.b)};
  if (p.epilogue == LtEpilogue::kNone) {
    return evaluated(verified(linear_text(p.m, p.n, p.k)), arguments);
  }
  REQUIRE(p.epilogue == LtEpilogue::kBias);
  arguments.push_back(&hosts.at(product.bias));
  return evaluated(
      verified(
          fmt::format("chain biased(input a: bf16[{0}, {2}], weight b: bf16[{1}, {2}], weight c: "
                      "bf16[{1}]) {{\n"
                      "  h = contract \"mk,nk->mn\"(a, b)\n  y = add(h, c)\n  return y: bf16\n}}\n",
                      p.m, p.n, p.k)),
      arguments);
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
    most = std::max(most, std::fabs(off));
  }
  return most / std::sqrt(squares / static_cast<double>(count));
}

void check_peer(const Case& spec) {
  INFO(spec.name);
  const VerifiedChain chain = verified(spec.chain);
  Hosts hosts = parameters(chain);
  std::vector<const Host*> arguments;
  for (ValueId id : chain.parameters()) arguments.push_back(&hosts.at(chain.value(id).name));
  const Host want = evaluated(chain, arguments);
  for (const PeerStep& step : spec.peer.steps) {
    if (const auto* product = std::get_if<PeerProduct>(&step)) {
      hosts[product->d] = run(*product, hosts);
      continue;
    }
    const VerifiedChain pointwise = verified(std::get<PeerPointwise>(step).chain);
    arguments.clear();
    for (ValueId id : pointwise.parameters()) {
      arguments.push_back(&hosts.at(pointwise.value(id).name));
    }
    hosts[pointwise.value(pointwise.chain().outputs[0].value).name] =
        evaluated(pointwise, arguments);
  }
  const std::string output = chain.value(chain.chain().outputs[0].value).name;
  REQUIRE(hosts.count(output) == 1);
  CHECK(distance(hosts.at(output), want) < kCoarseLimit);
}

}  // namespace

TEST_CASE("the peers of small batches compute what the chains compute") {
  int checked = 0;
  for (const Case& spec : all_cases()) {
    if (!matches(spec.name, "small/1x2048x4096/*,small_bias_silu/1x*,mlp/1x*")) continue;
    check_peer(spec);
    ++checked;
  }
  CHECK(checked == 3);
}
