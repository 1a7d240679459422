// SPDX-License-Identifier: Apache-2.0
// What the command writes: standard streams that cannot be written change nothing else; files are
// checked before the work, and hold the old bytes or all of the new ones.
#include <csignal>

#include "ir/npy.h"
#include "tests/support/cli_command.h"

using namespace catenary;
using namespace catenary::test;

namespace {

// Runs a line of the shell in which $C is the command. Returns its exit code, -1 for a signal.
class Shell {
 public:
  int operator()(const std::string& line) {
    const std::string text =
        fmt::format("export CUDA_VISIBLE_DEVICES= CATENARY_CACHE_DIR='{}'; C='{}'; cd '{}'; {}",
                    folder_ / "cache", CATENARY_COMMAND, folder_.path(), line);
    const int status = ::system(text.c_str());
    return WIFEXITED(status) && WEXITSTATUS(status) < 128 ? WEXITSTATUS(status) : -1;
  }
  std::string text(const std::string& name) const { return file_text(folder_ / name); }
  std::string path(const std::string& name) const { return folder_ / name; }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
  int files() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }

 private:
  TempDir folder_;
};

// A chain whose symbol is over the limit of a warning: a cache folder that is not used.
const std::string kWarns =
    "CATENARY_CACHE_DIR=/dev/null $C compile --emit source,cubin --arch sm_80";

}  // namespace

TEST_CASE("a stderr that cannot be written changes no result") {
  Shell shell;
  const std::string linear = chain("linear");
  for (const char* lost : {"2>&-", "2>/dev/full"}) {
    INFO(lost);
    CHECK(shell(fmt::format("$C explain {} --target h200 > out {}", linear, lost)) == 0);
    CHECK(has(shell.text("out"), "gemm_sm80"));
    CHECK(shell(fmt::format("$C explain /nonexistent.chain > out {}", lost)) == 2);
    CHECK(shell(fmt::format("$C check --device cuda {} > out {}", linear, lost)) == 3);
    CHECK(shell(fmt::format("{} {} -o made > out {}", kWarns, linear, lost)) == 0);
    CHECK(has(shell.text("out"), "files written"));
    CHECK(shell(fmt::format("$C bench --compile --quick --cases x > out {}", lost)) == 2);
  }
}

TEST_CASE("with closed streams no file of the user gets a stream's number") {
  Shell shell;
  const std::string run = "$C run --device ref " + chain("linear") + " --output y=y.npy";
  CHECK(shell(run + " <&- 2>&- > out") == 0);
  Expected<NpyArray> y = read_npy(shell.path("y.npy"));
  REQUIRE(static_cast<bool>(y));
  // Without a stdout the results are lost, which is an error; the file is there.
  CHECK(shell("rm y.npy; " + run + " >&- 2> err") == 2);
  CHECK(has(shell.text("err"), "standard output could not be written"));
  Expected<NpyArray> again = read_npy(shell.path("y.npy"));
  REQUIRE(static_cast<bool>(again));
  CHECK(again->bytes == y->bytes);
}

TEST_CASE("a reader that closes its pipe does not end the work") {
  Shell shell;
  const std::string run = "$C run --device ref " + chain("linear") + " --output y=y.npy";
  // The reader has gone before the command starts.
  CHECK(shell("{ sleep 0.2; " + run +
              " 2> err; echo $? > code; } | true; sleep 0.1; "
              "while [ ! -s code ]; do sleep 0.1; done") == 0);
  CHECK(shell.text("code") == "0\n");
  CHECK(shell.text("err").empty());
  CHECK(shell.exists("y.npy"));
}

TEST_CASE("a limit of file sizes is a sentence, and the previous file stays") {
  Shell shell;
  const std::string run = "$C run --device ref " + chain("linear");
  REQUIRE(shell(run + " --output y=y.npy > out") == 0);
  const std::string before = shell.text("y.npy");
  REQUIRE(before.size() > 512);
  const int files = shell.files();
  // One block of 512 bytes.
  CHECK(shell("(ulimit -f 1; " + run + " --seed 7 --output y=y.npy > /dev/null 2> err)") == 2);
  CHECK(shell.text("y.npy") == before);
  CHECK(shell.files() == files + 1);  // err
  CHECK(shell("(ulimit -f 1; " + run + " --seed 7 --output y=y.npy 2>&1 | cat > err)") == 0);
  CHECK(has(shell.text("err"), "y.npy' could not be written (write: File too large)"));
  // Results that do not fit are reported like a full disk.
  CHECK(shell("(ulimit -f 1; $C explain " + chain("linear") + " --target h200 > out)") == 2);
  // The simulator's compiler writes too: the reference runs, and the output says why.
  if (shell("$C doctor | grep -q 'simulator missing'") == 0) return;
  CHECK(shell("(ulimit -f 1; $C check " + chain("linear") + " | cat > out)") == 0);
  CHECK(has(shell.text("out"), "the simulator cannot run ("));
  CHECK(has(shell.text("out"), "File too large"));
}

TEST_CASE("a path that cannot be written is found before the work") {
  Shell shell;
  const std::string linear = chain("linear");
  CHECK(shell("$C run --device ref " + linear + " --output y=none/y.npy > out 2> err") == 2);
  CHECK(has(shell.text("err"), "'none/y.npy'"));
  CHECK(shell.text("out").empty());
  CHECK(shell("mkdir folder; $C run --device ref " + linear + " --output y=folder > out 2> err") ==
        2);
  CHECK(has(shell.text("err"), "it is a folder"));
  CHECK(shell("echo x > file; $C check --device ref " + linear + " --dump file/d > out 2> err") ==
        2);
  CHECK(has(shell.text("err"), "'file/d'"));
  CHECK(shell.text("out").empty());
  CHECK(shell("$C compile --arch sm_80 " + linear + " -o made --dump file > out 2> err") == 2);
  CHECK(shell.text("out").empty());
  CHECK(shell("$C tune " + linear + " --output none/t.json > out 2> err") == 2);
  CHECK(has(shell.text("err"), "'none/t.json'"));
  CHECK(shell("$C bench --compile --quick --out file/b.json > out 2> err") == 2);
  CHECK(has(shell.text("err"), "'file/b.json'"));
  CHECK(shell.text("out").empty());
  CHECK_FALSE(has(shell.text("err"), "compiling"));
}

TEST_CASE("two outputs never share a file") {
  Shell shell;
  std::ofstream(shell.path("two.chain"))
      << "chain two(input x: f32[4]) {\n  y = relu(x)\n  z = exp(x)\n  return y: f32, z: f32\n}\n";
  CHECK(shell("$C run --device ref two.chain --output y=a.npy --output z=a.npy > out 2> err") == 2);
  CHECK(has(shell.text("err"), "'a.npy' twice"));
  CHECK_FALSE(shell.exists("a.npy"));
  // Other spellings of one path, and a link.
  REQUIRE(shell("mkdir d; ln -s a.npy link.npy; ln -s . here") == 0);
  for (const char* other : {"./a.npy", "d/../a.npy", "$PWD/a.npy", "link.npy", "here/a.npy"}) {
    INFO(other);
    CHECK(shell(fmt::format("$C run --device ref two.chain --output y=a.npy --output z={} "
                            "> out 2> err",
                            other)) == 2);
    CHECK(has(shell.text("err"), "a file of its own"));
    CHECK_FALSE(shell.exists("a.npy"));
  }
  CHECK(shell("$C run --device ref two.chain --output y=a.npy --output z=d/a.npy > out") == 0);
}

TEST_CASE("an output never takes the place of what the command reads") {
  Shell shell;
  const std::string text = "chain one(input x: f32[4]) {\n  y = relu(x)\n  return y: f32\n}\n";
  std::ofstream(shell.path("one.chain")) << text;
  CHECK(shell("$C run --device ref one.chain --output y=./one.chain > out 2> err") == 2);
  CHECK(has(shell.text("err"), "'./one.chain', which is the chain: give another path"));
  CHECK(shell.text("one.chain") == text);
  REQUIRE(shell("$C run --device ref one.chain --output y=x.npy > out") == 0);
  const std::string x = shell.text("x.npy");
  for (const char* input : {"x=x.npy", "x=x.npy:round"}) {
    CHECK(shell(fmt::format("$C run --device ref one.chain --input {} --output y=./x.npy "
                            "> out 2> err",
                            input)) == 2);
    CHECK(has(shell.text("err"), "'./x.npy', which is the input of 'x'"));
    CHECK(shell.text("x.npy") == x);
  }
}

TEST_CASE("a pack, its object and its header are three files") {
  Shell shell;
  std::ofstream(shell.path("p.ctnpack")) << "pack";
  for (const char* files :
       {"-o o.o --header ./o.o", "-o ./p.ctnpack", "-o o.o --header p.ctnpack"}) {
    INFO(files);
    CHECK(shell(fmt::format("$C pack object p.ctnpack {} > out 2> err", files)) == 2);
    CHECK(
        (has(shell.text("err"), "the object and the header: give each a path of its own") ||
         has(shell.text("err"), "p.ctnpack' is the pack itself: give the object and the header")));
    CHECK(shell.text("p.ctnpack") == "pack");
    CHECK_FALSE(shell.exists("o.o"));
  }
}

TEST_CASE("colour only where it is wanted, and never in JSON") {
  Command command;
  const std::string linear = chain("linear");
  const auto colored = [](const std::string& text) { return has(text, "\x1b["); };
  const std::string check = "check --device ref " + linear;
  CHECK_FALSE(colored(command(check).out));
  CHECK(colored(command(check + " --color always").out));
  CHECK(colored(command(check, "CLICOLOR_FORCE=1").out));
  CHECK_FALSE(colored(command(check + " --color never", "CLICOLOR_FORCE=1").out));
  CHECK_FALSE(colored(command(check, "CLICOLOR_FORCE=1 NO_COLOR=1").out));
  CHECK_FALSE(colored(command(check + " --json --color always").out));
  const std::string wrong = "explain /nonexistent.chain";
  CHECK_FALSE(colored(command(wrong).err));
  CHECK(
      has(command(wrong + " --color=always").err, "\x1b[1;31merror:\x1b[0m '/nonexistent.chain'"));
  expect_error(command(check + " --color sometimes"), 2, {"--color", "sometimes", "always"});
}

TEST_CASE("bench --compile needs no GPU, and writes a record only with --out") {
  Command command;
  const CommandResult shown = command("bench --compile --quick");
  CHECK(shown.exit_code == 0);
  CHECK(has(shown.out, "gemm_bias_gelu"));
  CHECK_FALSE(has(shown.err, "wrote"));
  const std::string record = command.path("compile.json");
  CHECK(command("bench --compile --quick --out '" + record + "'").exit_code == 0);
  CHECK(has(file_text(record), "\"compile\""));
}
