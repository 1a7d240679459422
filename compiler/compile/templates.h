// SPDX-License-Identifier: Apache-2.0
// The device headers under templates/, embedded at build time, so that the emitted source needs no
// include path on the user's machine: NVRTC gets the templates by name, the host compiler gets
// templates and host shims as files.
#pragma once

#include <string_view>

#include "llvm/ADT/ArrayRef.h"

namespace catenary {

struct EmbeddedTemplate {
  const char* name;  // path below templates/, as in #include "pipeline/pipeline.cuh"
  const char* text;
};

// All but sim/.
llvm::ArrayRef<EmbeddedTemplate> embedded_templates();

// sim/: what the simulator's kernels include, in part in place of a template of the same name
// ("sim/ptx/global.cuh").
llvm::ArrayRef<EmbeddedTemplate> embedded_shims();

// SHA-256 over all names and texts of the one table, hex.
std::string_view templates_digest();
std::string_view shims_digest();

}  // namespace catenary
