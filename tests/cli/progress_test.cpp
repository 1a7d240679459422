// SPDX-License-Identifier: Apache-2.0
// Progress and colour: what is shown, where, and when nothing is.
#include "tools/progress.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "tests/support/scoped_stderr.h"
#include "tools/output.h"
#include "tools/terminal.h"

using namespace catenary;
using namespace catenary::tools;
using std::chrono::milliseconds;
using test::has;

namespace {

// Shows as soon as something can be shown.
constexpr ProgressTimes kAtOnce = {milliseconds(1), milliseconds(1), milliseconds(1)};
}  // namespace

TEST_CASE("a line has the share and the time that is left") {
  CHECK(progress_line({"running", 0.25, 10, 0}) == "running: 25%, 10 s, about 30 s left");
  CHECK(progress_line({"running", 0, 10, 0}) == "running: 10 s");
  CHECK(progress_line({"running", 0.01, 30, 0}) == "running: 1%, 30 s, about 49 min 30 s left");
  // Work that ends after a given time at the latest.
  CHECK(progress_line({"running", 0.25, 8, 10}) == "running: 25%, 8 s, about 2 s left");
  CHECK(progress_line({"running", 0.5, 12, 10}) == "running: 50%, 12 s, about 0 s left");
  CHECK(duration_text(59.4) == "59 s");
  CHECK(duration_text(59.6) == "1 min 00 s");
  CHECK(duration_text(3725) == "1 h 02 min");
}

TEST_CASE("a bar fits the terminal") {
  const ProgressState state{"running the kernels", 0.5, 10, 0};
  CHECK(progress_bar(state, 100) ==
        "running the kernels [###############...............]  50%, 10 s, about 10 s left");
  CHECK(progress_bar(state, 65) ==
        "running the kernels [#######........]  50%, 10 s, about 10 s left");
  for (int columns = 0; columns < 100; ++columns) {
    CHECK(static_cast<int>(progress_bar(state, columns).size()) <= columns);
  }
  // The numbers stay longest.
  CHECK(progress_bar(state, 32) == "runn  50%, 10 s, about 10 s left");
  CHECK(progress_bar({"compiling", 0, 3, 0}, 80) == "compiling 3 s");
}

TEST_CASE("elsewhere than on a terminal progress is lines") {
  test::PipedStderr stream;
  Progress progress("working", 4, 0, kAtOnce);
  progress.advance();
  const std::string text = stream.read_until("25%");
  CHECK(has(text, "catenary: working: "));
  CHECK_FALSE(has(text, "\r"));
  CHECK_FALSE(has(text, "\x1b"));
}

TEST_CASE("on a terminal progress is a bar, which other text and the end erase") {
  const test::ScopedEnv kind("TERM", "xterm");
  test::TerminalStderr stream;
  {
    Progress progress("working", 4, 0, kAtOnce);
    progress.set(2, 4);
    CHECK(has(stream.read_until("50%"), "\rworking [###############..............."));
    write_stderr("a warning\n");
    // Erased before the text, and not after some of it.
    CHECK(has(stream.read_until("a warning"), "\r\x1b[Ka warning"));
    progress.set_what("still working");
    progress.set(3, 4);
    CHECK(has(stream.read_until("75%"), "still working"));
  }
  write_stderr("end\n");
  CHECK(has(stream.read_until("end"), "\r\x1b[Kend"));
}

TEST_CASE("a terminal that cannot move its cursor gets lines") {
  const test::ScopedEnv kind("TERM", "dumb");
  test::TerminalStderr stream;
  Progress progress("working", 4, 0, kAtOnce);
  progress.set(2, 4);
  const std::string text = stream.read_until("50%");
  CHECK(has(text, "catenary: working: "));
  CHECK_FALSE(has(text, "\x1b"));
}

TEST_CASE("a part counts within the unit of the whole, and shows nothing") {
  test::PipedStderr stream;
  Progress whole("the whole", 4, 0, kAtOnce);
  whole.advance();
  {
    Progress part("a part", 0, 0, kAtOnce);
    Progress::tell_innermost(1, 2);
    const std::string text = stream.read_until("38%");  // 1.5 of 4
    CHECK_FALSE(has(text, "a part"));
  }
  {
    // Of the same unit: the share does not go back.
    Progress part("another part", 100, 0, kAtOnce);
    part.advance();
    CHECK_FALSE(has(stream.read_lines(5), "a part"));
    CHECK_FALSE(has(stream.read_lines(5), "25%"));
  }
  whole.advance();
  stream.read_until("50%");
}

TEST_CASE("a stderr that cannot be written, or whose reader has stopped, delays nothing") {
  SUBCASE("a full pipe") {
    test::PipedStderr stream;
    stream.fill();
    CHECK_FALSE(stderr_has_room());
    Progress progress("working", 4, 0, kAtOnce);
    ::usleep(20'000);  // some lines are due; the destructor then joins their thread
  }
  SUBCASE("a full disk") {
    test::FileStderr stream("/dev/full");
    Progress progress("working", 4, 0, kAtOnce);
    ::usleep(20'000);
  }
  SUBCASE("no terminal for the bar") {
    const test::ScopedEnv kind("TERM", "xterm");
    test::TerminalStderr stream;
    stream.hang_up();
    Progress progress("working", 4, 0, kAtOnce);
    ::usleep(20'000);
  }
}

TEST_CASE("colour follows --color, then NO_COLOR, CLICOLOR_FORCE, CLICOLOR, then the terminal") {
  const test::ScopedEnv kind("TERM", "xterm");
  test::TerminalStderr terminal;
  const auto shows = [] { return colored(STDERR_FILENO, Color::kRed, "x") != "x"; };
  const std::string place = "f:1:2: error: no\n  text\n   ^";
  CHECK(shows());
  CHECK(colored_error(STDERR_FILENO, place) ==
        "\x1b[1mf:1:2: \x1b[0m\x1b[1;31merror:\x1b[0m no\n  text\n   \x1b[1;31m^\x1b[0m");
  CHECK(colored_error(STDERR_FILENO, "catenary: error: no ^") ==
        "\x1b[1mcatenary: \x1b[0m\x1b[1;31merror:\x1b[0m no ^");
  {
    const test::ScopedEnv none("NO_COLOR", "1");
    const test::ScopedEnv force("CLICOLOR_FORCE", "1");
    CHECK_FALSE(shows());
    CHECK(colored_error(STDERR_FILENO, place) == place);
    choose_color(ColorChoice::kAlways);
    CHECK(shows());
  }
  choose_color(ColorChoice::kNever);
  CHECK_FALSE(shows());
  choose_color(ColorChoice::kAuto);
  {
    const test::ScopedEnv off("CLICOLOR", "0");
    CHECK_FALSE(shows());
    const test::ScopedEnv force("CLICOLOR_FORCE", "1");
    CHECK(shows());
  }
  {
    const test::ScopedEnv dumb("TERM", "dumb");
    CHECK_FALSE(shows());
  }
  test::PipedStderr pipe;
  CHECK_FALSE(shows());
  const test::ScopedEnv force("CLICOLOR_FORCE", "1");
  CHECK(shows());
}

TEST_CASE("with --json there is no progress") {
  test::PipedStderr stream;
  use_json();
  {
    Progress progress("working", 4, 0, kAtOnce);
    progress.advance();
    ::usleep(20'000);
  }
  write_stderr("end\n");
  CHECK(stream.read_until("end") == "end\n");
}
