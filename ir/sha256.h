// SPDX-License-Identifier: Apache-2.0
// SHA-256 of bytes, by the processor's instructions where it has them: digests are most of what
// opening a pack and reading an entry of a pack or of the cache cost.
#pragma once

#include <array>

#include "llvm/ADT/ArrayRef.h"
#include "shared/int.h"

namespace catenary {

using Sha256 = std::array<u8, 32>;

Sha256 sha256_digest(llvm::ArrayRef<u8> bytes);

// The same without those instructions, for tests.
Sha256 portable_sha256_digest(llvm::ArrayRef<u8> bytes);

}  // namespace catenary
