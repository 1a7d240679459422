/* SPDX-License-Identifier: Apache-2.0
 * Catenary's C ABI, continued: the gradient of a chain as chains. Part of catenary.h, which
 * includes it; errors, lifetimes and structs are as described there. */
#ifndef CATENARY_GRADIENT_H
#define CATENARY_GRADIENT_H

#include "catenary/catenary.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ctn_gradient ctn_gradient; /* the chains of a gradient */

/* What the forward saves for the backward. */
typedef int32_t ctn_recompute;
enum {
  CTN_RECOMPUTE_NONE = 0,    /* the fewest bytes from which no contraction or sum is repeated */
  CTN_RECOMPUTE_ALL = 1,     /* nothing: contractions and sums are repeated */
  CTN_RECOMPUTE_BUDGET = 2,  /* at most save_budget bytes */
  CTN_RECOMPUTE_UNSTORED = 3 /* as NONE, and what the forward stores for its contractions */
};

/* What a gradient is of, and how it is computed. */
typedef struct ctn_gradient_options {
  size_t struct_size;         /* sizeof the struct */
  const char* const* wanted;  /* parameters; none: every input and weight of a float dtype */
  size_t num_wanted;          /* of `wanted` */
  const char* const* outputs; /* those that the loss depends on; none: all */
  size_t num_outputs;         /* of `outputs` */
  ctn_recompute recompute;    /* what is saved */
  int32_t save_f32;           /* 1: f32 values are saved as f32, not in the dtype of the operands */
  int64_t save_budget;        /* bytes at the symbol's upper bound, for CTN_RECOMPUTE_BUDGET */
  int32_t f32_weights;        /* 1: gradients of weights are f32, not of the weight's dtype */
  int32_t accumulate;         /* 1: gradients of weights are added to tensors of the caller */
} ctn_gradient_options;

/* The gradient of a chain as chains: chain 0 is the forward with saved values as further outputs,
 * the others, launched in this order, are its gradient. `options` may be null. Errors:
 * CTN_INVALID_ARGUMENT (an option is wrong, or no gradient is left), CTN_UNSUPPORTED (an output in
 * place, dequant, products of fp8 or casts to it, an operand by the row and by its group),
 * CTN_INVALID_CHAIN, CTN_RESOURCE_LIMIT. */
CTN_API ctn_status ctn_chain_gradient(const ctn_chain* chain, const ctn_gradient_options* options,
                                      ctn_gradient** gradient);
CTN_API void ctn_gradient_destroy(ctn_gradient* gradient);

/* The number of chains: 2 or 3. */
CTN_API ctn_status ctn_gradient_count(const ctn_gradient* gradient, size_t* count);

/* Bytes of the saved values, at the symbol's upper bound. */
CTN_API ctn_status ctn_gradient_saved_bytes(const ctn_gradient* gradient, int64_t* bytes);

/* What a chain computes. With gradients of both inputs and weights there are a dgrad and a wgrad
 * chain; the wgrad may be launched any time after the dgrad. Otherwise there is one backward. */
typedef int32_t ctn_pass;
enum { CTN_FORWARD = 0, CTN_BACKWARD = 1, CTN_DGRAD = 2, CTN_WGRAD = 3 };

/* Chain `index`, which the caller destroys. `pass` may be null. */
CTN_API ctn_status ctn_gradient_chain(const ctn_gradient* gradient, size_t index, ctn_chain** chain,
                                      ctn_pass* pass);

/* What an operand of a gradient is. */
typedef int32_t ctn_gradient_kind;
enum {
  CTN_GRADIENT_INPUT = 0, /* a parameter of the forward; index: its number */
  CTN_GRADIENT_WEIGHT = 1,
  CTN_GRADIENT_SCALAR = 2,
  CTN_GRADIENT_OUTPUT = 3,       /* an output of the forward; index: its number */
  CTN_GRADIENT_SAVED = 4,        /* from the forward; index: counts from 0 */
  CTN_GRADIENT_OF_OUTPUT = 5,    /* index: the output */
  CTN_GRADIENT_OF_INPUT = 6,     /* index: the parameter */
  CTN_GRADIENT_OF_WEIGHT = 7,    /* index: the parameter */
  CTN_GRADIENT_OF_SCALAR = 8,    /* index: the parameter */
  CTN_GRADIENT_INTERMEDIATE = 9, /* from one backward chain to a later one; index: from 0 */
  CTN_GRADIENT_ACCUMULATOR = 10  /* to which a weight gradient is added, in place */
};

/* One operand of a chain. Two operands of equal kind and index are the same tensor. The pointers
 * are valid until `gradient` is destroyed. */
typedef struct ctn_gradient_operand {
  size_t struct_size;     /* set by the caller */
  ctn_gradient_kind kind; /* what it is */
  int32_t index;          /* as the kind says */
  int32_t is_output;      /* 1: an output of the chain; 0: a parameter */
  const char* name;       /* in the chain */
  ctn_dtype dtype;        /* of its elements */
  int32_t rank;           /* number of dimensions */
  const int64_t* dims;    /* `rank` sizes, or CTN_SYMBOL */
  const int64_t* strides; /* `rank` strides in elements */
  int64_t bytes;          /* from the first element to the last, at the symbol's upper bound */
  /* A gradient of a parameter and its accumulator have the parameter's memory layout, but may lack
   * dimensions of size 1 and have the others in another order. `rank` numbers: for each dimension
   * the corresponding dimension of the parameter. Null for other kinds. */
  const int32_t* parameter_dims;
} ctn_gradient_operand;

/* The operands of chain `chain`: its parameters in order, scalars too, then its outputs. */
CTN_API ctn_status ctn_gradient_operand_count(const ctn_gradient* gradient, size_t chain,
                                              size_t* count);
CTN_API ctn_status ctn_gradient_binding(const ctn_gradient* gradient, size_t chain, size_t operand,
                                        ctn_gradient_operand* binding);

#ifdef __cplusplus
}
#endif

#endif /* CATENARY_GRADIENT_H */
