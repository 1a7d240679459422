// SPDX-License-Identifier: Apache-2.0
// The device headers under templates/, embedded at build time. NVRTC is handed all of them by name,
// so the emitted source needs no include path on the user's machine.
#pragma once

#include <string_view>

#include "llvm/ADT/ArrayRef.h"

namespace catenary {

struct EmbeddedTemplate {
  const char* name;  // path below templates/, as in #include "tile/ring.cuh"
  const char* text;
};

llvm::ArrayRef<EmbeddedTemplate> embedded_templates();

// SHA-256 over all names and texts, hex.
std::string_view embedded_digest();

}  // namespace catenary
