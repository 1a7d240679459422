// SPDX-License-Identifier: Apache-2.0
// What verify() rejects of ragged labels: of contractions, sums and elementwise values, and of
// operands by group.
#include <doctest/doctest.h>

#include "tests/support/rejected_chain.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

const char* const kMoe = "input x: bf16[8, 4], weight w: bf16[3, 6, 4], input ends: i32[3]";

const Case kRagged[] = {
    {"input x: f32[8, 4], weight w: f32[1048577, 4, 4], input ends: i32[1048577]",
     "y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e return y: f32",
     "ends 'ends' of 'y' hold 1048577 groups: use at most 1048576", kLimit},
    {kMoe, "y = contract \"mk,enk->mn\"(x, w) ragged k by ends over e return y: f32",
     "ragged label 'k' over 'e' does not fit equation \"mk,enk->mn\" of 'y'"},
    {kMoe, "y = contract \"mk,enk->mn\"(x, w) ragged n by ends over e return y: f32",
     "ragged label 'n' over 'e' does not fit"},
    {kMoe, "y = contract \"mk,enk->mn\"(x, w) ragged m by ends over n return y: f32",
     "ragged label 'm' over 'n' does not fit"},
    {kMoe, "y = contract \"mk,enk->mn\"(x, w) ragged m by ends over z return y: f32",
     "ragged label 'm' over 'z' does not fit"},
    {kMoe, "y = contract \"mk,enk->men\"(x, w) ragged m by ends over e return y: f32",
     "ragged label 'm' over 'e' does not fit"},
    {kMoe, "y = contract \"mk,enk->mn\"(x, w) ragged m by w over e return y: f32",
     "ends 'w' of 'y' must be a parameter i32[groups]"},
    {"input x: bf16[8, 4], weight w: bf16[3, 6, 4], input ends: i32[4]",
     "y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e return y: f32",
     "group 'e' of 'y' has size 3 in 'w' but 'ends' holds 4 ends"},
    {"input x: bf16[8, 4], weight w: bf16[3, 6, 4], input ends: i32[3, 1]",
     "y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e return y: f32",
     "ends 'ends' of 'y'"},
    {"input x: bf16[8, 4], weight w: bf16[3, 6, 4], input ends: i32[3] strides[2]",
     "y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e return y: f32",
     "ends 'ends' of 'y'"},
    // The fix has the parameter's name, and the groups that an operand or the parameter has.
    {"input x: bf16[8, 4], weight w: bf16[3, 6, 4], input g: f32[2]",
     "y = contract \"mk,enk->mn\"(x, w) ragged m by g over e return y: f32",
     "(static, contiguous, one group or more): declare it 'input g: i32[3]'"},
    {"input x: bf16[8, 4], weight g: f32[2]",
     "y = sum \"mk->ek\"(x) ragged m by g over e return y: f32", "declare it 'weight g: i32[2]'"},
    {"input x: bf16[8, 4], input s: f32[5], scalar g: f32",
     "y = mul(x @ \"mk\", s @ \"e\") ragged m by g over e return y: f32",
     "name one, such as 'input ends: i32[5]'"},
    {"input x: bf16[8, 4]", "y = sum \"mk->ek\"(x) ragged m by x over e return y: f32",
     "name one, such as 'input ends: i32[groups]'"},
    {kMoe, "y = sum \"mk->ek\"(x) return y: f32", "label 'e' in the result of 'y' is not in"},
    {kMoe, "y = sum \"mk->ek\"(x) ragged m by w over e return y: f32",
     "ends 'w' of 'y' must be a parameter i32[groups]"},
    {kMoe, "y = sum \"mk->mk\"(x) ragged m by ends over e return y: f32",
     "ragged label 'm' over 'e' does not fit equation \"mk->mk\" of 'y': a sum by group has the "
     "label "
     "only in the operand and the group only in the result (\"mn->en\")"},
    {kMoe, "y = sum \"mk->k\"(x) ragged m by ends over e return y: f32", "does not fit equation"},
    {kMoe, "y = sum \"mk->mek\"(x) ragged m by ends over e return y: f32", "does not fit equation"},
    {kMoe, "y = sum \"ek->ek\"(x) ragged m by ends over e return y: f32", "does not fit equation"},
    {kMoe, "y = mul(x, 2) ragged m by ends over e return y: f32",
     "ragged label 'm' over 'e' does not fit the labels \"\" of 'y': the label is one of them, and "
     "the group is not"},
    {kMoe, "y = mul(x @ \"mk\", 2) ragged n by ends over e return y: f32",
     "ragged label 'n' over 'e' does not fit the labels \"mk\" of 'y'"},
    {kMoe, "y = mul(x @ \"me\", 2) ragged m by ends over e return y: f32",
     "ragged label 'm' over 'e' does not fit the labels"},
    {kMoe, "y = mul(x @ \"mk\", 2) ragged m by x over e return y: f32",
     "ends 'x' of 'y' must be a parameter i32[groups]"},
    {"input x: bf16[8, 4], weight w: bf16[0, 6, 4], input ends: i32[0]",
     "y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e return y: f32",
     "ends 'ends' of 'y'"},
    {kMoe, "y = contract \"mk,enk->mn\"(x, w) return y: f32", "label 'e' of 'y' appears once"},
    {kMoe, "y = mul(x, ends) return y: f32", "'y' uses 'ends', an i32 tensor, as an operand"},
};

// An operand by group: its label, its size, its rows.
#define CATENARY_MOE "g = contract \"mk,enk->mn\"(x, w) ragged m by ends over e "
const char* const kMoeBias =
    "input x: bf16[8, 4], weight w: bf16[3, 6, 4], input ends: i32[3], input other: i32[3], weight "
    "b: f32[3, 6], weight four: f32[4], input r: f32[8, 6]";
const Case kGroupOperands[] = {
    {kMoeBias, "y = add(r @ \"mn\", four @ \"e\") ragged m by ends over e return y: f32",
     "label 'e' of 'four' has size 4 but 'ends' holds 3 ends"},
    {kMoeBias, "y = add(r @ \"mn\", b @ \"fn\") ragged m by ends over e return y: f32",
     "label 'f' of 'b' is not among the labels \"mn\" of 'y'"},
    {kMoeBias, CATENARY_MOE "y = add(g, b @ \"fn\") return y: f32",
     "label 'f' of 'b' is not among the labels \"mn\" of 'y'"},
    {kMoeBias, CATENARY_MOE "y = add(g, four @ \"e\") return y: f32",
     "label 'e' of 'four' has size 4 but 'ends' holds 3 ends: give 'four' one entry for each "
     "group"},
    {kMoeBias, "y = add(r @ \"mn\", b @ \"en\") return y: f32",
     "label 'e' of 'b' is not among the labels \"mn\" of 'y'"},
    {kMoeBias, CATENARY_MOE "s = sum \"mn->m\"(g) y = mul(s, four @ \"e\") return y: f32",
     "label 'e' of 'four' is not among the labels \"m\" of 'y'"},
    {kMoeBias,
     CATENARY_MOE "h = contract \"mk,enk->mn\"(x, w) ragged m by other over e "
                  "y = add(add(g, h), b @ \"en\") return y: f32",
     "label 'e' of 'b' is not among the labels"},
    {"input x: bf16[1, 4], weight w: bf16[3, 6, 4], input ends: i32[3], weight b: f32[3], input r: "
     "f32[8, 6]",
     CATENARY_MOE "t = add(g, r) y = mul(t, b @ \"e\") return y: f32",
     "label 'e' of 'b' is not among the labels \"mn\" of 'y'"},
    {"input x: bf16[1, 4], weight w: bf16[3, 8, 4], input ends: i32[3], weight b: f32[8, 3]",
     CATENARY_MOE "y = add(g, b @ \"me\") return y: f32",
     "'y' takes an operand by group 'e' but repeats the grouped row over 8 rows"},
};
#undef CATENARY_MOE

}  // namespace

TEST_CASE("ragged labels") {
  for (const Case& bad : kRagged) check_case(bad, "");
}

TEST_CASE("operands by group") {
  for (const Case& bad : kGroupOperands) check_case(bad, "");
}
