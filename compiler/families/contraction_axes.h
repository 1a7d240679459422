// SPDX-License-Identifier: Apache-2.0
// A contraction's labels -> the batch, M, N and K of a gemm kernel, with every tensor's steps.
// Labels of one class merge where all tensors step through them as one; a free label that does not
// merge becomes a batch dimension that one matrix lacks, so any layout has a kernel.
#pragma once

#include "compiler/families/family.h"

namespace catenary {

struct GemmAxes {
  GemmSm80Config config;  // extents, operands, math, ragged; no tile yet
  Program program;        // operands bound; last dimension N, before it M, before that the batch
};

// kUnsupported when K needs more than two loops or two symbolic ones, or the batch more than five;
// kResourceLimit when an axis is too long.
Expected<GemmAxes> make_gemm_axes(const GroupContext& context);

}  // namespace catenary
