// SPDX-License-Identifier: Apache-2.0
// Changes of the groups of a plan: `groups` and `group_of` agree after each, and launch order
// stays.
#pragma once

#include "compiler/fusion/fuse.h"

namespace catenary {

// Group `g` computes the value.
void add_value(FusionPlan& plan, ValueId id, int g);

// The value's group writes it whole to memory, if it did not. Nothing for a value of no group.
void store_value(const VerifiedChain& chain, FusionPlan& plan, ValueId id);

// The value leaves its group, which may have no other then: drop_empty_groups().
void remove_value(FusionPlan& plan, ValueId id);

// Group `g` goes, and later ones take a lower number. Its values are in other groups, or in none.
void drop_group(FusionPlan& plan, int g);
void drop_empty_groups(FusionPlan& plan);

}  // namespace catenary
