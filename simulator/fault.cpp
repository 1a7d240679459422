// SPDX-License-Identifier: Apache-2.0
#include "simulator/fault.h"

namespace catenary::sim {

const char* fault_name(FaultKind kind) {
  switch (kind) {
#define CATENARY_FAULT(id, name, rule) \
  case FaultKind::id:                  \
    return #name;
#include "simulator/fault.def"
#undef CATENARY_FAULT
  }
  return "";
}

const char* fault_rule(FaultKind kind) {
  switch (kind) {
#define CATENARY_FAULT(id, name, rule) \
  case FaultKind::id:                  \
    return rule;
#include "simulator/fault.def"
#undef CATENARY_FAULT
  }
  return "";
}

}  // namespace catenary::sim
