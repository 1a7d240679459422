// SPDX-License-Identifier: Apache-2.0
#include "tools/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>

#include "compiler/compile/environment.h"

namespace catenary::tools {
namespace {

constexpr int kUsualColumns = 80;

ColorChoice chosen = ColorChoice::kAuto;

bool has_color(int descriptor) {
  if (chosen != ColorChoice::kAuto) return chosen == ColorChoice::kAlways;
  if (!environment("NO_COLOR").empty()) return false;
  const std::string force = environment("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  return environment("CLICOLOR") != "0" && is_terminal(descriptor);
}

const char* escape_of(Color color) {
  switch (color) {
    case Color::kBold:
      return "\x1b[1m";
    case Color::kRed:
      return "\x1b[1;31m";
    case Color::kGreen:
      return "\x1b[32m";
    case Color::kYellow:
      return "\x1b[1;33m";
  }
  return "";
}

}  // namespace

bool is_terminal(int descriptor) {
  const std::string kind = environment("TERM");
  return !kind.empty() && kind != "dumb" && ::isatty(descriptor) == 1;
}

int terminal_columns(int descriptor) {
  winsize size = {};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsualColumns;
}

void choose_color(ColorChoice choice) { chosen = choice; }

std::string colored(int descriptor, Color color, std::string_view text) {
  if (text.empty() || !has_color(descriptor)) return std::string(text);
  return fmt::format("{}{}\x1b[0m", escape_of(color), text);
}

std::string colored_error(int descriptor, const std::string& text) {
  constexpr std::string_view kWord = "error:";
  const size_t word = text.find(kWord);
  if (word == std::string::npos || !has_color(descriptor)) return text;
  std::string result = colored(descriptor, Color::kBold, text.substr(0, word)) +
                       colored(descriptor, Color::kRed, kWord);
  const std::string rest = text.substr(word + kWord.size());
  // The last line of an error with a place has a caret and blanks only.
  const size_t caret = rest.find_last_not_of('\n');
  const size_t line = rest.rfind('\n', caret);
  const bool has_caret = caret != std::string::npos && line != std::string::npos &&
                         rest.find_first_not_of(' ', line + 1) == caret && rest[caret] == '^';
  if (!has_caret) return result + rest;
  return result + rest.substr(0, caret) + colored(descriptor, Color::kRed, "^") +
         rest.substr(caret + 1);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<i64>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace catenary::tools
