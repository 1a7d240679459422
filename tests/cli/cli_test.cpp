// SPDX-License-Identifier: Apache-2.0
// The built command: exit codes, stdout, and one sentence per error.
#include <cstring>

#include "compiler/compile/templates.h"
#include "ir/json.h"
#include "ir/npy.h"
#include "ir/reference/reference.h"
#include "ir/text/text.h"
#include "runtime/tuning/tuning.h"
#include "tests/support/cli_command.h"

using namespace catenary;
using namespace catenary::test;

namespace {

// A [rows, columns] array of zeros.
void write_zeros(const std::string& path, DType dtype, i64 rows, i64 columns) {
  TensorType type;
  type.dtype = dtype;
  type.shape = {{rows, false}, {columns, false}};
  const std::vector<std::byte> bytes(static_cast<size_t>(rows * columns * dtype_bytes(dtype)));
  Error error = write_npy(path, type, bytes.data());
  REQUIRE_FALSE(static_cast<bool>(error));
}

}  // namespace

TEST_CASE("help and version") {
  Command command;
  const CommandResult version = command("--version");
  CHECK(version.exit_code == 0);
  CHECK(has(version.out, "catenary 0."));
  const CommandResult help = command("--help");
  CHECK(help.exit_code == 0);
  for (const char* name :
       {"explain", "compile", "run", "check", "gradient", "tune", "cache", "doctor"}) {
    INFO(name);
    CHECK(has(help.out, name));
    CHECK(command(fmt::format("{} --help", name)).exit_code == 0);
  }
  expect_error(command(""), 2, {"subcommand", "[invalid_argument]"});
  expect_error(command("explian"), 2, {"'explian'", "did you mean 'explain'", "doctor"});
}

TEST_CASE("explain as text and as JSON") {
  Command command;
  const CommandResult text = command("explain " + chain("linear") + " --target h200");
  CHECK(text.exit_code == 0);
  CHECK(text.err.empty());
  for (const char* part : {"linear", "h200 (sm_90a)", "gemm_sm80", "computes    h, t4, y",
                           "parameter w", "output    y", "roofline", "workspace"}) {
    INFO(part);
    CHECK(has(text.out, part));
  }
  const CommandResult result = command("explain " + chain("scaled") + " --target a100 --json");
  CHECK(result.exit_code == 0);
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(result.out);
  REQUIRE(static_cast<bool>(value));
  const llvm::json::Object& root = *value->getAsObject();
  CHECK(root.getString("chain").getValueOr("") == "scaled");
  CHECK(root.getObject("target")->getString("arch").getValueOr("") == "sm_80");
  CHECK(root.getObject("symbol")->getInteger("hi").getValueOr(-1) == 8);
  CHECK(root.getObject("totals")->getInteger("unfused_kernels").getValueOr(-1) == 2);
  const llvm::json::Object& bucket = *(*root.getArray("buckets"))[0].getAsObject();
  const llvm::json::Object& kernel = *(*bucket.getArray("kernels"))[0].getAsObject();
  CHECK(kernel.getString("family").getValueOr("") == "pointwise");
  REQUIRE(kernel.getArray("scalars")->size() == 2);
  CHECK((*kernel.getArray("scalars"))[1].getAsString().getValueOr("") == "beta");
}

TEST_CASE("a chain from standard input") {
  Command command;
  const CommandResult result = command("explain - --target l4 < " + chain("linear"));
  CHECK(result.exit_code == 0);
  CHECK(has(result.out, "l4 (sm_89)"));
}

TEST_CASE("compile writes source, PTX and cubin per architecture") {
  Command command;
  const std::string out = command.path("out");
  const CommandResult result = command(fmt::format(
      "compile {} --arch sm_80,sm_90a --emit source,ptx,cubin -o {}", chain("linear"), out));
  INFO(result.err);
  CHECK(result.exit_code == 0);
  int cubins = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(out)) {
    const std::string suffix = entry.path().extension();
    const std::string text = entry.is_regular_file() ? file_text(entry.path()) : "";
    if (suffix == ".cubin") {
      ++cubins;
      CHECK(text.substr(1, 3) == "ELF");
    } else if (suffix == ".cu") {
      CHECK(has(text, "extern \"C\" __global__"));
    } else if (suffix == ".ptx") {
      CHECK(has(text, ".visible .entry ctn_linear"));
    }
  }
  CHECK(cubins == 2);
  // An option takes one argument, so the file may follow it.
  CHECK(command(fmt::format("compile --emit source --arch sm_80 {} -o {}", chain("linear"), out))
            .exit_code == 0);
  CHECK(command.exists("out/sm_80"));
  CHECK(command.exists("out/sm_90a"));

  // The compiled kernels are in the cache and sound.
  const CommandResult verify = command("cache verify");
  CHECK(verify.exit_code == 0);
  CHECK(has(verify.out, "2 entries are sound"));
  CHECK(has(command("cache list").out, "ctn_linear"));
  CHECK(has(command("cache path").out, command.path("cache")));
  CHECK(has(command("cache stats").out, "sm_90a"));
  CHECK(has(command("cache prune --max-size 1GiB").out, "removed 0 entries"));
  CHECK(has(command("cache prune --max-size 0").out, "removed 2 entries"));
  CHECK(command("cache clear").exit_code == 0);
  CHECK(has(command("cache list").out, "0 entries"));
}

TEST_CASE("cache verify exits with 1 for a damaged entry") {
  Command command;
  const std::string compile =
      fmt::format("compile {} --arch sm_80 -o {}", chain("scaled"), command.path("out"));
  REQUIRE(command(compile).exit_code == 0);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(command.path("cache"))) {
    if (entry.is_regular_file() && entry.file_size() > 1000) {
      std::filesystem::resize_file(entry.path(), entry.file_size() / 2);
    }
  }
  expect_error(command("cache verify"), 1, {"1 of 1 cache entries are damaged", "[mismatch]"});
  CHECK(command(compile).exit_code == 0);  // a damaged entry is a miss
}

TEST_CASE("sources need no NVRTC, cubins do") {
  Command command;
  const std::string none = "CATENARY_NVRTC=/nonexistent";
  const std::string compile =
      fmt::format("compile {} --arch sm_80 -o {} --emit ", chain("linear"), command.path("out"));
  CHECK(command(compile + "source", none).exit_code == 0);
  expect_error(command(compile + "cubin", none), 3, {"/nonexistent", "[nvrtc_missing]"});
  const CommandResult doctor = command("doctor", none);
  CHECK(doctor.exit_code == 3);
  CHECK(has(doctor.out, "NVRTC     missing"));
  CHECK(has(doctor.out, "/nonexistent"));
}

TEST_CASE("a limit of address space is an error, where NVRTC itself would end the process") {
  Command command;
  const std::string compile =
      fmt::format("compile {} --arch sm_80 --no-cache -o {}", chain("linear"), command.path("out"));
  const bool found = !has(command("doctor").out, "NVRTC     missing");
  // Enough for the command and, in the second, for the library, but not for a compile.
  for (const char* limit : {"prlimit --as=120000000", "prlimit --as=200000000"}) {
    INFO(limit);
    expect_error(command(compile, limit), 3,
                 {found ? "raise the limit [out_of_memory]" : "[nvrtc_missing]"});
  }
}

TEST_CASE("gradient and check --gradient") {
  Command command;
  const CommandResult text = command("gradient " + chain("gradient/gated_mlp"));
  CHECK(text.exit_code == 0);
  CHECK(has(text.out, "# out d_wg      weight gradient of wg"));
  CHECK(has(text.out, "# Saved: 8192 bytes"));
  const CommandResult one = command("gradient --chain 2 " + chain("gradient/gated_mlp"));
  CHECK(one.out.starts_with("chain gated_mlp_wgrad("));
  const CommandResult checked =
      command("check --gradient --accumulate --device ref " + chain("gradient/experts"));
  CHECK(checked.exit_code == 0);
  CHECK(has(checked.out, "3 chains ran on the reference; 16384 bytes saved"));
  expect_error(command("gradient --wrt q " + chain("gradient/gated_mlp")), 2,
               {"'q' is not a parameter", "[invalid_argument]"});
  expect_error(command("gradient --of z " + chain("gradient/gated_mlp")), 2,
               {"'z' is not an output"});
  expect_error(command("gradient --recompute all --save-budget 7 " + chain("linear")), 2,
               {"give one of them"});
  expect_error(command("gradient --chain 2 --wrt x " + chain("gradient/gated_mlp")), 2,
               {"--chain is 2, and the gradient has 2 chains"});
  expect_error(command("check --accumulate --device ref " + chain("linear")), 2,
               {"add --gradient"});
}

TEST_CASE("check --device ref says that no kernel ran") {
  Command command;
  for (const char* name : {"linear", "scaled", "experts"}) {
    INFO(name);
    const CommandResult result = command("check --device ref " + chain(name));
    CHECK(result.exit_code == 0);
    CHECK(has(result.out, "PASS"));
    CHECK(has(result.out, "no kernel ran"));
  }
  const CommandResult sampled =
      command("check --samples 20 " + chain("linear"), "CATENARY_CXX= PATH=/nonexistent");
  CHECK(sampled.exit_code == 0);
  CHECK(has(sampled.out, "no GPU and no C++ compiler for the simulator found"));
  CHECK(has(sampled.out, "no kernel ran"));
  CHECK(has(sampled.out, "384            20"));
}

TEST_CASE("outputs of one value have names of their own") {
  Command command;
  std::ofstream(command.path("two.chain"))
      << "chain two(input x: bf16[4, 8]) {\n  y = silu(x)\n  return y: bf16, y: f32\n}\n";
  const std::string file = command.path("two.chain") + " --device ref";
  const CommandResult result = command(fmt::format("run {} --output y={} --output y.1={}", file,
                                                   command.path("a.npy"), command.path("b.npy")));
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  CHECK(has(result.out, "y: bf16[4, 8]"));
  CHECK(has(result.out, "y.1: f32[4, 8]"));
  CHECK(has(file_text(command.path("a.npy")), "V2"));
  CHECK(has(file_text(command.path("b.npy")), "<f4"));
  expect_error(command("run " + file + " --output z=z.npy"), 2, {"name one of y, y.1"});
  CHECK(has(command("check " + file).out, "y.1"));
}

TEST_CASE("run writes its outputs") {
  Command command;
  TensorType row;
  row.shape = {{2, false}, {12, false}};
  std::vector<float> x(24);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  Error error = write_npy(command.path("x.npy"), row, x.data());
  REQUIRE_FALSE(static_cast<bool>(error));
  const CommandResult result = command(fmt::format(
      "run {} --device ref --symbol 2 --input x={} --input alpha=0.5 --input beta=3 --output q={}",
      chain("scaled"), command.path("x.npy"), command.path("q.npy")));
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(has(result.out, "min 0, max 11.5"));
  Expected<NpyArray> q = read_npy(command.path("q.npy"));
  REQUIRE(static_cast<bool>(q));
  CHECK(q->type.dtype == DType::kF16);
  CHECK(load_element(DType::kF16, q->bytes.data(), 5) == 7.5);
}

TEST_CASE("the dump holds chain, plan, source, PTX and cubin") {
  Command command;
  const CommandResult result = command(
      fmt::format("check --device ref {} --dump {}", chain("linear"), command.path("dump")));
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(has(file_text(command.path("dump/chain.chain")), "chain linear"));
  CHECK(has(file_text(command.path("dump/plan.txt")), "kernel 0"));
  int kernels = 0;
  int sass = 0;
  for (const auto& entry : std::filesystem::directory_iterator(command.path("dump"))) {
    const std::string suffix = entry.path().extension();
    kernels += suffix == ".cu" || suffix == ".ptx" || suffix == ".cubin" ? 1 : 0;
    sass += suffix == ".sass" ? 1 : 0;
  }
  CHECK(kernels == 3);
  CHECK((sass == 1 || has(result.out, "no SASS")));
}

TEST_CASE("errors in a chain are shown with file, line and caret") {
  Command command;
  expect_error(command("check " + chain("unknown_op")), 2,
               {"unknown_op.chain:2:7: error: ", "'rellu'", "did you mean 'relu'", "\n        ^"});
  expect_error(command("explain " + chain("wrong_shape")), 2,
               {"wrong_shape.chain:3:3: error: ", "16", "15", "'b'", "    ^"});
  expect_error(command("compile " + chain("lonely_label")), 2,
               {"lonely_label.chain:2:3: error: ", "'k'", "appears once", "    ^"});
  // A chain that no kernel computes.
  std::ofstream(command.path("refused.chain"))
      << "chain c(input x: e4m3[64, 64], weight w: e4m3[64, 64]) {\n"
         "  y = relu(contract \"mk,nk->mn\"(x, w))\n  return y: bf16\n}\n";
  const std::string refused = command.path("refused.chain") + " --target sm_80";
  expect_error(command("explain " + refused), 2,
               {"refused.chain:2:12: error: no kernel family computes", "\n             ^"});
}

TEST_CASE("a truncated chain is an error with a location") {
  Command command;
  const std::string text = file_text(kChains + "linear.chain");
  for (size_t size : {size_t{0}, size_t{70}, size_t{90}, text.size() / 2, text.size() - 3}) {
    INFO(size);
    std::ofstream(command.path("cut.chain"), std::ios::binary) << text.substr(0, size);
    expect_error(command(fmt::format("explain {}", command.path("cut.chain"))), 2,
                 {"cut.chain:", "^"});
  }
}

TEST_CASE("files that cannot be read or written") {
  Command command;
  expect_error(command("check /nonexistent/a.chain"), 2, {"/nonexistent/a.chain", "[io]"});
  expect_error(command("explain /tmp"), 2, {"/tmp", "directory", "[io]"});
  expect_error(command("explain /dev/zero"), 2, {"error: "});
  std::ofstream(command.path("file")) << "in the way";
  const std::string below = command.path("file") + "/dump";
  expect_error(command(fmt::format("check --device ref {} --dump {}", chain("linear"), below)), 2,
               {below, "[io]"});
  expect_error(command(fmt::format("compile {} --arch sm_80 --emit source -o {}", chain("linear"),
                                   command.path("file"))),
               2, {command.path("file"), "[io]"});
  expect_error(
      command(fmt::format("run --device ref {} --output y={}/y.npy", chain("linear"), below)), 2,
      {below, "[io]"});
  expect_error(command("explain " + chain("linear") + " > /dev/full"), 2, {"standard output"});
}

TEST_CASE("arguments with unknown names") {
  Command command;
  expect_error(command("explain " + chain("linear") + " --target h900"), 2,
               {"'h900'", "h200 (sm_90a)", "[invalid_argument]"});
  expect_error(command("compile " + chain("linear") + " --arch sm_80,sm_77"), 2, {"'sm_77'"});
  expect_error(command("compile " + chain("linear") + " --arch sm_90b"), 2, {"'sm_90b'"});
  expect_error(command("run --device ref --input alpha=half " + chain("scaled")), 2,
               {"'half'", "'alpha'", "number"});
  expect_error(command("compile " + chain("linear") + " --emit sass"), 2, {"sass"});
  expect_error(command("check " + chain("linear") + " --device tpu"), 2, {"tpu"});
  expect_error(command("check " + chain("linear") + " --symbol 4"), 2, {"4", "no symbolic size"});
  expect_error(command("check " + chain("scaled") + " --symbol 9"), 2, {"9", "1..8"});
  expect_error(command("run --device ref " + chain("linear") + " --output z=a.npy"), 2, {"'z'"});
  expect_error(command("run --device ref " + chain("linear") + " --output y"), 2, {"name=file"});
}

TEST_CASE("input files with a wrong dtype, shape, name or format") {
  Command command;
  const std::string file = command.path("x.npy");
  const std::string check = "check --device ref " + chain("linear") + " --input ";
  write_zeros(file, DType::kBF16, 24, 31);
  expect_error(command(check + "x=" + file), 2, {"bf16[24, 31]", "bf16[24, 32]", "'x'"});
  write_zeros(file, DType::kF32, 24, 32);
  expect_error(command(check + "x=" + file), 2, {"f32[24, 32]", "bf16[24, 32]", "'x'"});
  write_zeros(file, DType::kBF16, 24, 32);
  CHECK(command(check + "x=" + file).exit_code == 0);
  expect_error(command(check + "xx=" + file), 2, {"'xx'", "'x'", "name one of x, w, b"});
  expect_error(command(check + "x=" + file + " --input x=" + file), 2, {"'x' twice"});
  expect_error(command(check + "x=/nonexistent.npy"), 2, {"/nonexistent.npy", "[io]"});
  std::ofstream(file) << "not an array";
  expect_error(command(check + "x=" + file), 2, {file, ".npy", "[io]"});
  write_zeros(file, DType::kF32, 1, 1);
  expect_error(command("check --device ref " + chain("scaled") + " --input alpha=" + file), 2,
               {"'alpha'", "f32[1, 1]"});
}

TEST_CASE("descending group ends are refused before a kernel runs") {
  Command command;
  TensorType type;
  type.dtype = DType::kI32;
  type.shape = {{4, false}};
  const i32 ends[] = {8, 4, 20, 30};
  Error error = write_npy(command.path("ends.npy"), type, ends);
  REQUIRE_FALSE(static_cast<bool>(error));
  expect_error(command(fmt::format("check --device ref {} --input ends={}", chain("experts"),
                                   command.path("ends.npy"))),
               2, {"'ends'", "ascend", "[invalid_argument]"});
}

TEST_CASE("--device cuda without a GPU is exit code 3") {
  Command command;
  expect_error(command("check --device cuda " + chain("linear")), 3,
               {"CATENARY_DEVICE=sim", "[driver_missing]"});
  expect_error(command("run --device cuda " + chain("linear")), 3, {"[driver_missing]"});
}

TEST_CASE("without a GPU the kernels run in the simulator") {
  Command command;
  if (!host_compiler_found(command)) return;
  const CommandResult chosen = command("check " + chain("linear"));
  INFO(chosen.err);
  CHECK(chosen.exit_code == 0);
  CHECK(has(chosen.out, "no GPU found: the kernels run in the simulator"));
  CHECK(has(chosen.out, "1 kernel ran on the simulator (h200)"));
  for (const char* name : {"linear", "scaled", "experts"}) {
    const CommandResult result = command("check --device sim --data integer " + chain(name));
    INFO(result.err);
    CHECK(result.exit_code == 0);
    CHECK_FALSE(has(result.out, "no GPU found"));
    CHECK(has(result.out, "PASS"));
  }
  const CommandResult other =
      command("run " + chain("scaled"), "CATENARY_DEVICE=sim CATENARY_SIM_TARGET=a100");
  CHECK(other.exit_code == 0);
  CHECK(has(other.out, "scaled ran on the simulator (a100)"));
}

TEST_CASE("check --schedules repeats the run under consecutive seeds") {
  Command command;
  if (!host_compiler_found(command)) return;
  const CommandResult result =
      command("check --device sim --seed 5 --schedules 3 " + chain("scaled"));
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(has(result.out, "under 3 seeds from 5"));
  expect_error(command("check --device ref --schedules 3 " + chain("scaled")), 2,
               {"--schedules is 3", "--device sim"});
  expect_error(command("check --schedules 0 " + chain("scaled")), 2, {"--schedules"});
}

TEST_CASE("--max-size reduces the chain that runs") {
  Command command;
  const std::string mlp = fmt::format("'{}/examples/geglu_mlp.chain'", CATENARY_SOURCE_DIR);
  const CommandResult reduced = command("check --device ref --max-size 64 " + mlp);
  INFO(reduced.err);
  CHECK(reduced.exit_code == 0);
  CHECK(has(reduced.out, "sizes: 8192 -> 64, 3072 -> 64, 768 -> 64"));
  CHECK(has(reduced.out, "bf16[64, 64]"));
  const std::string small = fmt::format("'{}/examples/small_batch.chain'", CATENARY_SOURCE_DIR);
  const CommandResult symbol = command("run --device ref --max-size 32 --symbol 61 " + small);
  CHECK(symbol.exit_code == 0);
  CHECK(has(symbol.out, "bf16[29, "));
  expect_error(command("check --device ref --max-size 8 " + mlp), 2, {"--max-size", "16"});
  if (!host_compiler_found(command)) return;
  const CommandResult chosen = command("check " + mlp);  // the user chose no device
  INFO(chosen.err);
  CHECK(chosen.exit_code == 0);
  CHECK(has(chosen.out, "as by --max-size 256"));
  CHECK(has(chosen.out, "2 kernels ran on the simulator"));
}

TEST_CASE("the dump of a run in the simulator has its shared objects") {
  Command command;
  if (!host_compiler_found(command)) return;
  const CommandResult result = command(
      fmt::format("check --device sim {} --dump {}", chain("linear"), command.path("dump")));
  INFO(result.err);
  CHECK(result.exit_code == 0);
  int objects = 0;
  for (const auto& entry : std::filesystem::directory_iterator(command.path("dump"))) {
    CHECK(entry.path().extension() != ".cubin");
    objects += entry.path().extension() == ".so" ? 1 : 0;
  }
  CHECK(objects == 1);
  CHECK(has(result.out, "no PTX and no SASS"));
}

TEST_CASE("errors name the reason why the simulator cannot run") {
  Command command;
  expect_error(command("check --device sim " + chain("linear"), kNoCompiler), 3,
               {"/nonexistent/cxx", "[host_compiler_missing]"});
  expect_error(command("check " + chain("linear"), kNoCompiler), 3,
               {"no GPU found", "tried CATENARY_CXX=/nonexistent/cxx", "[host_compiler_missing]"});
  expect_error(command("check --device cuda " + chain("linear"), "CATENARY_DEVICE=sim"), 2,
               {"--device is cuda", "CATENARY_DEVICE is sim"});
  expect_error(command("check " + chain("linear"), "CATENARY_DEVICE=tpu"), 2, {"'tpu'"});
  expect_error(command("check --device sim " + chain("linear"), "CATENARY_SIM_TARGET=h900"), 2,
               {"'h900'", "CATENARY_SIM_TARGET"});
  const CommandResult doctor = command("doctor", kNoCompiler);
  CHECK(has(doctor.out, "simulator missing"));
  CHECK(has(doctor.out, "/nonexistent/cxx"));
  CHECK(command("doctor --has-device", "CATENARY_DEVICE=sim").exit_code == 3);
}

TEST_CASE("tune needs a GPU; --list and --clear do not") {
  Command command;
  for (const std::string& timed : {"tune " + chain("linear"), std::string("bench")}) {
    const CommandResult missing = command(timed);
    CHECK(missing.exit_code == 3);
    CHECK(has(missing.err, "[driver_missing]"));
    CHECK_FALSE(has(missing.err, "CATENARY_DEVICE"));  // which they refuse
  }
  expect_error(command("tune " + chain("linear"), "CATENARY_DEVICE=sim"), 2, {"keeps no time"});
  expect_error(command("tune"), 2, {"--list"});
  expect_error(command("tune --list --clear"), 2, {"--clear"});
  expect_error(command("tune --list", "CATENARY_TUNING=off"), 2, {"switched off", "rw"});
  CHECK(has(command("tune --list").out, "0 records"));

  const std::string text = file_text(kChains + "linear.chain");
  Expected<VerifiedChain> linear = verify(cantFail(parse(text)));
  REQUIRE(linear);
  const Target target = *find_target("h200");
  Expected<Plan> plan = make_plan(*linear, target);
  REQUIRE(plan);
  const KernelPlan& kernel = plan->buckets[0].kernels[0];
  TuningRecord record;
  record.signature = kernel.signature;
  record.target = target.name;
  record.arch = target.arch;
  record.sm_count = target.sm_count;
  record.templates = templates_digest();
  record.device = "NVIDIA H200";
  record.date = "2026-11-22T00:00:00Z";
  record.winner = record.model = llvm::find_if(kernel.candidates, [](const CandidateSummary& tile) {
                                   return tile.chosen;
                                 })->id;
  TuningOptions where;
  where.directory = command.path("cache/tuning");
  TuningStore store(where, "");
  REQUIRE_FALSE(static_cast<bool>(store.write(record)));
  const std::string explain = "explain " + chain("linear") + " --target h200";
  CHECK(has(command(explain + " --tuned").out, "tuned       measured (NVIDIA H200, 2026-11-22)"));
  CHECK_FALSE(has(command(explain).out, "tuned"));
  CHECK_FALSE(has(command(explain + " --tuned", "CATENARY_TUNING=off").out, "tuned"));
  CHECK(has(command("tune --list").out, "1 record in"));
  CHECK(has(command("tune --clear").out, "removed 1 record from"));
  CHECK(has(command("tune --list").out, "0 records"));
}
