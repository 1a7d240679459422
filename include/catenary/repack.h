/* SPDX-License-Identifier: Apache-2.0
 * Catenary's C ABI, continued: quantised weights of other libraries in the packed layout. Part of
 * catenary.h, which includes it; errors and structs are as described there. Host memory only. */
#ifndef CATENARY_REPACK_H
#define CATENARY_REPACK_H

#include "catenary/catenary.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a weight of N rows and K columns and its zeros are stored; G is the number of groups of
 * columns that share a zero. A 32-bit word has 32 / bits fields, in ascending order from its lowest
 * bit. */
typedef int32_t ctn_weight_format;
enum {
  /* As the dtype says, contiguous rows: 8 bits, or two values a byte, the low nibble first (also
   * torchao's plain Int4Tensor). Zeros: 8 bits with sign [N, G]. */
  CTN_WEIGHT_PLAIN = 0,
  /* compressed-tensors, "pack-quantized": words [N, K / fields], each value + 2^(bits - 1). Zeros,
   * the same along N: words [N / fields, G], N rounded up. */
  CTN_WEIGHT_COMPRESSED_TENSORS = 1,
  /* GPTQ without a permutation of columns: words [K / fields, N], unsigned. Zeros: words
   * [G, N / fields], each less one. */
  CTN_WEIGHT_GPTQ = 2,
  /* The same with zeros as they are: "gptq_v2". */
  CTN_WEIGHT_GPTQ_V2 = 3,
  /* AWQ: words [K, N / 8] of 4 bits, unsigned; fields 0 to 7 are columns 0, 2, 4, 6, 1, 3, 5, 7 of
   * eight. Zeros, the same: words [G, N / 8]. */
  CTN_WEIGHT_AWQ = 4
};

/* A weight, where its packed form goes, and perhaps its zeros. */
typedef struct ctn_repack_args {
  size_t struct_size;       /* sizeof the struct */
  ctn_weight_format format; /* of `weight` and `zeros` */
  /* Of the packed weight: CTN_I8, CTN_I4 or CTN_U4. A value u that the format stores unsigned
   * becomes u in CTN_U4, u - 8 in CTN_I4 and u - 128 in CTN_I8; a zero moves by as much. */
  ctn_dtype dtype;
  int64_t rows;              /* N */
  int64_t columns;           /* K */
  const void* weight;        /* in the format; null: no weight, only zeros */
  size_t weight_bytes;       /* of `weight` */
  void* packed;              /* written: the packed weight */
  size_t packed_bytes;       /* of `packed`, as ctn_packed_bytes says */
  int64_t groups;            /* G; 0: no zeros */
  const void* zeros;         /* in the format; null for no groups */
  size_t zeros_bytes;        /* of `zeros` */
  void* packed_zeros;        /* written: CTN_I8 [N, G] */
  size_t packed_zeros_bytes; /* N * G */
} ctn_repack_args;

/* Bytes of a packed matrix, padding included. The matrices of a packed tensor [E, N, K] follow each
 * other, each with its padding. */
CTN_API ctn_status ctn_packed_bytes(ctn_dtype dtype, int64_t rows, int64_t columns, int64_t* bytes);

/* Writes a weight in the packed layout, on all cores, and its zeros as CTN_I8. Errors:
 * CTN_INVALID_ARGUMENT, before anything is written. */
CTN_API ctn_status ctn_repack(const ctn_repack_args* args);

#ifdef __cplusplus
}
#endif

#endif /* CATENARY_REPACK_H */
