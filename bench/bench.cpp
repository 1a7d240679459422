// SPDX-License-Identifier: Apache-2.0
// The run: ceilings, then case by case. The record is written after each, so that a run that is cut
// short has lost only one case.
#include "bench/bench_options.h"
#include "bench/measure/calibrate.h"
#include "bench/measure/compile_cost.h"
#include "bench/measure/launch_cost.h"
#include "bench/measure/pack_cost.h"
#include "bench/measure/run_case.h"
#include "bench/record/commit.h"
#include "bench/record/summary.h"
#include "bench/sweep/sweeps.h"
#include "compiler/compile/nvrtc.h"
#include "ir/counted.h"

namespace catenary::bench {
namespace {

// "bench/results/h200/cases-20261121T012804Z.json".
std::string record_path(const BenchOptions& options, const Record& record, const char* what) {
  if (!options.out.empty()) return options.out;
  std::string date;
  for (const char c : record.date) {
    if (c != '-' && c != ':') date += c;
  }
  return fmt::format("bench/results/{}/{}-{}.json", record.gpu, what, date);
}

Record new_record(const BenchOptions& options) {
  Record record;
  record.date = utc_date();
  record.commit = options.commit.empty() ? build_commit() : options.commit;
  record.seed = options.seed;
  record.quick = options.quick;
  record.tuning = !options.tile.empty() || options.split_k != 0;
  return record;
}

Record device_record(const BenchOptions& options, const Session& session) {
  Record record = new_record(options);
  record.device = session.info().name;
  record.gpu = session.info().target.name;
  record.driver = display_driver_version();
  const int cuda = session.driver().version();
  record.cuda = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
  return record;
}

CaseOptions case_options(const BenchOptions& options) {
  CaseOptions result;
  result.timing.rounds = options.quick ? std::min(options.rounds, 5) : options.rounds;
  if (options.quick) {
    result.timing.batch_us = 700;
    result.algorithms = 8;
  }
  result.seed = options.seed;
  result.plan.force_tile = options.tile;
  result.plan.split_k = options.split_k;
  result.all_tiles = options.tiles == "all";
  return result;
}

std::vector<Case> chosen_cases(const BenchOptions& options) {
  std::vector<Case> chosen;
  for (Case& spec : all_cases()) {
    if (matches(spec.name, options.cases)) chosen.push_back(std::move(spec));
  }
  return chosen;
}

int list_cases(const BenchOptions& options, const std::vector<Case>& cases) {
  llvm::json::Array names;
  for (const Case& spec : cases) {
    names.push_back(spec.name);
    options.show(
        fmt::format("{:<38} {}\n", spec.name,
                    spec.peer.name.empty() ? "no peer: against the copy rate" : spec.peer.name));
  }
  options.result(llvm::json::Object{{"cases", std::move(names)}});
  return 0;
}

int run_compile(const BenchOptions& options) {
  Expected<Target> target = find_target(options.target);
  if (!target) return options.report(target.takeError());
  if (!options.out.empty()) {
    if (Error error = check_record(options.out)) return options.report(std::move(error));
  }
  const std::string what = fmt::format("compiling for {}", target->arch);
  Expected<CompileCost> cost = measure_compile_cost(
      *target, options.quick, [&](i64 done, i64 all) { options.step(what, done, all); });
  if (!cost) return options.report(cost.takeError());
  if (!cost->nvrtc_problem.empty()) options.note("without NVRTC: " + cost->nvrtc_problem);
  options.show(compile_table(cost->rows));
  // The times are of this host, not of the GPU whose records are in that folder: written only on
  // demand.
  Record record = new_record(options);
  record.gpu = target->name;
  record.compiler = cost->compiler;
  record.compile = std::move(cost->rows);
  options.result(to_json(record));
  if (options.out.empty()) return 0;
  if (Error error = write_record(record, options.out)) return options.report(std::move(error));
  options.note("wrote " + options.out);
  return 0;
}

int run_pack(const BenchOptions& options) {
  if (!options.out.empty()) {
    if (Error error = check_record(options.out)) return options.report(std::move(error));
  }
  options.step("measuring the pack", 0, 0);
  Expected<PackCost> cost = measure_pack_cost(options.pack, options.quick);
  if (!cost) return options.report(cost.takeError());
  options.show(pack_table(*cost));
  Record record = new_record(options);
  record.pack = std::move(*cost);
  options.result(to_json(record));
  if (options.out.empty()) return 0;
  if (Error error = write_record(record, options.out)) return options.report(std::move(error));
  options.note("wrote " + options.out);
  return 0;
}

int run_launch(const BenchOptions& options, const Session& session) {
  Record record = device_record(options, session);
  const std::string path = record_path(options, record, "launch");
  if (Error error = check_record(path)) return options.report(std::move(error));
  auto rows = measure_launch_cost(session, options.quick);
  if (!rows) return options.report(rows.takeError());
  options.show(launch_table(*rows));
  record.launch = std::move(*rows);
  options.result(to_json(record));
  if (Error error = write_record(record, path)) return options.report(std::move(error));
  options.note("wrote " + path);
  return 0;
}

// Null, with a message, if there is no cuBLASLt.
std::unique_ptr<CublasLt> open_peer(const BenchOptions& options, const Session& session) {
  auto lt = CublasLt::open(session);
  if (lt) return std::move(*lt);
  options.note("no peer: " + take_report(lt.takeError()).message);
  return nullptr;
}

int run_calibrate(const BenchOptions& options, const Session& session) {
  Record record = device_record(options, session);
  const std::string path = record_path(options, record, "calibrate");
  if (Error error = check_record(path)) return options.report(std::move(error));
  const std::unique_ptr<CublasLt> lt = open_peer(options, session);
  if (lt) record.cublaslt = std::to_string(lt->version());
  RandomPool pool(options.seed);
  CalibrateOptions calibration;
  calibration.timing.rounds = options.quick ? 5 : 15;
  auto rows = calibrate(session, lt.get(), pool, calibration);
  if (!rows) return options.report(rows.takeError());
  options.show(calibration_table(*rows));
  record.calibration = std::move(*rows);
  options.result(to_json(record));
  if (Error error = write_record(record, path)) return options.report(std::move(error));
  options.note("wrote " + path);
  return 0;
}

// Names the record's compiler. kNvrtcMissing.
Error find_compiler_id(Record& record) {
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) return nvrtc.takeError();
  record.compiler = (*nvrtc)->compiler_id();
  return Error::success();
}

// "sweep-small", "sweep-random-2of4".
std::string sweep_name(const BenchOptions& options) {
  const auto& [part, parts] = options.shard;
  const std::string name = "sweep-" + options.sweep;
  return parts == 1 ? name : fmt::format("{}-{}of{}", name, part, parts);
}

int run_sweeps(const BenchOptions& options, const Session& session) {
  SweepRequest request;
  request.name = options.sweep;
  request.seed = options.seed;
  request.shard = options.shard;
  request.count = options.count;
  request.kinds = options.kinds;
  request.layers = options.layers;
  request.candidates = options.candidates;
  auto spec = sweep_spec(request);
  if (!spec) return options.report(spec.takeError());
  Record record = device_record(options, session);
  record.sweep = options.sweep;
  const std::string path = record_path(options, record, sweep_name(options).c_str());
  if (Error error = check_record(path)) return options.report(std::move(error));
  const std::unique_ptr<CublasLt> lt = spec->peer ? open_peer(options, session) : nullptr;
  if (lt) record.cublaslt = std::to_string(lt->version());
  if (Error error = find_compiler_id(record)) return options.report(std::move(error));
  RandomPool pool(options.seed);
  const auto layers = static_cast<i64>(spec->cases.size());
  const std::string compiling = fmt::format("compiling {} layers", layers);
  options.step(compiling, 0, 0);
  int code = 0;
  Error error = run_sweep(
      session, lt.get(), pool, spec->cases, spec->options,
      [&](i64 done, i64 all) {
        options.step(compiling, done, all);
        if (done == all) options.note(counted(all, "kernel") + " compiled");
      },
      [&](LayerRow row) -> Error {
        options.show(layer_line(row));
        if (!row.verified) code = 1;
        if (record.layers.empty()) options.step("timing", 0, layers);
        record.layers.push_back(std::move(row));
        options.step("timing", static_cast<i64>(record.layers.size()), layers);
        // From time to time, so that a run that is cut short has lost little.
        return record.layers.size() % 16 == 0 ? write_record(record, path) : Error::success();
      });
  if (!record.layers.empty()) {
    options.show(summary_table(record.layers));
    options.result(to_json(record));
    error = llvm::joinErrors(std::move(error), write_record(record, path));
  }
  if (error) return options.report(std::move(error));
  options.note("wrote " + path);
  return code;
}

int run_cases(const BenchOptions& options, const Session& session, const std::vector<Case>& cases) {
  Record record = device_record(options, session);
  const std::string path = record_path(options, record, "cases");
  if (Error error = check_record(path)) return options.report(std::move(error));
  const std::unique_ptr<CublasLt> lt = open_peer(options, session);
  if (lt) record.cublaslt = std::to_string(lt->version());
  RandomPool pool(options.seed);
  options.step("measuring the copy rate and the big product", 0, 0);
  auto ceilings = measure_ceilings(session, lt.get(), pool, options.quick);
  if (!ceilings) return options.report(ceilings.takeError());
  record.ceilings = *ceilings;
  options.show(fmt::format("{}, driver {}, CUDA {}: copy {:.3f} TB/s, 8192^3 bf16 {:.0f} TFLOP/s\n",
                           record.device, record.driver, record.cuda, ceilings->copy_tbs,
                           ceilings->gemm_tflops));
  if (Error error = find_compiler_id(record)) return options.report(std::move(error));
  options.show(table_head());
  int code = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    options.step(cases[i].name, static_cast<i64>(i), static_cast<i64>(cases.size()));
    auto row = run_case(session, lt.get(), pool, *ceilings, cases[i], case_options(options));
    if (!row) {
      // The context is lost, and with it the run: the record says in which case.
      ErrorReport report = take_report(row.takeError());
      Row last;
      last.name = cases[i].name;
      last.group = cases[i].group;
      last.error = report.message;
      record.rows.push_back(std::move(last));
      options.result(to_json(record));
      llvm::consumeError(write_record(record, path));
      return options.report(make_error_text(report.code, report.message));
    }
    options.show(table_line(*row));
    if (!row->tiles.empty()) options.show(tile_table(*row));
    if (!row->error.empty() || !row->verified) code = 1;
    record.rows.push_back(std::move(*row));
    if (Error error = write_record(record, path)) return options.report(std::move(error));
  }
  options.result(to_json(record));
  options.note("wrote " + path);
  return code;
}

}  // namespace

int run_bench(const BenchOptions& options) {
  const std::vector<Case> cases = chosen_cases(options);
  if (cases.empty()) {
    return options.report(make_error(ErrorCode::kInvalidArgument,
                                     "no case matches '{}': `catenary bench --list` names them all",
                                     options.cases));
  }
  if (options.list) return list_cases(options, cases);
  if (options.compile) return run_compile(options);
  if (!options.pack.empty()) return run_pack(options);
  auto session = Session::open(options.device);
  if (!session) return options.report(session.takeError());
  if ((*session)->driver().simulated()) {
    return options.report(make_error(ErrorCode::kInvalidArgument,
                                     "{} keeps no time: unset CATENARY_DEVICE and run on a GPU",
                                     (*session)->info().name));
  }
  if (options.launch) return run_launch(options, **session);
  if (options.calibrate) return run_calibrate(options, **session);
  if (!options.sweep.empty()) return run_sweeps(options, **session);
  return run_cases(options, **session, cases);
}

}  // namespace catenary::bench
