// SPDX-License-Identifier: Apache-2.0
// Host data for the parameters of a chain: .npy files of the user, else seeded random numbers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/random/fill.h"

namespace catenary::tools {

// Tensors of the user, by parameter, in the layout that the chain declares.
using GivenInputs = std::map<ValueId, std::vector<std::byte>>;

// The symbolic size: `wanted`; if that is negative, the size of the first file of `bindings` (as
// those of read_inputs) that has it, else the upper bound; 0 for a chain without one.
// kInvalidArgument: the size is outside the range, or one is wanted and the chain has no symbol.
Expected<i64> choose_symbol(const VerifiedChain& chain, i64 wanted,
                            const std::vector<std::string>& bindings);

// Reads `bindings`: "name=file.npy", "name=file.npy:round" to round a file of floats to the
// parameter's dtype (to nearest, ties to even), or "name=1.5" for a scalar. int64 may be the file
// of an i32 or i8. kInvalidArgument: an unknown or repeated name, a dtype or shape that differs
// from the chain's, or an integer that the dtype does not have. kIo. kOutOfMemory: the tensors of
// the chain need more memory than the machine has.
Expected<GivenInputs> read_inputs(const VerifiedChain& chain, i64 symbol,
                                  const std::vector<std::string>& bindings);

// Data for every parameter: `given`, else random. Random group ends divide the ragged label evenly,
// and the last one is its size.
ChainData make_inputs(const VerifiedChain& chain, i64 symbol, GivenInputs given, FillKind kind,
                      u64 seed);

// Removes `conversion` from the end of the path of an .npy file: "a.npy:f32" -> "a.npy". False:
// there is none. kInvalidArgument: it is another word, in the value of `option`.
Expected<bool> take_conversion(std::string& path, std::string_view conversion,
                               std::string_view option);

// "y=out.npy" -> {"y", "out.npy"}. kInvalidArgument: the name or the file is missing.
Expected<std::pair<std::string, std::string>> split_binding(const std::string& text,
                                                            const std::string& option);

}  // namespace catenary::tools
