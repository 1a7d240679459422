// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/configs.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "compiler/families/gemm_sm90/candidates.h"
#include "compiler/kernel_family.h"
#include "ir/random/random_chain.h"
#include "ir/text/text.h"
#include "shared/dequantise_config.h"
#include "shared/gemm_dequant_config.h"
#include "shared/gemm_sm80_config.h"
#include "shared/skinny_config.h"
#include "shared/skinny_dequant_config.h"
#include "tests/gpu/against_simulator.h"
#include "tests/gpu/run_case.h"

namespace catenary::gpu_suite {
namespace {

constexpr double kShrinkSeconds = 20;

// Host threads that prepare cases; take() returns them in order.
class Preparation {
 public:
  Preparation(const Suite& suite, llvm::ArrayRef<i64> cases)
      : suite_(suite), cases_(cases), ready_(cases.size()) {
    const unsigned cores = std::max(std::thread::hardware_concurrency(), 1u);
    const int wanted =
        suite.options().threads > 0 ? suite.options().threads : static_cast<int>(cores);
    for (int i = 0; i < wanted; ++i) threads_.emplace_back([this] { work(); });
  }

  ~Preparation() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  // The case at `position` of the list. Null if the time limit is reached before it is ready.
  std::unique_ptr<PreparedCase> take(size_t position) {
    std::unique_lock lock(mutex_);
    const auto is_ready = [&] { return ready_[position] != nullptr; };
    while (!changed_.wait_for(lock, std::chrono::milliseconds(200), is_ready)) {
      if (suite_.out_of_time()) return nullptr;
    }
    return std::move(ready_[position]);
  }

  i64 prepared() const { return done_; }

 private:
  void work() {
    while (!stop_ && !suite_.out_of_time()) {
      const size_t position = next_++;
      if (position >= ready_.size()) return;
      auto prepared = std::make_unique<PreparedCase>(
          prepare_case(suite_, make_case(cases_[position], suite_.cases())));
      ++done_;
      const std::lock_guard lock(mutex_);
      ready_[position] = std::move(prepared);
      changed_.notify_all();
    }
  }

  const Suite& suite_;
  llvm::ArrayRef<i64> cases_;
  std::vector<std::unique_ptr<PreparedCase>> ready_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<size_t> next_{0};
  std::atomic<i64> done_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

void count_facts(const PreparedCase& prepared, Tally& tally) {
  for (const PlanBucket& bucket : prepared.compiled->plan.buckets) {
    for (const KernelPlan& kernel : bucket.kernels) {
      ++tally.families[std::string(family_name(kernel))];
      if (!kernel.beside.empty()) {
        ++tally.options[fmt::format("{}, side by side", family_name(kernel))];
      }
      if (const auto* skinny = kernel.config.get_if<SkinnyConfig>()) {
        ++tally.dtypes[fmt::format("skinny {}", math_info(skinny->space.math).text)];
        if (skinny->schedule.split_k > 1) ++tally.options["skinny, split-K"];
        if (skinny->dual) ++tally.options["skinny, dual GEMM"];
        if (skinny->ragged.kind == Ragged::kMGrouped)
          ++tally.options["skinny, M-grouped"];
        else if (!skinny->loads.w_is_weight)
          ++tally.options["skinny, w not a weight"];
        if (!skinny->loads.bulk) ++tally.options["skinny, cp.async"];
        const bool even =
            skinny->k_blocks() % (skinny->schedule.split_k * skinny->tile.warps_k) == 0;
        if (!even) ++tally.options["skinny, uneven"];
        if (skinny->row_squares) ++tally.options["skinny, norm inside"];
        if (skinny->formed.used) ++tally.options["skinny, X formed"];
        if (skinny->gain.used) ++tally.options["skinny, gain inside"];
      }
      if (const auto* dequant = kernel.config.get_if<SkinnyDequantConfig>()) {
        ++tally.dtypes[fmt::format("skinny_dequant {} x {}", dtype_text(dequant->w.dtype),
                                   math_info(dequant->space.math).text)];
        if (dequant->w.has_zero) ++tally.options["skinny_dequant, zeros"];
        if (dequant->schedule.cluster_k > 1) ++tally.options["skinny_dequant, cluster"];
        if (dequant->dual) ++tally.options["skinny_dequant, dual GEMM"];
        if (dequant->row_squares) ++tally.options["skinny_dequant, norm inside"];
        if (dequant->has_groups()) ++tally.options["skinny_dequant, M-grouped"];
        if (dequant->space.batch_rank > 0) ++tally.options["skinny_dequant, batch"];
      }
      if (const auto* dequant = kernel.config.get_if<DequantiseConfig>()) {
        ++tally.dtypes[fmt::format("dequantise {} {}", dequant->packed ? "packed" : "plain",
                                   dtype_text(dequant->q.dtype))];
        if (dequant->has_zero) ++tally.options["dequantise, zeros"];
        if (!dequant->shares_block()) ++tally.options["dequantise, several blocks in a vector"];
        if (!dequant->q.weight) ++tally.options["dequantise, not a weight"];
      }
      if (const auto* dequant = kernel.config.get_if<GemmDequantConfig>()) {
        ++tally.dtypes[fmt::format("gemm_dequant {} x {}", dtype_text(dequant->w.dtype),
                                   math_info(dequant->space.math).text)];
        if (dequant->w.has_zero) ++tally.options["gemm_dequant, zeros"];
        if (dequant->has_row_scales()) ++tally.options["gemm_dequant, a scale per channel"];
        if (dequant->open_sums() == 2) ++tally.options["gemm_dequant, two open sums"];
        if (dequant->fragments() > 1) ++tally.options["gemm_dequant, several fragments"];
        if (dequant->schedule.cluster_k > 1) ++tally.options["gemm_dequant, cluster"];
        if (dequant->dual) ++tally.options["gemm_dequant, dual GEMM"];
        if (dequant->space.batch_rank > 0) ++tally.options["gemm_dequant, batch"];
      }
      if (const auto* gemm = kernel.config.get_if<GemmSm90Config>()) {
        ++tally.dtypes[fmt::format("gemm_sm90 {}", math_info(gemm->space.math).text)];
        if (gemm->dual) ++tally.options["dual GEMM"];
        if (gemm->ragged.kind == Ragged::kMGrouped) ++tally.options["gemm_sm90, M-grouped"];
        if (gemm->ragged.kind == Ragged::kKGrouped) ++tally.options["gemm_sm90, K-grouped"];
        for (const Sm90Operand& matrix : {gemm->a, gemm->b}) {
          if (!matrix.by_cp_async) continue;
          ++tally.options[fmt::format("gemm_sm90, cp.async fallback of {} bytes",
                                      matrix.memory.copy_bytes)];
        }
        ++tally.options[fmt::format("tile {}", tile_name(*gemm))];
      }
      if (const auto* gemm = kernel.config.get_if<GemmSm80Config>()) {
        ++tally.dtypes[fmt::format("gemm {}", math_info(gemm->space.math).text)];
        if (gemm->schedule.split_k > 1) ++tally.options["split-K"];
        if (gemm->dual) ++tally.options["dual GEMM"];
        if (gemm->ragged.kind == Ragged::kMGrouped) ++tally.options["M-grouped"];
        if (gemm->ragged.kind == Ragged::kKGrouped) ++tally.options["K-grouped"];
        ++tally.options[fmt::format("tile {}x{}", gemm->tile.block_m, gemm->tile.block_n)];
        ++tally.options[fmt::format("copies of {} and {} bytes", gemm->a.copy_bytes,
                                    gemm->b.copy_bytes)];
      }
    }
  }
  for (const PreparedRun& run : prepared.runs) {
    ++tally.runs;
    ++tally.data[std::string(fill_text(run.kind))];
  }
  if (!prepared.options.force_tile.empty()) ++tally.options["forced tile"];
  if (prepared.from.reduced) ++tally.options["reduced sizes"];
  if (prepared.compiled->chain.chain().symbol) ++tally.options["symbol"];
  for (size_t i = 0; i < prepared.compiled->chain.chain().outputs.size(); ++i) {
    const DType dtype = prepared.compiled->chain.output_type(static_cast<int>(i)).dtype;
    ++tally.dtypes[fmt::format("output {}", dtype_text(dtype))];
  }
}

void count_result(const PreparedCase& prepared, const CaseResult& result, Tally& tally) {
  ++tally.configs;
  ++(result.passed ? tally.passed : tally.failed);
  tally.elements += result.elements;
  tally.vacuous += result.vacuous;
  tally.launches += result.launches;
  if (result.worst_error_ratio > tally.worst_error_ratio) {
    tally.worst_error_ratio = result.worst_error_ratio;
    tally.worst_case = fmt::format("{} (seed {})", prepared.from.name, prepared.from.seed);
  }
  const auto is_exact = [](const PreparedRun& run) {
    return run.kind != FillKind::kExactInteger || run.exact;
  };
  tally.exact += std::all_of(prepared.runs.begin(), prepared.runs.end(), is_exact);
  tally.real_data += std::any_of(prepared.runs.begin(), prepared.runs.end(), [](const auto& run) {
    return run.kind != FillKind::kExactInteger;
  });
}

Failure describe(const PreparedCase& prepared, const std::string& problem) {
  Failure failure;
  failure.seed = prepared.from.seed;
  failure.name = prepared.from.name;
  failure.problem =
      fmt::format("{}again: the same command with --case {}", problem, prepared.from.index);
  failure.chain = print(prepared.from.chain);
  if (prepared.compiled) failure.plan = plan_text(prepared.compiled->plan);
  return failure;
}

// The smallest chain that still fails under the same options, within a time limit.
void shrink_failure(Suite& suite, Runner& runner, const PreparedCase& prepared) {
  const double until = suite.seconds() + kShrinkSeconds;
  suite.progress("shrinking the first failure", true);
  const Chain small = shrink(prepared.from.chain, [&](const Chain& chain) {
    if (suite.seconds() > until || suite.out_of_time() || suite.context_lost()) return false;
    Case smaller = prepared.from;
    smaller.chain = chain;
    smaller.symbols = symbol_values(chain, smaller.seed);
    smaller.ends.clear();
    const PreparedCase again = prepare_case(suite, std::move(smaller));
    if (again.problem.code != ErrorCode::kOk) return false;
    const CaseResult result = runner.run(again);
    if (result.lost_context) suite.lose_context();
    if (!result.passed || !again.for_simulator) return !result.passed;
    SimulatorTally unused;
    return !run_in_simulator(again, result.after, unused).empty();
  });
  fmt::print("shrunk to:\n{}\n", print(small));
  std::fflush(stdout);
}

void compare_with_simulator(const PreparedCase& prepared, CaseResult& result,
                            SimulatorTally& tally) {
  for (std::string& problem : run_in_simulator(prepared, result.after, tally)) {
    fmt::print("DIFFERS {} (seed {}): {}\n", prepared.from.name, prepared.from.seed, problem);
    result.passed = false;
    result.problems.push_back("simulator: " + std::move(problem));
  }
}

void run_one(Suite& suite, Runner& runner, const PreparedCase& prepared) {
  Tally& tally = suite.tally();
  if (prepared.skipped) {
    ++tally.skipped;
    suite.progress(fmt::format("unsupported: {} (seed {}): {}", prepared.from.name,
                               prepared.from.seed, prepared.problem.message),
                   true);
    return;
  }
  if (prepared.problem.code != ErrorCode::kOk) {
    ++tally.configs;
    ++tally.failed;
    suite.fail(describe(prepared, fmt::format("{}: {}\n  ", error_code_name(prepared.problem.code),
                                              prepared.problem.message)));
    return;
  }
  count_facts(prepared, tally);
  CaseResult result = runner.run(prepared);
  if (prepared.for_simulator) compare_with_simulator(prepared, result, tally.simulator);
  for (const PreparedRun& run : prepared.runs) {
    if (!prepared.from.must_be_exact || run.kind != FillKind::kExactInteger || run.exact) continue;
    result.passed = false;
    result.problems.push_back("the chain must be exact, and its reference is not");
    break;
  }
  count_result(prepared, result, tally);
  if (result.lost_context) suite.lose_context();
  if (result.passed) return;
  std::string problem;
  for (const std::string& line : result.problems) problem += line + "\n  ";
  suite.fail(describe(prepared, problem));
  if (tally.failures.size() == 1 && !suite.should_stop()) shrink_failure(suite, runner, prepared);
}

}  // namespace

namespace {

void report_simulator(Suite& suite) {
  const SimulatorTally& t = suite.tally().simulator;
  std::string ulps;
  for (const auto& [dtype, ulp] : t.max_ulp) ulps += fmt::format(" {} in {}", ulp, dtype);
  suite.progress(
      fmt::format("against the simulator: {} of {} configs agree; {} of {} exact elements are "
                  "equal; {} of {} real ones, the others differ by at most (ulp){}, and {:.3f} of "
                  "the allowed error ({})",
                  t.equal_configs, t.configs, t.exact_equal, t.exact_elements, t.real_equal,
                  t.real_elements, ulps, t.worst_share, t.worst_case),
      true);
}

// The numbers of the cases that the options name. Neighbours, which are alike, are in different
// parts.
std::vector<i64> wanted_cases(const Suite& suite) {
  const SuiteOptions& options = suite.options();
  const i64 count = num_cases(suite.cases());
  if (options.only_case >= count) return {};
  if (options.only_case >= 0) return {options.only_case};
  std::vector<i64> cases;
  for (i64 i = std::min(options.part, options.parts) - 1; i < count; i += options.parts) {
    if (make_case(i, suite.cases()).name.find(options.named) != std::string::npos)
      cases.push_back(i);
  }
  return cases;
}

}  // namespace

void run_configs(Suite& suite) {
  const std::vector<i64> cases = wanted_cases(suite);
  suite.progress(fmt::format("{} configs, seed {}", cases.size(), suite.options().seed), true);
  Runner runner(suite);
  size_t done = 0;
  {
    Preparation preparation(suite, cases);
    for (; done < cases.size() && !suite.should_stop(); ++done) {
      const std::unique_ptr<PreparedCase> prepared = preparation.take(done);
      if (!prepared) break;
      run_one(suite, runner, *prepared);
      suite.progress(fmt::format("{} of {} configs run, {} prepared, {} failed", done + 1,
                                 cases.size(), preparation.prepared(), suite.tally().failed));
    }
  }
  const Tally& t = suite.tally();
  suite.progress(
      fmt::format("configs: {} of {} done; {} passed, {} failed, {} unsupported; {} bitwise, {} on "
                  "real data, worst error {:.3f} of the allowed ({})",
                  done, cases.size(), t.passed, t.failed, t.skipped, t.exact, t.real_data,
                  t.worst_error_ratio, t.worst_case),
      true);
  if (suite.options().against_simulator) report_simulator(suite);
  if (t.worst_error_ratio > 0.5) {
    suite.progress("more than half of the allowed error was used: see worst_case", true);
  }
}

}  // namespace catenary::gpu_suite
