// SPDX-License-Identifier: Apache-2.0
// Trains a gated grouped MLP for 200 steps of gradient descent. The loss is part of the chain, so
// ctn::gradient() gives the whole backward; an update chain per weight subtracts the gradient from
// f32 weights in place and rounds them to bf16. The same training in float64 runs beside it: the
// loss must fall by kFall, and stay near that of float64: within kShare of it and kShareOfFirst of
// the first loss, since bf16 operands have 8 bits.
#include <array>
#include <map>
#include <utility>

#include "catenary/gradient.hpp"
#include "example.h"

using example::Bf16;

namespace {

constexpr int kSteps = 200;
constexpr double kFall = 20;
constexpr double kShare = 0.02;
constexpr double kShareOfFirst = 0.001;

struct Sizes {
  std::int64_t rows, groups, model, hidden;
  std::int64_t weights() const { return groups * hidden * model; }
  std::int64_t values() const { return rows * groups * model; }
  // The step of gradient descent. The loss is a mean: gradients shrink as it has more columns.
  double rate() const { return static_cast<double>(groups * model) / 16; }
};

// examples/grouped_mlp_train.chain, for any sizes. One loss per group; their sum is the loss.
ctn::Chain build(Sizes size) {
  ctn::Chain chain("grouped_mlp_train");
  const auto x = chain.input("x", ctn::bf16, {size.rows, size.groups, size.model});
  const auto target = chain.input("target", ctn::f32, {size.rows, size.groups, size.model});
  const auto wg = chain.weight("wg", ctn::bf16, {size.groups, size.hidden, size.model});
  const auto wu = chain.weight("wu", ctn::bf16, {size.groups, size.hidden, size.model});
  const auto wd = chain.weight("wd", ctn::bf16, {size.groups, size.model, size.hidden});
  const auto g = ctn::contract("bgk,gnk->bgn", x, wg);
  const auto u = ctn::contract("bgk,gnk->bgn", x, wu);
  const auto h = ctn::cast(ctn::silu(g) * u, ctn::bf16);
  const auto e = ctn::contract("bgn,gkn->bgk", h, wd) - target;
  const auto s = ctn::sum("bgk->g", ctn::square(e));
  const double mean = 1.0 / static_cast<double>(size.values());
  chain.output(s * chain.constant(mean), ctn::f32, {});
  return chain;
}

// w -= rate * d in f32, and its bf16.
ctn::Chain build_update(const std::vector<std::int64_t>& dims, double rate) {
  ctn::Chain chain("update");
  const auto w = chain.input("w", ctn::f32, dims);
  const auto d = chain.input("d", ctn::f32, dims);
  const auto updated = w - d * chain.constant(rate);
  chain.output_in_place(updated, ctn::f32, w);
  chain.output(updated, ctn::bf16);
  return chain;
}

// The layer in float64: its loss and one step of gradient descent.
class Float64 {
 public:
  Float64(Sizes size, std::vector<double> x, std::array<std::vector<double>, 3> weights)
      : size_(size), x_(std::move(x)), w_(std::move(weights)), h_(size.hidden), g_(h_), u_(h_) {}

  // y of row b in group g, from which `h_` and others are kept.
  std::vector<double> forward(std::int64_t b, std::int64_t g) {
    const double* x = &x_[(b * size_.groups + g) * size_.model];
    for (std::int64_t n = 0; n < size_.hidden; ++n) {
      g_[n] = u_[n] = 0;
      for (std::int64_t k = 0; k < size_.model; ++k) {
        g_[n] += x[k] * w_[0][in(g, n, k)];
        u_[n] += x[k] * w_[1][in(g, n, k)];
      }
      h_[n] = example::silu(g_[n]) * u_[n];
    }
    std::vector<double> y(size_.model);
    for (std::int64_t k = 0; k < size_.model; ++k) {
      for (std::int64_t n = 0; n < size_.hidden; ++n) y[k] += h_[n] * w_[2][out(g, k, n)];
    }
    return y;
  }

  // The loss before the step.
  double step(const std::vector<double>& target) {
    double loss = 0;
    std::array<std::vector<double>, 3> d;
    for (auto& gradient : d) gradient.resize(size_.weights());
    for (std::int64_t b = 0; b < size_.rows; ++b) {
      for (std::int64_t g = 0; g < size_.groups; ++g) {
        const std::int64_t row = (b * size_.groups + g) * size_.model;
        std::vector<double> dy = forward(b, g);
        for (std::int64_t k = 0; k < size_.model; ++k) {
          const double error = dy[k] - target[row + k];
          loss += error * error / static_cast<double>(size_.values());
          dy[k] = 2 * error / static_cast<double>(size_.values());
        }
        add_gradients(g, &x_[row], dy, d);
      }
    }
    for (int i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < size_.weights(); ++j) w_[i][j] -= size_.rate() * d[i][j];
    }
    return loss;
  }

 private:
  std::int64_t in(std::int64_t g, std::int64_t n, std::int64_t k) const {
    return (g * size_.hidden + n) * size_.model + k;
  }
  std::int64_t out(std::int64_t g, std::int64_t k, std::int64_t n) const {
    return (g * size_.model + k) * size_.hidden + n;
  }

  void add_gradients(std::int64_t g, const double* x, const std::vector<double>& dy,
                     std::array<std::vector<double>, 3>& d) {
    for (std::int64_t n = 0; n < size_.hidden; ++n) {
      double dh = 0;
      for (std::int64_t k = 0; k < size_.model; ++k) {
        dh += dy[k] * w_[2][out(g, k, n)];
        d[2][out(g, k, n)] += dy[k] * h_[n];
      }
      const double gate = 1 / (1 + std::exp(-g_[n]));
      const double dg = dh * u_[n] * gate * (1 + g_[n] * (1 - gate));
      const double du = dh * g_[n] * gate;
      for (std::int64_t k = 0; k < size_.model; ++k) {
        d[0][in(g, n, k)] += dg * x[k];
        d[1][in(g, n, k)] += du * x[k];
      }
    }
  }

  Sizes size_;
  std::vector<double> x_;
  std::array<std::vector<double>, 3> w_;  // wg, wu, wd
  std::vector<double> h_, g_, u_;         // of the row that forward() computed last
};

// The layer on the device: its tensors, one for each kind and index, and executables.
class Training {
 public:
  Training(const ctn::Engine& engine, const ctn::Gradient& gradient) {
    for (const ctn::GradientChain& part : gradient.chains) {
      Launch launch{engine.prepare(part.chain, /*device=*/0), {}};
      for (const ctn::GradientOperand& operand : part.operands) {
        const Key key{operand.kind, operand.index};
        buffers_.try_emplace(key, 0, static_cast<std::size_t>(operand.bytes));
        launch.tensors.push_back(buffers_.at(key).get());
      }
      add(std::move(launch));
    }
  }

  // `index`: of the parameter in the forward.
  void add_weight(const ctn::Engine& engine, int index, const std::vector<std::int64_t>& dims,
                  double rate, const std::vector<float>& numbers) {
    masters_.emplace_back(0, numbers);
    void* const w = masters_.back().get();
    add({engine.prepare(build_update(dims, rate), 0),
         {w, at(ctn::GradientKind::of_weight, index).get(), w,
          at(ctn::GradientKind::weight, index).get()}});
  }

  ctn::Buffer& at(ctn::GradientKind kind, int index) { return buffers_.at({kind, index}); }

  void step(void* stream) {
    for (const Launch& launch : launches_)
      launch.executable.launch(stream, launch.tensors, {.workspace = workspace_.get()});
  }

 private:
  using Key = std::pair<ctn::GradientKind, int>;
  struct Launch {
    ctn::Executable executable;
    std::vector<const void*> tensors;
  };

  void add(Launch launch) {
    const auto bytes = static_cast<std::size_t>(launch.executable.workspace_bytes());
    if (bytes > workspace_.bytes()) workspace_ = ctn::Buffer(0, bytes);
    launches_.push_back(std::move(launch));
  }

  std::map<Key, ctn::Buffer> buffers_;
  std::vector<ctn::Buffer> masters_;  // weights in f32
  std::vector<Launch> launches_;      // of one step
  ctn::Buffer workspace_{0, 256};
};

template <typename T>
std::vector<double> as_float64(const std::vector<T>& numbers) {
  std::vector<double> result;
  for (const T& number : numbers) result.push_back(example::number(number));
  return result;
}

std::vector<Bf16> as_bf16(const std::vector<float>& numbers) {
  std::vector<Bf16> result;
  for (const float number : numbers) result.push_back(example::to_bf16(number));
  return result;
}

struct Problem {
  std::vector<Bf16> x;
  std::vector<float> target;                  // of a layer with other weights
  std::array<std::vector<float>, 3> weights;  // to start from
};

Problem make_problem(Sizes size) {
  Problem problem;
  problem.x = example::random_numbers<Bf16>(size.values(), 1.5, 1);
  std::array<std::vector<double>, 3> teacher;
  for (int i = 0; i < 3; ++i) {
    const double scale = 1.7 / std::sqrt(static_cast<double>(i < 2 ? size.model : size.hidden));
    problem.weights[i] = example::random_numbers<float>(size.weights(), scale, 2 + i);
    teacher[i] = example::random_numbers<double>(size.weights(), scale, 12 + i);
  }
  Float64 layer(size, as_float64(problem.x), teacher);
  for (std::int64_t b = 0; b < size.rows; ++b) {
    for (std::int64_t g = 0; g < size.groups; ++g) {
      for (const double y : layer.forward(b, g)) problem.target.push_back(static_cast<float>(y));
    }
  }
  return problem;
}

void train(const ctn::Engine& engine, const ctn::Gradient& gradient, Sizes size,
           example::Check& check) {
  const Problem problem = make_problem(size);
  Training training(engine, gradient);
  training.at(ctn::GradientKind::input, 0).upload(problem.x.data());
  training.at(ctn::GradientKind::input, 1).upload(problem.target.data());
  const std::vector<float> ones(size.groups, 1.0f);
  training.at(ctn::GradientKind::of_output, 0).upload(ones.data());
  for (int i = 0; i < 3; ++i) {
    const int parameter = 2 + i;
    training.at(ctn::GradientKind::weight, parameter).upload(as_bf16(problem.weights[i]).data());
    const std::vector<std::int64_t> dims =
        i < 2 ? std::vector<std::int64_t>{size.groups, size.hidden, size.model}
              : std::vector<std::int64_t>{size.groups, size.model, size.hidden};
    training.add_weight(engine, parameter, dims, size.rate(), problem.weights[i]);
  }
  Float64 exact(size, as_float64(problem.x),
                {as_float64(problem.weights[0]), as_float64(problem.weights[1]),
                 as_float64(problem.weights[2])});
  const std::vector<double> target(problem.target.begin(), problem.target.end());
  const ctn::Stream stream(0);
  double first = 0, last = 0, largest = 0;
  for (int step = 0; step < kSteps; ++step) {
    training.step(stream.get());
    std::vector<float> losses(size.groups);
    training.at(ctn::GradientKind::output, 0).download(losses.data());
    last = 0;
    for (const float loss : losses) last += loss;
    if (step == 0) first = last;
    const double want = exact.step(target);
    largest = std::max(largest, std::fabs(last - want));
    check.within("loss", step, last, want, kShare * want + kShareOfFirst * first);
    if (step % 20 == 0 || step + 1 == kSteps)
      std::printf("step %3d: loss %.6f, in float64 %.6f\n", step, last, want);
  }
  std::printf("largest difference %.6f\n", largest);
  check.within("last loss", 0, last, 0, first / kFall);
}

int program() {
  constexpr Sizes kFull{64, 4, 32, 128};
  constexpr Sizes kSmall{16, 2, 24, 32};
  example::require_same(build(kSmall), "grouped_mlp_train.chain");
  const Sizes size = example::choose_sizes(kFull, kSmall);
  const ctn::Gradient gradient =
      ctn::gradient(build(size), {.wanted = {"wg", "wu", "wd"}, .f32_weights = true});
  const ctn::Engine engine;
  example::Check check;
  if (!example::has_device()) {
    check.near("chains", 0, static_cast<double>(gradient.chains.size()), 2);
    return example::compile_only(engine, gradient.chains[1].chain, check);
  }
  train(engine, gradient, size, check);
  return example::finish(check);
}

}  // namespace

int main() { return example::run(program); }
