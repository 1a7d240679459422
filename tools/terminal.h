// SPDX-License-Identifier: Apache-2.0
// What the streams are to a reader: a terminal or not, its width, and whether text on it is
// coloured.
#pragma once

#include <string>
#include <string_view>

#include "shared/int.h"

namespace catenary::tools {

// Whether the descriptor is a terminal that moves its cursor (TERM is set, and not "dumb").
bool is_terminal(int descriptor);

// Columns of the terminal; 80 where they are not known.
int terminal_columns(int descriptor);

enum class ColorChoice : u8 { kAuto, kAlways, kNever };

// By --color; until then kAuto. kAuto, in this order: NO_COLOR (not empty) is never, CLICOLOR_FORCE
// (not empty, not 0) is always, CLICOLOR=0 is never (https://bixense.com/clicolors,
// https://no-color.org), else a terminal has colour.
void choose_color(ColorChoice choice);

enum class Color : u8 { kBold, kRed, kGreen, kYellow };

// `text` in a colour, where the stream of this descriptor has colours; else unchanged.
std::string colored(int descriptor, Color color, std::string_view text);

// An error as render_error() prints it, or a line "... error: ...": its place is bold, the word and
// the caret are red.
std::string colored_error(int descriptor, const std::string& text);

// "12 s", "3 min 05 s", "2 h 10 min".
std::string duration_text(double seconds);

}  // namespace catenary::tools
