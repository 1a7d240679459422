// SPDX-License-Identifier: Apache-2.0
// Forward and backward of a gated MLP: ctn::gradient() gives three chains, and its table says which
// tensor each operand is. The dgrad chain is launched first; the wgrad chain could wait, as
// pipelines want it. Every gradient is compared with one that is written out here.
#include <map>
#include <utility>

#include "catenary/gradient.hpp"
#include "example.h"

using example::Bf16;
using example::number;

namespace {

struct Sizes {
  std::int64_t rows, model, hidden;
};

ctn::Chain build(Sizes size) {
  ctn::Chain chain("gated_mlp");
  const auto x = chain.input("x", ctn::bf16, {size.rows, size.model});
  const auto wg = chain.weight("wg", ctn::bf16, {size.hidden, size.model});
  const auto wu = chain.weight("wu", ctn::bf16, {size.hidden, size.model});
  const auto wd = chain.weight("wd", ctn::bf16, {size.model, size.hidden});
  const auto g = ctn::linear(x, wg, "g");
  const auto u = ctn::linear(x, wu, "u");
  const auto h = ctn::cast(ctn::silu(g) * u, ctn::bf16, "h");
  chain.output(ctn::linear(h, wd, "y"), ctn::bf16);
  return chain;
}

// The tensors of all chains: one for each kind and index.
class Tensors {
 public:
  void set(ctn::GradientKind kind, int index, const std::vector<Bf16>& data) {
    buffers_.emplace(Key{kind, index}, ctn::Buffer(0, data));
  }
  const ctn::Buffer& at(ctn::GradientKind kind, int index) const {
    return buffers_.at({kind, index});
  }

  // Launches the chain; tensors that it writes are allocated.
  void launch(const ctn::Engine& engine, const ctn::GradientChain& part, void* stream) {
    const ctn::Executable executable = engine.prepare(part.chain, /*device=*/0);
    std::vector<const void*> addresses;
    for (const ctn::GradientOperand& operand : part.operands) {
      const Key key{operand.kind, operand.index};
      if (operand.is_output) buffers_.emplace(key, ctn::Buffer(0, operand.bytes));
      addresses.push_back(buffers_.at(key).get());
    }
    const ctn::Buffer workspace(0, executable.workspace_bytes());
    executable.launch(stream, addresses, {.workspace = workspace.get()});
    std::vector<char> wait(at(part.operands.back().kind, part.operands.back().index).bytes());
    at(part.operands.back().kind, part.operands.back().index).download(wait.data());
  }

 private:
  using Key = std::pair<ctn::GradientKind, int>;
  std::map<Key, ctn::Buffer> buffers_;
};

// The gradients of row r, rounded where the chains round.
struct Row {
  std::vector<double> h, dg, du, dx;
};

struct Data {
  Sizes size;
  std::vector<Bf16> x, wg, wu, wd, dy;
};

Row row_of(const Data& data, std::int64_t r) {
  const auto [rows, model, hidden] = data.size;
  Row row{std::vector<double>(hidden), std::vector<double>(hidden), std::vector<double>(hidden),
          std::vector<double>(model)};
  const auto rounded = [](double value) { return number(example::to_bf16(value)); };
  for (std::int64_t n = 0; n < hidden; ++n) {
    const double g = rounded(example::dot(&data.x[r * model], &data.wg[n * model], model));
    const double u = rounded(example::dot(&data.x[r * model], &data.wu[n * model], model));
    double dh = 0;
    for (std::int64_t k = 0; k < model; ++k) {
      dh += number(data.dy[r * model + k]) * number(data.wd[k * hidden + n]);
    }
    dh = rounded(dh);
    const double gate = 1 / (1 + std::exp(-g));
    row.h[n] = rounded(g * gate * u);
    row.dg[n] = rounded(dh * u * gate * (1 + g * (1 - gate)));
    row.du[n] = rounded(dh * g * gate);
    for (std::int64_t k = 0; k < model; ++k) {
      row.dx[k] +=
          row.dg[n] * number(data.wg[n * model + k]) + row.du[n] * number(data.wu[n * model + k]);
    }
  }
  return row;
}

// The gradients on the device against those of the rows.
void check_gradients(const Data& data, const Tensors& tensors, example::Check& check) {
  const auto [rows, model, hidden] = data.size;
  std::vector<Bf16> dx(rows * model);
  std::vector<float> dwg(hidden * model), dwu(hidden * model), dwd(model * hidden);
  tensors.at(ctn::GradientKind::of_input, 0).download(dx.data());
  tensors.at(ctn::GradientKind::of_weight, 1).download(dwg.data());
  tensors.at(ctn::GradientKind::of_weight, 2).download(dwu.data());
  tensors.at(ctn::GradientKind::of_weight, 3).download(dwd.data());
  std::vector<double> want_g(hidden * model), want_u(hidden * model), want_d(model * hidden);
  for (std::int64_t r = 0; r < rows; ++r) {
    const Row row = row_of(data, r);
    for (std::int64_t k = 0; k < model; ++k) {
      check.near("dx", r * model + k, number(dx[r * model + k]), row.dx[k]);
      const double x = number(data.x[r * model + k]);
      const double dy = number(data.dy[r * model + k]);
      for (std::int64_t n = 0; n < hidden; ++n) {
        want_g[n * model + k] += row.dg[n] * x;
        want_u[n * model + k] += row.du[n] * x;
        want_d[k * hidden + n] += dy * row.h[n];
      }
    }
  }
  for (std::int64_t i = 0; i < hidden * model; ++i) {
    check.near("dwg", i, dwg[i], want_g[i]);
    check.near("dwu", i, dwu[i], want_u[i]);
    check.near("dwd", i, dwd[i], want_d[i]);
  }
}

int program() {
  constexpr Sizes kFull{512, 256, 384};
  constexpr Sizes kSmall{24, 40, 56};
  const Sizes size = example::choose_sizes(kFull, kSmall);
  const ctn::Chain chain = build(size);
  const ctn::Gradient gradient = ctn::gradient(chain, {.f32_weights = true});
  std::printf("%zu chains, %lld bytes saved\n", gradient.chains.size(),
              static_cast<long long>(gradient.saved_bytes));
  for (const ctn::GradientChain& part : gradient.chains)
    std::printf("%s", part.chain.text().c_str());

  const Data data{size,
                  example::random_numbers<Bf16>(size.rows * size.model, 1, 1),
                  example::random_numbers<Bf16>(size.hidden * size.model, 0.1, 2),
                  example::random_numbers<Bf16>(size.hidden * size.model, 0.1, 3),
                  example::random_numbers<Bf16>(size.model * size.hidden, 0.1, 4),
                  example::random_numbers<Bf16>(size.rows * size.model, 0.1, 5)};
  const ctn::Engine engine;
  example::Check check;
  if (!example::has_device()) {
    check.near("chains", 0, static_cast<double>(gradient.chains.size()), 3);
    return example::compile_only(engine, gradient.chains[1].chain, check);
  }
  Tensors tensors;
  tensors.set(ctn::GradientKind::input, 0, data.x);
  tensors.set(ctn::GradientKind::weight, 1, data.wg);
  tensors.set(ctn::GradientKind::weight, 2, data.wu);
  tensors.set(ctn::GradientKind::weight, 3, data.wd);
  tensors.set(ctn::GradientKind::of_output, 0, data.dy);
  const ctn::Stream stream(0);
  for (const ctn::GradientChain& part : gradient.chains) {
    tensors.launch(engine, part, stream.get());
  }
  check_gradients(data, tensors, check);
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
