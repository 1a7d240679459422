// SPDX-License-Identifier: Apache-2.0
// Chains of tests/chains/gradient and their gradients, for several tests.
#pragma once

#include <map>
#include <string>

#include "ir/gradient/gradient.h"
#include "ir/random/fill.h"

namespace catenary {

inline constexpr const char* kGradientChains[] = {
    "linear_bias_silu", "gated_mlp", "grouped_gated_mlp", "experts",
    "experts_biases",   "gelu_mlp",  "rmsnorm_linear"};

std::string read_text(const std::string& path);
void write_text(const std::string& path, const std::string& text);

// tests/chains/gradient/<name>.chain. A failure fails the test, here and below.
VerifiedChain gradient_chain(const std::string& name);
VerifiedChain verified_text(const std::string& text);
Gradient gradient_of(const VerifiedChain& chain, const GradientOptions& options = {});

}  // namespace catenary
