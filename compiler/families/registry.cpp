// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/family.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {

#define CATENARY_CONTRACTION_FAMILY(name) const ContractionFamily& name##_family();
#include "compiler/families/families.def"
#undef CATENARY_CONTRACTION_FAMILY

namespace {

std::vector<const ContractionFamily*>& added_families() {
  static std::vector<const ContractionFamily*> added;
  return added;
}

}  // namespace

std::vector<const ContractionFamily*> contraction_families() {
  std::vector<const ContractionFamily*> families = {
#define CATENARY_CONTRACTION_FAMILY(name) &name##_family(),
#include "compiler/families/families.def"
#undef CATENARY_CONTRACTION_FAMILY
  };
  llvm::append_range(families, added_families());
  return families;
}

ScopedFamily::ScopedFamily(const ContractionFamily& family) : family_(&family) {
  added_families().push_back(family_);
}

ScopedFamily::~ScopedFamily() { llvm::erase_value(added_families(), family_); }

}  // namespace catenary
