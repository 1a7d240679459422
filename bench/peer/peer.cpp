// SPDX-License-Identifier: Apache-2.0
#include "bench/peer/peer.h"

namespace catenary::bench {
namespace {

// A chain of ours, one GEMM with its arenas, or zeros written to an arena.
struct Step {
  std::shared_ptr<const BoundChain> pointwise;
  std::shared_ptr<const LtMatmul> matmul;
  const Session* zeros = nullptr;  // whose stream writes them
  i64 zero_bytes = 0;
  int algorithm = 0;
  const TensorArena* a = nullptr;
  const TensorArena* b = nullptr;
  const TensorArena* d = nullptr;
  const TensorArena* bias = nullptr;
  const TensorArena* scale_a = nullptr;
  const TensorArena* scale_b = nullptr;
  i64 a_bytes = 0, b_bytes = 0, d_bytes = 0, bias_bytes = 0;  // offsets

  // `by`: the algorithm of a GEMM.
  Error run(int by, int copy) const {
    if (pointwise) return pointwise->launch(copy);
    if (zeros != nullptr) {
      const auto at = reinterpret_cast<cuda::DevicePtr>(d->at(copy, d_bytes));
      return zeros->check(
          zeros->api().memset_d8_async(at, 0, static_cast<size_t>(zero_bytes), zeros->stream()),
          "writing zeros");
    }
    if (scale_a != nullptr) {
      if (Error error = matmul->set_scales(scale_a->at(copy, 0), scale_b->at(copy, 0)))
        return error;
    }
    return matmul->run(by, a->at(copy, a_bytes), b->at(copy, b_bytes),
                       bias == nullptr ? nullptr : bias->at(copy, bias_bytes),
                       d->at(copy, d_bytes));
  }
};

struct State {
  Tensors scratch;
  std::vector<Step> steps;

  Error launch(int copy) const {
    for (const Step& step : steps) {
      if (Error error = step.run(step.algorithm, copy)) return error;
    }
    return Error::success();
  }
};

Expected<const TensorArena*> find(const Tensors& tensors, const Tensors& scratch,
                                  const std::string& name) {
  for (const Tensors* among : {&tensors, &scratch}) {
    const auto found = among->find(name);
    if (found != among->end()) return &found->second;
  }
  return make_error(ErrorCode::kInternal, "a peer names the tensor '{}', which does not exist",
                    name);
}

Expected<Step> make_gemm(const CublasLt& lt, const PeerGemm& product, const Tensors& tensors,
                         const State& state, int algorithms) {
  Step step;
  for (auto [name, out] : {std::pair{&product.a, &step.a},
                           {&product.b, &step.b},
                           {&product.d, &step.d},
                           {&product.bias, &step.bias},
                           {&product.scale_a, &step.scale_a},
                           {&product.scale_b, &step.scale_b}}) {
    if (name->empty()) continue;
    auto arena = find(tensors, state.scratch, *name);
    if (!arena) return arena.takeError();
    *out = *arena;
  }
  const i64 width = dtype_bytes(product.problem.dtype);
  step.a_bytes = product.a_offset * width;
  step.b_bytes = product.b_offset * width;
  step.d_bytes = product.d_offset * dtype_bytes(product.problem.d_dtype());
  step.bias_bytes = product.bias_offset * width;
  // Equal problems share one contest.
  for (const Step& known : state.steps) {
    if (known.matmul && known.matmul->problem() == product.problem) {
      step.matmul = known.matmul;
      step.algorithm = known.algorithm;
      return step;
    }
  }
  auto matmul = lt.matmul(product.problem, algorithms,
                          step.bias == nullptr ? nullptr : step.bias->at(0, step.bias_bytes),
                          step.scale_a == nullptr ? nullptr : step.scale_a->at(0, 0),
                          step.scale_b == nullptr ? nullptr : step.scale_b->at(0, 0));
  if (!matmul) return matmul.takeError();
  step.matmul = std::move(*matmul);
  step.algorithm = -1;
  return step;
}

Expected<Step> make_pointwise(const Session& session, const PeerPointwise& pointwise,
                              const Tensors& tensors, int copies, const State& state) {
  Expected<VerifiedChain> verified = verified_chain(pointwise.chain);
  if (!verified) return verified.takeError();
  // BoundChain looks up tensors in one map, and keeps only addresses.
  Tensors merged;
  for (const Tensors* among : std::initializer_list<const Tensors*>{&tensors, &state.scratch}) {
    for (const auto& [name, arena] : *among) {
      TensorArena& view = merged[name];
      view.type = arena.type;
      view.copy_bytes = arena.copy_bytes;
      view.borrowed = arena.base();
    }
  }
  auto bound = BoundChain::make(session, *verified, {}, merged, copies);
  if (!bound) return bound.takeError();
  Step step;
  step.pointwise = std::move(*bound);
  return step;
}

Expected<Step> make_zeros(const Session& session, const PeerZeros& zeros, const Tensors& tensors,
                          const State& state) {
  auto arena = find(tensors, state.scratch, zeros.d);
  if (!arena) return arena.takeError();
  const i64 width = dtype_bytes((*arena)->type.dtype);
  Step step;
  step.zeros = &session;
  step.zero_bytes = zeros.elements * width;
  step.d = *arena;
  step.d_bytes = zeros.offset * width;
  return step;
}

Expected<Step> make_step(const Session& session, const CublasLt& lt, const PeerStep& wanted,
                         const Tensors& tensors, int copies, const State& state, int algorithms) {
  if (const auto* product = std::get_if<PeerGemm>(&wanted)) {
    return make_gemm(lt, *product, tensors, state, algorithms);
  }
  if (const auto* zeros = std::get_if<PeerZeros>(&wanted)) {
    return make_zeros(session, *zeros, tensors, state);
  }
  return make_pointwise(session, std::get<PeerPointwise>(wanted), tensors, copies, state);
}

// Sets the fastest algorithm of `step`'s GEMM.
Error find_algorithm(const Session& session, int copies, const PeerOptions& options, Step& step,
                     std::string& config) {
  TimingOptions timing = options.timing;
  timing.copies = copies;
  auto best = best_algorithm(
      session, *step.matmul, [&](int by, int copy) { return step.run(by, copy); }, timing);
  if (!best) return best.takeError();
  step.algorithm = best->algorithm;
  config += fmt::format("{}algorithm {} of {}", config.empty() ? "" : ", ", best->algorithm + 1,
                        step.matmul->num_algorithms());
  return Error::success();
}

}  // namespace

Expected<BestAlgorithm> best_algorithm(const Session& session, const LtMatmul& matmul,
                                       const std::function<Error(int algorithm, int copy)>& run,
                                       const TimingOptions& options) {
  std::vector<int> running;
  std::vector<Contender> contenders;
  ErrorReport last;
  for (int i = 0; i < matmul.num_algorithms(); ++i) {
    Error error = run(i, 0);
    if (!error) error = session.synchronize();
    if (error) {
      // An algorithm that does not run is skipped; a broken context ends the contest.
      last = take_report(std::move(error));
      if (last.code == ErrorCode::kContextPoisoned) break;
      continue;
    }
    running.push_back(i);
    contenders.push_back(
        {fmt::format("algorithm {}", i), [&run, i](int copy) { return run(i, copy); }});
  }
  if (last.code == ErrorCode::kContextPoisoned || running.empty()) {
    return make_error_text(last.code, last.message);
  }
  auto timings = time_contenders(session, contenders, options);
  if (!timings) return timings.takeError();
  size_t best = 0;
  for (size_t i = 1; i < timings->size(); ++i) {
    if ((*timings)[i].us.median < (*timings)[best].us.median) best = i;
  }
  return BestAlgorithm{running[best], (*timings)[best]};
}

Expected<ReadyPeer> make_peer(const Session& session, const CublasLt& lt, const Peer& peer,
                              const Tensors& tensors, int copies, const PeerOptions& options) {
  auto state = std::make_shared<State>();
  for (const PeerScratch& scratch : peer.scratch) {
    Expected<TensorArena> arena = make_arena(scratch.type, copies);
    if (!arena) return arena.takeError();
    state->scratch[scratch.name] = std::move(*arena);
  }
  ReadyPeer ready;
  for (const PeerStep& wanted : peer.steps) {
    Expected<Step> step =
        make_step(session, lt, wanted, tensors, copies, *state, options.algorithms);
    if (!step) return step.takeError();
    if (step->matmul && step->algorithm < 0) {
      if (Error error = find_algorithm(session, copies, options, *step, ready.config)) return error;
    }
    state->steps.push_back(std::move(*step));
  }
  ready.contender = {peer.name, [state](int copy) { return state->launch(copy); }};
  return ready;
}

}  // namespace catenary::bench
