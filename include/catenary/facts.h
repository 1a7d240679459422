/* SPDX-License-Identifier: Apache-2.0
 * Catenary's C ABI, continued: facts about a chain, for callers that did not build it: its
 * operands, its symbol, its identity, its plan. Part of catenary.h, which includes it; errors,
 * lifetimes and structs are as described there. */
#ifndef CATENARY_FACTS_H
#define CATENARY_FACTS_H

#include "catenary/catenary.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ctn_operands ctn_operands; /* the operands of a chain */

/* The parameters of a chain in order, scalars too, then its outputs. Errors: those of
 * ctn_chain_verify. */
CTN_API ctn_status ctn_chain_operands(const ctn_chain* chain, ctn_operands** operands);
CTN_API void ctn_operands_destroy(ctn_operands* operands);

/* The number of operands. */
CTN_API ctn_status ctn_operands_count(const ctn_operands* operands, size_t* count);

/* One operand of a chain. The pointers are valid until `operands` is destroyed. */
typedef struct ctn_operand {
  size_t struct_size;     /* set by the caller */
  const char* name;       /* of an output: that of its value */
  int32_t is_output;      /* 1: an output of the chain; 0: a parameter */
  ctn_role role;          /* of a parameter; CTN_INPUT for an output */
  ctn_dtype dtype;        /* of its elements */
  int32_t rank;           /* number of dimensions */
  const int64_t* dims;    /* `rank` sizes, or CTN_SYMBOL */
  const int64_t* strides; /* `rank` strides in elements */
  int64_t align;          /* the address is a multiple of this many bytes */
  int64_t bytes;          /* from the first element to the last, at the symbol's upper bound; of a
                             packed tensor with its padding */
  int32_t in_place;       /* of an output: 1 + the number of the operand whose memory it takes;
                             0: memory of its own */
  int32_t packed;         /* 1: in the packed layout, which `strides` do not describe */
} ctn_operand;

/* `index`: from 0. */
CTN_API ctn_status ctn_operands_get(const ctn_operands* operands, size_t index,
                                    ctn_operand* operand);

/* The chain's symbol, lo <= name <= hi. `name` is null for a chain without one, else valid until
 * `operands` is destroyed. */
CTN_API ctn_status ctn_operands_symbol(const ctn_operands* operands, const char** name, int64_t* lo,
                                       int64_t* hi);

/* What the chain computes, as a SHA-256 of 64 hex digits and a zero byte. Two chains that differ
 * only in names of values and letters of labels have the same digest. Errors: those of
 * ctn_chain_verify. */
CTN_API ctn_status ctn_chain_digest(const ctn_chain* chain, char digest[65]);

/* Along which dimensions the work of a chain divides over devices, as JSON: {"operands": for each
 * parameter and then each output, in order, the factor of each dimension; "divides": per factor,
 * whether each device may compute the chain on its own part of the indices; "sums": per output, the
 * factors that it sums over, so that the output is the sum of what the devices compute}. A factor
 * is a dimension that operations set equal. To be freed by ctn_string_free. Errors: those of
 * ctn_chain_verify. */
CTN_API ctn_status ctn_chain_factors(const ctn_chain* chain, char** json);

/* The chain of one device where factor f is divided into parts[f] equal parts: tensors without
 * gaps, in the order of dimensions of the whole. The caller destroys it. Errors:
 * CTN_INVALID_ARGUMENT, and those of ctn_chain_verify. */
CTN_API ctn_status ctn_chain_shard(const ctn_chain* chain, const int64_t* parts, size_t num_parts,
                                   ctn_chain** made);

/* The chain that was compiled, also of a pack. The caller destroys it. */
CTN_API ctn_status ctn_compiled_chain(const ctn_compiled* compiled, ctn_chain** chain);

/* The plan for `target`, as ctn_compiled_explain gives it, by the options of the engine. Compiles
 * nothing and needs no compiler; a kernel that the compiler would refuse may be in it. To be freed
 * by ctn_string_free. Errors: CTN_INVALID_CHAIN, CTN_UNSUPPORTED, CTN_RESOURCE_LIMIT. */
CTN_API ctn_status ctn_engine_explain(ctn_engine* engine, const ctn_chain* chain,
                                      const char* target, ctn_format format, char** text);

#ifdef __cplusplus
}
#endif

#endif /* CATENARY_FACTS_H */
