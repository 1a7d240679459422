// SPDX-License-Identifier: Apache-2.0
// The command's standard streams: results on stdout, all else on stderr. A stream that cannot be
// written never ends the work; finish_output() says at the end that results were lost.
#pragma once

#include <string_view>

#include "ir/error.h"

namespace catenary::tools {

// Opens each of the descriptors 0 to 2 that is closed, so that no file of the user gets its number,
// and makes a closed pipe and a file-size limit errors of the write instead of signals. Call first.
void open_standard_streams();

// Write the whole text or note the failure; never throw.
void write_stdout(std::string_view text);
void write_stderr(std::string_view text);
void flush_stdout();

template <typename... Args>
void out(fmt::format_string<Args...> format, Args&&... args) {
  write_stdout(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void err(fmt::format_string<Args...> format, Args&&... args) {
  write_stderr(fmt::format(format, std::forward<Args>(args)...));
}

// Flushes stdout. kIo: some of the results could not be written. A reader that closed its pipe
// (`| head`) has what it wanted: no error.
Error finish_output();

}  // namespace catenary::tools
