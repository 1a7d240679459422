// SPDX-License-Identifier: Apache-2.0
// The command's standard streams: results on stdout, all else on stderr. A stream that cannot be
// written never ends the work; finish_output() says at the end that results were lost.
//
// With --json the results are one JSON object on stdout, which finish_output() prints, in place of
// text. An error is its member "error", and a sentence on stderr as usual.
#pragma once

#include <string_view>

#include "ir/error.h"
#include "ir/json.h"

namespace CLI {
class App;
}

namespace catenary::tools {

// Opens each of the descriptors 0 to 2 that is closed, so that no file of the user gets its number,
// and makes a closed pipe and a file-size limit errors of the write instead of signals. Call first.
void open_standard_streams();

// Write the whole text or note the failure; never throw.
void write_stdout(std::string_view text);
void write_stderr(std::string_view text);
void flush_stdout();

// Whether a write to stderr would not block: false while the reader of a pipe or terminal has
// stopped reading.
bool stderr_has_room();

// A line of the terminal on stderr that the next one replaces, and that any other text erases.
void show_status(std::string_view line);
void clear_status();

// Adds what every subcommand has to say about its output: --json, --quiet, --color.
void add_output_options(CLI::App& command);

// By --quiet: no progress.
bool is_quiet();

// Chosen once, before any output: by --json among the words of the command.
void use_json();
bool uses_json();

// What --json will print; its members are added as they become known.
llvm::json::Object& json_result();

// A number, or null for one that JSON cannot have (infinity, NaN).
llvm::json::Value json_number(double number);

// Text as UTF-8, which paths need not be.
llvm::json::Value json_string(const std::string& text);

// Text of the results; nothing with --json.
template <typename... Args>
void out(fmt::format_string<Args...> format, Args&&... args) {
  if (!uses_json()) write_stdout(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void err(fmt::format_string<Args...> format, Args&&... args) {
  write_stderr(fmt::format(format, std::forward<Args>(args)...));
}

// Prints the JSON object, if there is one, and flushes stdout. kIo: some of the results could not
// be written. A reader that closed its pipe
// (`| head`) has what it wanted: no error.
Error finish_output();

}  // namespace catenary::tools
