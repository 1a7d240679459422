// SPDX-License-Identifier: Apache-2.0
// --json of every subcommand: stdout is one JSON object, of errors too.
#include "ir/json.h"
#include "ir/npy.h"
#include "tests/support/cli_command.h"

using namespace catenary;
using namespace catenary::test;
using llvm::json::Object;

namespace {

// stdout as an object; the test fails if it is anything else.
Object object_of(const CommandResult& result) {
  INFO(result.out);
  INFO(result.err);
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(result.out);
  if (!value) FAIL("stdout is no JSON: " << llvm::toString(value.takeError()));
  REQUIRE(value->getAsObject() != nullptr);
  return std::move(*value->getAsObject());
}

std::string text(const Object& object, const char* name) {
  return object.getString(name).getValueOr("").str();
}

i64 number(const Object& object, const char* name) {
  return object.getInteger(name).getValueOr(-1);
}

void check_error(const CommandResult& result, const char* code, int exit_code) {
  const Object root = object_of(result);
  const Object* error = root.getObject("error");
  REQUIRE(error != nullptr);
  CHECK(text(*error, "code") == code);
  CHECK(number(*error, "exit_code") == exit_code);
  CHECK(result.exit_code == exit_code);
  // The same sentence, for people.
  CHECK(has(result.err, text(*error, "message")));
}

}  // namespace

TEST_CASE("check and run") {
  Command command;
  const Object check = object_of(command("check --json --device ref " + chain("linear")));
  CHECK(text(check, "chain") == "linear");
  CHECK(text(check, "ran_on") == "the reference");
  CHECK(number(check, "kernels") == 0);
  REQUIRE(check.getArray("outputs") != nullptr);
  const Object& row = *(*check.getArray("outputs"))[0].getAsObject();
  CHECK(text(row, "name") == "y");
  CHECK(row.getBoolean("ok").getValueOr(false));
  CHECK(number(row, "elements") == 384);
  const std::string file = command.path("y.npy");
  const CommandResult ran =
      command(fmt::format("run --device ref {} --output y={} --json", chain("linear"), file));
  const Object run = object_of(ran);
  const Object& output = *(*run.getArray("outputs"))[0].getAsObject();
  CHECK(text(output, "file") == file);
  CHECK(output.getNumber("min").hasValue());
  CHECK(output.getArray("first")->size() == 4);
  if (!host_compiler_found(command)) return;
  const Object simulated =
      object_of(command("check --json --device sim --schedules 2 " + chain("scaled")));
  CHECK(has(text(simulated, "ran_on"), "the simulator"));
  CHECK(number(simulated, "schedules") == 2);
  CHECK(number(simulated, "kernels") == 1);
}

TEST_CASE("pack") {
  Command command;
  const std::string pack = command.path("a.ctnpack");
  const Object built = object_of(
      command(fmt::format("pack build --json --arch sm_80,h200 {} -o {}", chain("linear"), pack)));
  CHECK(text(built, "file") == pack);
  CHECK(text(built, "sha256").size() == 64);
  REQUIRE(built.getObject("manifest") != nullptr);
  const Object& manifest = *built.getObject("manifest");
  CHECK(number(manifest, "entries") == 2);
  // "nvrtc 13.0.88 CL-36424714" needs driver 13.0.
  const std::string compiler = (*manifest.getArray("compilers"))[0].getAsString()->str();
  const std::string driver = text(manifest, "min_driver");
  CHECK(has(compiler, "nvrtc " + driver.substr(0, driver.find('.')) + "."));
  const Object list = object_of(command("pack list --json " + pack));
  REQUIRE(list.getArray("entries") != nullptr);
  REQUIRE(list.getArray("entries")->size() == 2);
  const Object& entry = *(*list.getArray("entries"))[0].getAsObject();
  CHECK(text(entry, "chain") == "linear");
  CHECK(number(entry, "code_bytes") > 1000);
  const Object show =
      object_of(command(fmt::format("pack show --json {} {}", pack, text(entry, "key"))));
  CHECK(has(text(show, "text"), "chain linear"));
  CHECK(show.getArray("kernels")->size() == static_cast<size_t>(number(entry, "kernels")));
  const Object verified = object_of(command("pack verify --json " + pack));
  CHECK(text(verified, "sha256") == text(built, "sha256"));
  const Object same = object_of(command(fmt::format("pack diff --json {0} {0}", pack)));
  CHECK(same.getArray("changed")->empty());
  check_error(command("pack list --json " + command.path("absent")), "io", 2);
}

TEST_CASE("gradient") {
  Command command;
  const Object root = object_of(command("gradient --json " + chain("gradient/gated_mlp")));
  CHECK(number(root, "saved_bytes") == 8192);
  REQUIRE(root.getArray("chains") != nullptr);
  REQUIRE(root.getArray("chains")->size() == 3);
  const Object& wgrad = *(*root.getArray("chains"))[2].getAsObject();
  CHECK(text(wgrad, "pass") == "wgrad");
  const Object& operand = *wgrad.getArray("operands")->back().getAsObject();
  CHECK(text(operand, "kind") == "weight gradient");
  CHECK(number(operand, "index") == 3);
  const Object check =
      object_of(command("check --json --gradient --device ref " + chain("gradient/gated_mlp")));
  CHECK(number(check, "saved_bytes") == 8192);
  CHECK(check.getArray("outputs")->size() == 10);
  check_error(command("gradient --json --wrt q " + chain("linear")), "invalid_argument", 2);
}

TEST_CASE("compile and explain") {
  Command command;
  const Object root =
      object_of(command(fmt::format("compile --json {} --arch sm_80,h100 --emit source,cubin -o {}",
                                    chain("linear"), command.path("out"))));
  REQUIRE(root.getArray("targets") != nullptr);
  REQUIRE(root.getArray("targets")->size() == 2);
  const Object& second = *(*root.getArray("targets"))[1].getAsObject();
  CHECK(text(second, "target") == "h100");
  CHECK(text(second, "arch") == "sm_90a");
  const Object& kernel = *(*second.getArray("kernels"))[0].getAsObject();
  CHECK(number(kernel, "registers") > 0);
  CHECK(number(kernel, "cubin_bytes") > 0);
  const auto& files = *second.getObject("written")->getArray("files");
  REQUIRE(files.size() == 2);
  CHECK(std::filesystem::exists(files[0].getAsString().getValueOr("").str()));
  CHECK(text(object_of(command("explain --json " + chain("linear"))), "chain") == "linear");
}

TEST_CASE("doctor, cache, tune and bench") {
  Command command;
  REQUIRE(
      command(fmt::format("compile {} --arch sm_80 -o {}", chain("scaled"), command.path("out")))
          .exit_code == 0);
  const Object doctor = object_of(command("doctor --json"));
  CHECK(has(text(doctor, "version"), "0."));
  CHECK(doctor.getObject("nvrtc") != nullptr);
  CHECK(doctor.get("driver")->getAsNull().hasValue());
  CHECK(number(*doctor.getObject("cache"), "entries") == 1);
  CHECK(has(text(*doctor.getObject("cache"), "facts"), "mode 0700"));
  CHECK(doctor.getArray("advice") != nullptr);
  CHECK(text(object_of(command("cache path --json")), "directory") == command.path("cache"));
  CHECK(number(object_of(command("cache stats --json")), "entries") == 1);
  const Object list = object_of(command("cache list --json"));
  const Object& entry = *(*list.getArray("entries"))[0].getAsObject();
  CHECK(text(entry, "arch") == "sm_80");
  CHECK(text(entry, "problem").empty());
  CHECK(object_of(command("cache verify --json")).getArray("damaged")->empty());
  std::filesystem::resize_file(text(entry, "path"), 50);
  const CommandResult damaged = command("cache verify --json");
  check_error(damaged, "mismatch", 1);
  const Object verify = object_of(damaged);
  CHECK(text(*(*verify.getArray("damaged"))[0].getAsObject(), "path") == text(entry, "path"));
  CHECK(number(object_of(command("cache clear --json")), "removed") == 1);
  CHECK(number(object_of(command("cache prune --json")), "removed") == 0);
  CHECK(object_of(command("tune --list --json")).getArray("records")->empty());
  CHECK(number(object_of(command("tune --clear --json")), "removed") == 0);
  CHECK(object_of(command("bench --list --json")).getArray("cases")->size() > 100);
  const Object cost = object_of(command("bench --compile --quick --json"));
  REQUIRE(cost.getArray("compile") != nullptr);
  CHECK_FALSE(cost.getArray("compile")->empty());
}

TEST_CASE("errors, wherever they are found") {
  Command command;
  const CommandResult misspelt = command("check --json " + chain("unknown_op"));
  check_error(misspelt, "parse", 2);
  const Object at = *object_of(misspelt).getObject("error");
  CHECK(number(at, "line") == 2);
  CHECK(number(at, "column") == 7);
  CHECK(has(text(at, "file"), "unknown_op.chain"));
  check_error(command("explain --json /nonexistent.chain"), "io", 2);
  check_error(command("explain --jsom --json x"), "invalid_argument", 2);
  check_error(command("check --schedules 0 --json x"), "invalid_argument", 2);
  check_error(command("expalin --json"), "invalid_argument", 2);
  check_error(command("check --json --device cuda " + chain("linear")), "driver_missing", 3);
  check_error(command("bench --json --cases none"), "invalid_argument", 2);
  check_error(command("tune --json"), "invalid_argument", 2);
  const std::string compile =
      fmt::format("compile --json {} --arch sm_80 -o {}", chain("linear"), command.path("out"));
  check_error(command(compile, "CATENARY_NVRTC=/nonexistent"), "nvrtc_missing", 3);
  // What is no UTF-8 is replaced.
  check_error(command("explain --json '/none\xff'"), "io", 2);
}

TEST_CASE("explain says what one order of K costs") {
  Command command;
  const std::string file = chain("linear") + " --target h200";
  CHECK_FALSE(has(command("explain " + file).out, "one order of K"));
  const CommandResult result = command("explain --batch-invariant --json " + file);
  CHECK(result.exit_code == 0);
  CHECK(has(result.out, "one order of K for every M ("));
  CHECK(has(result.out, "% against the free choice)"));
}
