// SPDX-License-Identifier: Apache-2.0
// Host data for a chain's parameters: .npy files that the user names, seeded random numbers for the
// rest.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/random/fill.h"

namespace catenary::tools {

// Tensors that the user gave, by parameter, laid out as the chain declares them.
using GivenInputs = std::map<ValueId, std::vector<std::byte>>;

// The chain's symbolic size: `wanted`, or its upper bound if that is negative; 0 where the chain
// has none. kInvalidArgument outside the range, or for a chain without a symbol.
Expected<i64> choose_symbol(const VerifiedChain& chain, i64 wanted);

// Reads what `bindings` name: "name=file.npy", for a scalar "name=1.5" as well.
// kInvalidArgument: an unknown or repeated name, another dtype or shape than the chain's. kIo.
// kOutOfMemory: the chain's tensors take more than this machine's memory.
Expected<GivenInputs> read_inputs(const VerifiedChain& chain, i64 symbol,
                                  const std::vector<std::string>& bindings);

// Data for every parameter: what is given, else random. Random ends split their rows evenly, and
// the last one is the total.
ChainData make_inputs(const VerifiedChain& chain, i64 symbol, GivenInputs given, FillKind kind,
                      u64 seed);

// "y=out.npy" -> {"y", "out.npy"}. kInvalidArgument without a name or without a file.
Expected<std::pair<std::string, std::string>> split_binding(const std::string& text,
                                                            const std::string& option);

}  // namespace catenary::tools
