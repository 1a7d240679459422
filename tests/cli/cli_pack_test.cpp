// SPDX-License-Identifier: Apache-2.0
// `catenary pack`: packs are built, shown, compared and changed; the examples run from a pack in an
// environment without a compiler; a list of misses is built and then complete.
#include <fstream>
#include <sstream>

#include "catenary/pack.hpp"
#include "ir/json.h"
#include "tests/support/cli_command.h"

using namespace catenary;
using namespace catenary::test;

namespace {

const std::vector<std::string> kExamples = {"pseudo_linear", "grouped_linear", "geglu_mlp",
                                            "moe_linear", "small_batch"};

std::string example_chain(const std::string& name) {
  return fmt::format("'{}/examples/{}.chain'", CATENARY_SOURCE_DIR, name);
}

std::string first_key(const std::string& list) { return list.substr(0, 16); }

int count_lines(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

#ifdef CATENARY_EXAMPLE_PREFIX
// An example without any environment but `variables`: no path, no home, no cache.
CommandResult run_example(const std::string& name, const TempDir& folder,
                          const std::string& variables) {
  return run_command(
      "/usr/bin/env", folder,
      fmt::format("-i CATENARY_DEVICE=sim {} '{}{}'", variables, CATENARY_EXAMPLE_PREFIX, name));
}
#endif

}  // namespace

TEST_CASE("a pack of two chains for the simulator, and what its commands say of it") {
  Command command;
  if (!host_compiler_found(command)) return;
  const std::string build = fmt::format("pack build --simulator --arch h200,sm_80 {} {} -o ",
                                        chain("linear"), chain("scaled"));
  const CommandResult built = command(build + command.path("a.ctnpack") + " --jobs 1");
  INFO(built.err);
  REQUIRE(built.exit_code == 0);
  CHECK(has(built.out, "4 entries"));
  CHECK(has(built.out, "host:sm_90a"));
  REQUIRE(command(build + command.path("b.ctnpack") + " --jobs 3").exit_code == 0);
  CHECK(file_text(command.path("a.ctnpack")) == file_text(command.path("b.ctnpack")));
  const std::string a = command.path("a.ctnpack");

  const CommandResult list = command("pack list " + a);
  CHECK(list.exit_code == 0);
  CHECK(count_lines(list.out) == 5);
  const std::string key = first_key(list.out);
  const CommandResult show = command(fmt::format("pack show {} {}", a, key));
  CHECK(show.exit_code == 0);
  for (const char* part : {"chain ", "registers", "made by catenary", "fuse=1"}) {
    CHECK(has(show.out, part));
  }
  expect_error(command(fmt::format("pack show {} 0123456789", a)), 2, {"no key of the pack"});
  expect_error(command(fmt::format("pack show {} ''", a)), 2, {"more than one key"});

  const CommandResult verified = command("pack verify " + a);
  CHECK(verified.exit_code == 0);
  const std::string digest = verified.out.substr(verified.out.find("sha256 ") + 7, 64);
  CHECK(command(fmt::format("pack verify {} --sha256 {}", a, digest)).exit_code == 0);
  expect_error(command(fmt::format("pack verify {} --sha256 {}", a, std::string(64, '0'))), 2,
               {"its SHA-256 is"});

  REQUIRE(command(fmt::format("pack split {} -o {}", a, command.path("parts"))).exit_code == 0);
  const std::string part = command.path("parts/a.host-sm_");
  REQUIRE(command(fmt::format("pack merge {0}80.ctnpack {0}90a.ctnpack {0}80.ctnpack -o {1}", part,
                              command.path("merged.ctnpack")))
              .exit_code == 0);
  CHECK(file_text(command.path("merged.ctnpack")) == file_text(a));
  CHECK(command(fmt::format("pack diff {} {}", a, command.path("merged.ctnpack"))).exit_code == 0);
  const CommandResult differ = command(fmt::format("pack diff {} {}80.ctnpack", a, part));
  CHECK(differ.exit_code == 1);
  CHECK(count_lines(differ.out) == 2);
  for (const char* word : {"host:sm_90a", "h200", "132 SMs", "linear", "scaled"}) {
    CHECK(has(differ.out, word));
  }
  REQUIRE(command(fmt::format("pack extract {} {} -o {}", a, key, command.path("one.ctnpack")))
              .exit_code == 0);
  CHECK(has(command("pack list " + command.path("one.ctnpack")).out, key));
  const CommandResult code =
      command(fmt::format("pack extract {} {} --code {}", a, key, command.path("code")));
  CHECK(code.exit_code == 0);
  CHECK(has(code.out, ".so"));
  expect_error(command(fmt::format("pack extract {} {}", a, key)), 2, {"writes one thing"});
}

// They have one architecture, and so one key.
TEST_CASE("entries of one chain for two GPUs are told apart by the GPU") {
  Command command;
  if (!host_compiler_found(command)) return;
  const std::string pack = command.path("a.ctnpack");
  const CommandResult built = command(
      fmt::format("pack build --simulator --arch h200,h100,a100 {} -o {}", chain("linear"), pack));
  INFO(built.err);
  REQUIRE(built.exit_code == 0);
  CHECK(has(built.out, "host:sm_80     1 entry\n"));
  CHECK(has(built.out, "host:sm_90a    2 entries\n"));
  const std::string list = command("pack list " + pack).out;
  const std::string key = first_key(list.substr(list.rfind('\n', list.find("  h100")) + 1));
  expect_error(command(fmt::format("pack show {} {}", pack, key)), 2,
               {"has 2 entries with the key '" + key + "'", "as in " + key + "@h"});
  const CommandResult show = command(fmt::format("pack show {} {}@h100", pack, key));
  CHECK(show.exit_code == 0);
  CHECK(has(show.out, "(h100, 132 SMs)"));
  const std::string one = command.path("one.ctnpack");
  REQUIRE(command(fmt::format("pack extract {} {}@h100 -o {}", pack, key, one)).exit_code == 0);
  CHECK(has(command("pack list " + one).out, "h100 "));
  expect_error(command(fmt::format("pack show {} {}@132", pack, key)), 2, {"2 entries"});
  expect_error(command(fmt::format("pack show {} {}@l4", pack, key)), 2, {"no key", "@l4"});
  expect_error(command(fmt::format("pack show {} ''", pack)), 2, {"more than one key"});
}

namespace {

// y = relu(x + number), 64 elements.
ctn::Chain shifted(int number) {
  ctn::Chain c("shifted" + std::to_string(number));
  auto x = c.input("x", ctn::f32, {64});
  c.output(ctn::relu(x + c.constant(number)), ctn::f32);
  return c;
}

ctn::Engine strict_engine() {
  ctn_engine_options options{};
  options.cache_mode = CTN_CACHE_OFF;
  options.jit = CTN_JIT_OFF;
  return ctn::Engine(options);
}

}  // namespace

TEST_CASE("ten unknown chains are all named, built from the list of misses, and run") {
  Command command;
  if (!host_compiler_found(command)) return;
  ::setenv("CATENARY_DEVICE", "sim", 1);
  const ctn::Engine missing = strict_engine();
  for (int i = 0; i < 10; ++i) {
    try {
      missing.prepare(shifted(i), 0);
      FAIL("chain " << i << " was compiled");
    } catch (const ctn::Error& error) {
      CHECK(error.code() == CTN_PACK_MISS);
      CHECK(has(error.what(), "chain 'shifted" + std::to_string(i) + "'"));
    }
  }
  const std::string missed = ctn::missed(missing);
  CHECK(count_lines(missed) == 10);
  std::ofstream(command.path("misses.ctrace")) << missed;
  const CommandResult built = command(fmt::format(
      "pack build --from {} -o {}", command.path("misses.ctrace"), command.path("ten.ctnpack")));
  INFO(built.err);
  REQUIRE(built.exit_code == 0);

  const ctn::Engine strict = strict_engine();
  ctn::add_pack(strict, ctn::Pack(command.path("ten.ctnpack")));
  ctn::Buffer x(0, std::vector<float>(64, -4.0f));
  ctn::Buffer y(0, 64 * sizeof(float));
  ctn::Stream stream(0);
  for (int i = 0; i < 10; ++i) {
    strict.prepare(shifted(i), 0).launch(stream.get(), {x.get(), y.get()});
    std::vector<float> result(64);
    y.download(result.data());
    CHECK(result[63] == static_cast<float>(std::max(0, i - 4)));
  }
  CHECK(ctn::missed(strict).empty());
  ::unsetenv("CATENARY_DEVICE");
}

TEST_CASE("run and check take the kernels from a pack, and say which entry") {
  Command command;
  if (!host_compiler_found(command)) return;
  const std::string pack = command.path("a.ctnpack");
  const CommandResult built = command(
      fmt::format("pack build --simulator --arch h200 {} -o {} --json", chain("linear"), pack));
  REQUIRE(built.exit_code == 0);
  const std::string key = first_key(command("pack list " + pack).out);
  const std::string entry = fmt::format("is entry {} of the pack {}", key, pack);
  const std::string no_compiler = std::string(kNoCompiler) + " CATENARY_CACHE=off ";
  for (const char* name : {"run", "check"}) {
    CAPTURE(name);
    const std::string arguments = fmt::format("{} --device sim {}", name, chain("linear"));
    const CommandResult by_option = command(arguments + " --pack " + pack, no_compiler);
    INFO(by_option.err);
    CHECK(by_option.exit_code == 0);
    CHECK(has(by_option.out, entry));
    const CommandResult by_variable =
        command(arguments + " --json", no_compiler + "CATENARY_JIT=off CATENARY_PACK_PATH=" + pack);
    CHECK(by_variable.exit_code == 0);
    CHECK(has(by_variable.out, "\"from\": \"entry " + key));
    // Without a compiler no cache is needed, so that none is missed.
    const std::string homeless = "HOME= XDG_CACHE_HOME= CATENARY_CACHE_DIR= ";
    const std::string missing = "no folder for the cache is known";
    CHECK(has(command(arguments + " --pack " + pack, homeless).err, missing));
    CHECK_FALSE(
        has(command(arguments + " --pack " + pack, homeless + "CATENARY_JIT=off").err, missing));
    // What the pack does not have.
    const std::string missed = fmt::format("{} --device sim {}", name, chain("scaled"));
    expect_error(command(missed + " --pack " + pack, no_compiler + "CATENARY_JIT=off"), 3,
                 {"for the simulator of sm_90a is in no pack, and compiling is off"});
    const CommandResult compiled = command(missed + " --pack " + pack);
    CHECK(compiled.exit_code == 0);
    CHECK(has(compiled.err, "is in no pack, and is compiled"));
    expect_error(command(arguments + " --pack " + command.path("absent")), 2,
                 {"cannot open the pack"});
    expect_error(command(fmt::format("{} --device ref {} --pack {}", name, chain("linear"), pack)),
                 2, {"the reference runs none"});
  }
}

TEST_CASE("a chain file is built for sizes and ranges of its symbol") {
  Command command;
  if (!host_compiler_found(command)) return;
  const std::string file = command.path("rows.chain");
  std::ofstream(file) << "chain rows[M in 1..8](input x: f32[M, 64]) {\n  y = relu(x)\n"
                         "  return y: f32\n}\n";
  const std::string pack = command.path("a.ctnpack");
  const std::string build =
      fmt::format("pack build --simulator --arch h200 '{}' -o {}", file, pack);
  const CommandResult built = command(build + " --symbol 1..16,24");
  INFO(built.err);
  REQUIRE(built.exit_code == 0);
  const CommandResult list = command("pack list " + pack);
  CHECK(count_lines(list.out) == 3);
  CHECK(has(list.out, "rows, M in 1..16, x: f32[M, 64]\n"));
  CHECK(has(list.out, "rows, x: f32[24, 64]\n"));
  CHECK_FALSE(has(list.out, "1..8"));
  // The entry without a symbol is the chain with that size.
  std::ofstream(command.path("fixed.chain")) << "chain fixed(input x: f32[24, 64]) {\n"
                                                "  y = relu(x)\n  return y: f32\n}\n";
  const CommandResult fixed =
      command(fmt::format("run --device sim {} --pack {}", command.path("fixed.chain"), pack),
              "CATENARY_JIT=off");
  INFO(fixed.err);
  CHECK(fixed.exit_code == 0);
  for (const char* wrong :
       {"8..1", "x", "1..", "..4", "-1..4", "1...4", "''", "1..4,,5", "1..4,", ",5"}) {
    CAPTURE(wrong);
    const CommandResult refused = command(fmt::format("{} --symbol={}", build, wrong));
    CHECK(refused.exit_code == 2);
    CHECK(has(refused.err, "--symbol"));
  }
  expect_error(command(build + " --symbol 1..4294967296"), 2, {"give bounds"});
  expect_error(command(build + " --symbol 1..4,,5"), 2, {"'1..4,,5' has an empty part"});
}

// Not that of this machine's GPU: a program in the simulator would not find its chains.
TEST_CASE("a pack for the simulator is for the GPU that it simulates") {
  Command command;
  if (!host_compiler_found(command)) return;
  const std::string pack = command.path("a.ctnpack");
  const std::string build = fmt::format("pack build --simulator {} -o {}", chain("linear"), pack);
  const CommandResult built = command(build, "CATENARY_SIM_TARGET=a100");
  INFO(built.err);
  REQUIRE(built.exit_code == 0);
  CHECK(has(built.out, "host:sm_80"));
  const CommandResult ran =
      command(fmt::format("run --device sim {} --pack {}", chain("linear"), pack),
              "CATENARY_SIM_TARGET=a100 CATENARY_JIT=off");
  INFO(ran.err);
  CHECK(ran.exit_code == 0);
  expect_error(command(build, "CATENARY_SIM_TARGET=x100"), 2, {"CATENARY_SIM_TARGET", "x100"});
}

TEST_CASE("options of chain files are refused where they would do nothing") {
  Command command;
  const std::string pack = command.path("x.ctnpack");
  const std::string build = fmt::format("pack build --simulator {} -o {}", chain("linear"), pack);
  expect_error(command(build + " --symbol 1..4"), 2, {"--symbol", "no chain file has a symbolic"});
  expect_error(command(build + " --arch h200,,sm_80"), 2, {"'h200,,sm_80' has an empty part"});
  std::ofstream(command.path("run.ctrace")) << "\n";
  for (const char* option : {"--arch sm_80", "--symbol 1..4", "--simulator", "--batch-invariant"}) {
    CAPTURE(option);
    expect_error(command(fmt::format("pack build --from {} -o {} {}", command.path("run.ctrace"),
                                     pack, option)),
                 2, {std::string(option, std::strcspn(option, " ")).c_str(), "is for chain files"});
  }
  CHECK_FALSE(command.exists("x.ctnpack"));
}

TEST_CASE("wrong use of catenary pack") {
  Command command;
  expect_error(command("pack build -o " + command.path("x.ctnpack")), 2, {"nothing to build"});
  expect_error(command(fmt::format("pack build {} -o {}", chain("linear"),
                                   command.path("absent/x.ctnpack"))),
               2, {"absent"});
  expect_error(
      command(fmt::format("pack build {} -o {}", chain("unknown_op"), command.path("x.ctnpack"))),
      2, {"unknown_op.chain:"});
  std::ofstream(command.path("bad.ctrace")) << "\n{\"chain\": 5}\n";
  expect_error(command(fmt::format("pack build --from {} -o {}", command.path("bad.ctrace"),
                                   command.path("x.ctnpack"))),
               2, {"line 2 of", "it is no line of a trace"});
  expect_error(command("pack list " + command.path("absent")), 2, {"cannot open the pack"});
  expect_error(command("pack list " + command.path("")), 2, {"is a folder"});
  expect_error(command("pack verify " + chain("linear")), 2, {"it is no pack"});
  CHECK_FALSE(command.exists("x.ctnpack"));
}

#ifdef CATENARY_EXAMPLE_PREFIX
TEST_CASE("no pack is written when a chain fails, unless the others are wanted") {
  Command command;
  if (!host_compiler_found(command)) return;
  const std::string trace = command.path("run.ctrace");
  const TempDir folder;
  run_example("small_batch", folder, "CATENARY_JIT=off CATENARY_TRACE=" + trace);
  std::string line = file_text(trace);
  REQUIRE(has(line, "\"force_tile\":\"\""));
  line.replace(line.find("\"force_tile\":\"\""), 15, "\"force_tile\":\"none\"");
  std::ofstream(trace, std::ios::app) << line;
  const std::string build =
      fmt::format("pack build --from {} -o {}", trace, command.path("x.ctnpack"));
  const CommandResult failed = command(build);
  CHECK(failed.exit_code == 2);
  CHECK(has(failed.err, "1 of 2 chains was not compiled, so no pack was written"));
  CHECK_FALSE(command.exists("x.ctnpack"));
  const CommandResult partly = command(build + " --keep-going --json");
  CHECK(partly.exit_code == 1);
  CHECK(command.exists("x.ctnpack"));
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(partly.out);
  REQUIRE(static_cast<bool>(json));
  REQUIRE(json->getAsObject()->getArray("failed") != nullptr);
  CHECK(json->getAsObject()->getArray("failed")->size() == 1);
}

TEST_CASE("a pack as an object file") {
  Command command;
  if (!host_compiler_found(command)) return;
  const std::string pack = command.path("layers.ctnpack");
  const std::string build = fmt::format("pack build --simulator {} -o {}", chain("linear"), pack);
  REQUIRE(command(build).exit_code == 0);
  const std::string object = command.path("a.o");
  const std::string header = command.path("a.h");
  const CommandResult made =
      command(fmt::format("pack object {} -o {} --header {}", pack, object, header));
  CHECK(made.exit_code == 0);
  CHECK(has(made.out, "ctn_pack_layers"));
  CHECK(has(file_text(header), "ctn_pack_layers_end"));
  CHECK(has(file_text(object), file_text(pack)));
  const std::pair<const char*, const char*> wrong[] = {{"--name 7b", "'7b'"},
                                                       {"--machine vax", "'vax'"}};
  for (const auto& [option, part] : wrong) {
    const CommandResult refused =
        command(fmt::format("pack object {} -o {} {}", pack, command.path("b.o"), option));
    CHECK(refused.exit_code == 2);
    CHECK(has(refused.err, part));
    CHECK_FALSE(command.exists("b.o"));
  }
  std::string damaged = file_text(pack);
  damaged[damaged.size() / 2] ^= 1;
  std::ofstream(command.path("bad.ctnpack"), std::ios::binary) << damaged;
  const CommandResult refused = command(
      fmt::format("pack object {} -o {}", command.path("bad.ctnpack"), command.path("b.o")));
  CHECK(refused.exit_code != 0);
  CHECK(has(refused.err, "bad.ctnpack"));
  CHECK_FALSE(command.exists("b.o"));
}

TEST_CASE("the examples run from one pack in an environment without a compiler") {
  Command command;
  if (!host_compiler_found(command)) return;
  const TempDir folder;
  const std::string trace = command.path("run.ctrace");
  const std::string pack = command.path("examples.ctnpack");
  // Without a pack every one is missed: the trace has what they asked for.
  for (const std::string& name : kExamples) {
    const CommandResult missed =
        run_example(name, folder, "CATENARY_JIT=off CATENARY_TRACE=" + trace);
    CHECK(missed.exit_code != 0);
    CHECK(has(missed.out + missed.err, "no pack was given"));
  }
  CHECK(count_lines(file_text(trace)) == 5);
  const CommandResult built = command(fmt::format("pack build --from {} -o {}", trace, pack));
  INFO(built.err);
  REQUIRE(built.exit_code == 0);
  CHECK(command(fmt::format("pack check {} {}", trace, pack)).exit_code == 0);
  for (const std::string& name : kExamples) {
    CAPTURE(name);
    const CommandResult ran =
        run_example(name, folder, "CATENARY_JIT=off CATENARY_PACK_PATH=" + pack);
    INFO(ran.out);
    INFO(ran.err);
    CHECK(ran.exit_code == 0);
    CHECK(has(ran.out, "elements compared, 0 wrong"));
  }
}

TEST_CASE("check names what packs do not have, and writes it as a trace") {
  Command command;
  if (!host_compiler_found(command)) return;
  const TempDir folder;
  const std::string trace = command.path("run.ctrace");
  for (const std::string& name : kExamples) {
    run_example(name, folder, "CATENARY_JIT=off CATENARY_TRACE=" + trace);
  }
  const std::string one = command.path("one.ctnpack");
  REQUIRE(command(fmt::format("pack build --simulator --arch h200 {} -o {}",
                              example_chain("pseudo_linear"), one))
              .exit_code == 0);
  const std::string misses = command.path("misses.ctrace");
  const CommandResult checked =
      command(fmt::format("pack check {} {} --misses {}", trace, one, misses));
  CHECK(checked.exit_code == 1);
  CHECK(count_lines(file_text(misses)) >= 4);
  CHECK(has(checked.out, "chain 'geglu_mlp'"));
  const std::string rest = command.path("rest.ctnpack");
  REQUIRE(command(fmt::format("pack build --from {} -o {}", misses, rest)).exit_code == 0);
  CHECK(command(fmt::format("pack check {} {} {}", trace, one, rest)).exit_code == 0);
}
#endif
