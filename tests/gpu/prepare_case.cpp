// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "compiler/kernel_family.h"
#include "ir/random/random.h"
#include "tests/gpu/against_simulator.h"
#include "tests/gpu/run_case.h"

namespace catenary::gpu_suite {
namespace {

constexpr FillKind kRealKinds[] = {FillKind::kNormal,   FillKind::kPositive, FillKind::kSparse,
                                   FillKind::kNanPlant, FillKind::kOneHot,   FillKind::kInfPlant};

// The position of the ragged ends among the parameters; -1: none.
int ends_position(const VerifiedChain& chain) {
  for (size_t p = 0; p < chain.parameters().size(); ++p) {
    if (chain.info(chain.parameters()[p]).type.dtype == DType::kI32) return static_cast<int>(p);
  }
  return -1;
}

void put_ends(const VerifiedChain& chain, const std::vector<i32>& ends, ChainData& data) {
  const int position = ends_position(chain);
  if (position < 0 || ends.empty()) return;
  std::vector<std::byte>& buffer = data.buffers[static_cast<size_t>(position)];
  std::memcpy(buffer.data(), ends.data(), std::min(buffer.size(), ends.size() * sizeof(i32)));
}

Error prepare_run(const PreparedCase& prepared, const std::vector<i32>& ends, PreparedRun& run) {
  const VerifiedChain& chain = prepared.compiled->chain;
  ChainData a = fill_chain(chain, run.symbol, run.kind, run.seed, 0xff);
  ChainData b = fill_chain(chain, run.symbol, run.kind, run.seed, 0x3f);
  put_ends(chain, ends, a);
  put_ends(chain, ends, b);
  Expected<Reference> reference = Reference::create(chain, a.inputs);
  if (!reference) return reference.takeError();
  run.expected = reference->evaluate(1);
  run.exact = run.kind == FillKind::kExactInteger && chain_is_exact(chain);
  for (const auto& output : run.expected) {
    for (const Interval& element : output) run.exact &= element.error == 0;
  }
  run.image =
      make_image(chain, run.symbol, prepared.compiled->plan.workspace_bytes, a, b, run.seed + 17);
  return Error::success();
}

Error prepare_runs(PreparedCase& prepared) {
  const Case& from = prepared.from;
  const size_t variants = std::max<size_t>(from.ends.size(), 1);
  Random random(from.seed);
  for (i64 symbol : from.symbols) {
    for (size_t v = 0; v < variants; ++v) {
      const std::vector<i32> ends = from.ends.empty() ? std::vector<i32>() : from.ends[v];
      std::vector<FillKind> kinds = {FillKind::kExactInteger};
      // One kind of real data per symbol value.
      if (from.real_data && v < 3) kinds.push_back(random.pick<FillKind>(kRealKinds));
      for (FillKind kind : kinds) {
        PreparedRun run;
        run.symbol = symbol;
        run.kind = kind;
        run.seed = random.next();
        if (Error error = prepare_run(prepared, ends, run)) return error;
        prepared.runs.push_back(std::move(run));
      }
    }
  }
  return Error::success();
}

Error prepare(const Suite& suite, PreparedCase& prepared) {
  Expected<VerifiedChain> verified = verify(prepared.from.chain);
  if (!verified) return verified.takeError();
  Expected<Plan> plan = plan_case(*verified, suite.target(), prepared.from, prepared.options);
  if (!plan) return plan.takeError();
  Engine engine(suite.engine_options(prepared.options));
  auto compiled = engine.compile(prepared.from.chain, suite.target());
  const bool may_drop = prepared.from.family.empty();
  if (!compiled && may_drop &&
      (!prepared.options.force_tile.empty() || prepared.options.split_k > 0)) {
    // The forced tile spills for this chain.
    llvm::consumeError(compiled.takeError());
    prepared.options.force_tile.clear();
    prepared.options.split_k = 0;
    compiled =
        Engine(suite.engine_options(prepared.options)).compile(prepared.from.chain, suite.target());
  }
  if (!compiled) return compiled.takeError();
  prepared.compiled = std::move(*compiled);
  if (const std::string text = family_problem(prepared.from, prepared.compiled->plan);
      !text.empty()) {
    return make_error(ErrorCode::kInternal, "{}", text);
  }
  if (suite.options().against_simulator) {
    auto compiled_for_host = compile_for_simulator(*prepared.compiled);
    if (!compiled_for_host) return compiled_for_host.takeError();
    prepared.for_simulator = std::move(*compiled_for_host);
  }
  return prepare_runs(prepared);
}

}  // namespace

PreparedCase prepare_case(const Suite& suite, Case from) {
  PreparedCase prepared;
  prepared.from = std::move(from);
  if (Error error = prepare(suite, prepared)) {
    prepared.problem = take_report(std::move(error));
    prepared.skipped = prepared.problem.code == ErrorCode::kUnsupported;
  }
  return prepared;
}

std::string plan_text(const Plan& plan) {
  std::string text;
  for (const PlanBucket& bucket : plan.buckets) {
    if (plan.buckets.size() > 1) text += fmt::format("[{}..{}] ", bucket.lo, bucket.hi);
    for (const KernelPlan& kernel : bucket.kernels) {
      text += fmt::format("{}: {}, grid {}; ", family_name(kernel), kernel.config_text,
                          kernel.grid.ctas(bucket.hi));
    }
  }
  return text;
}

}  // namespace catenary::gpu_suite
