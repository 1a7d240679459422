// SPDX-License-Identifier: Apache-2.0
// KeyFields -> KernelKey and its record. One table of fields feeds both, so that nothing can be in
// one and not in the other. Knows nothing of what the fields mean.
#include "compiler/compile/key.h"

#include <fmt/format.h>

#include <algorithm>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/SHA256.h"

namespace catenary {
namespace {

// Raised whenever the meaning of a field or the layout of the hashed bytes changes.
constexpr std::string_view kSchema = "catenary-key 1";

struct Field {
  std::string_view name;
  std::string_view value;
};

std::array<Field, 5> fields_of(const KeyFields& fields) {
  return {{{"body", fields.body},
           {"templates", fields.template_digest},
           {"arch", fields.arch},
           {"options", fields.options},
           {"compiler", fields.compiler_id}}};
}

// Length first: no two different field lists have the same bytes.
void add_text(llvm::SHA256& hash, std::string_view text) {
  char length[8];
  llvm::support::endian::write64le(length, text.size());
  hash.update(llvm::StringRef(length, sizeof(length)));
  hash.update(llvm::StringRef(text.data(), text.size()));
}

std::array<u8, 32> digest_of(llvm::SHA256& hash) {
  std::array<u8, 32> bytes;
  std::ranges::copy(hash.final(), bytes.begin());
  return bytes;
}

}  // namespace

std::string KernelKey::hex() const { return llvm::toHex(bytes, /*LowerCase=*/true); }

KernelKey kernel_key(const KeyFields& fields) {
  llvm::SHA256 hash;
  add_text(hash, kSchema);
  for (const Field& field : fields_of(fields)) {
    add_text(hash, field.name);
    add_text(hash, field.value);
  }
  return {digest_of(hash)};
}

std::string key_record(const KeyFields& fields) {
  std::string record(kSchema);
  record += '\n';
  for (const Field& field : fields_of(fields)) {
    llvm::SHA256 hash;
    hash.update(llvm::StringRef(field.value.data(), field.value.size()));
    record += fmt::format("field {} {}\n", field.name, KernelKey{digest_of(hash)}.hex());
  }
  return record;
}

}  // namespace catenary
