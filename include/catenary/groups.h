/* SPDX-License-Identifier: Apache-2.0
 * Catenary's C ABI, continued: rows that are divided into groups outside a contraction. Part of
 * catenary.h, which includes it; ctn_ragged, ctn_use and errors are as described there. */
#ifndef CATENARY_GROUPS_H
#define CATENARY_GROUPS_H

#include "catenary/catenary.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "mn->en" with label m and group e: the sum over the rows of each group, 0 for a group without
 * rows. Rows of no group are not summed. */
CTN_API ctn_status ctn_chain_sum_by_group(ctn_chain* chain, const char* equation, ctn_value operand,
                                          const ctn_ragged* ragged, const char* name,
                                          ctn_value* value);

/* ctn_chain_elementwise where no contraction says which group a row has. `ragged` divides a label of
 * the result into groups. Operands may then have the group's label. */
CTN_API ctn_status ctn_chain_elementwise_by_group(ctn_chain* chain, const char* op,
                                                  const ctn_use* operands, size_t num_operands,
                                                  const double* attributes, size_t num_attributes,
                                                  const ctn_ragged* ragged, const char* name,
                                                  ctn_value* value);

#ifdef __cplusplus
}
#endif

#endif /* CATENARY_GROUPS_H */
