/* SPDX-License-Identifier: Apache-2.0
 * Catenary's C ABI, continued: packs. Part of catenary.h, which includes it; errors, lifetimes and
 * structs are as described there.
 */
#ifndef CATENARY_PACK_H
#define CATENARY_PACK_H

#include "catenary/catenary.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pack holds compiled chains for one or more architectures. A chain of a pack is loaded without a
 * compiler, a planner or a cache. It is found by what it computes (its names do not count), an
 * architecture whose code runs on the device, and the compile options. A pack is code: open only
 * what you trust, and give its SHA-256 where others can change the file. */

/* How a pack is opened. */
typedef struct ctn_pack_options {
  size_t struct_size;          /* sizeof the struct */
  const char* expected_sha256; /* of the whole file, 64 hex digits; null or "": any file */
  int32_t verify_all;          /* 1: every entry is checked now, not when it is used */
} ctn_pack_options;

/* `options` may be null. Reads the header and the page table; pages of the index and entries are
 * read when they are asked for. A pack is thread-safe. Errors: CTN_IO, CTN_CORRUPT_ARTIFACT (no
 * pack, damaged, or another SHA-256), CTN_UNSUPPORTED (written by a newer version). */
CTN_API ctn_status ctn_pack_open(const char* path, const ctn_pack_options* options,
                                 ctn_pack** pack);

/* The same for `size` bytes of memory at any alignment, which stay as they are until the pack,
 * every engine that it was added to and every compiled chain that is from it are destroyed. */
CTN_API ctn_status ctn_pack_open_memory(const void* bytes, size_t size,
                                        const ctn_pack_options* options, ctn_pack** pack);

/* An engine that the pack was added to, and a compiled chain that is from it, do not need the
 * handle. */
CTN_API void ctn_pack_close(ctn_pack* pack);

/* What the pack is: version, entries, architectures, families, compilers. To be freed by
 * ctn_string_free. */
CTN_API ctn_status ctn_pack_info(const ctn_pack* pack, ctn_format format, char** text);

/* The number of compiled chains in the pack. */
CTN_API ctn_status ctn_pack_entry_count(const ctn_pack* pack, size_t* count);

/* Facts of one entry. */
typedef struct ctn_pack_entry_info {
  size_t struct_size; /* set by the caller */
  char key[65];       /* SHA-256 of chain, architecture and options as hex digits */
  char chain[129];    /* its name */
  char arch[32];      /* "sm_90a", "host:sm_90a" for the simulator */
  char target[64];    /* the GPU that it is planned for, "h200" */
  int32_t sm_count;   /* of that GPU */
  int64_t symbol_lo;  /* the range of the symbol; both 0 without one */
  int64_t symbol_hi;  /* its upper end */
  size_t num_kernels; /* over all buckets of the symbol */
  size_t code_bytes;  /* of machine code */
} ctn_pack_entry_info;

/* `index`: from 0. */
CTN_API ctn_status ctn_pack_entry(const ctn_pack* pack, size_t index, ctn_pack_entry_info* info);

/* The compiled chain of an entry, for ctn_engine_load. */
CTN_API ctn_status ctn_pack_compiled(const ctn_pack* pack, size_t index, ctn_compiled** compiled);

/* The entry for a chain with the default options; `target` as for ctn_engine_compile. Needs no
 * engine and no compiler. CTN_PACK_MISS: the message names the nearest entry and what differs. */
CTN_API ctn_status ctn_pack_find(const ctn_pack* pack, const ctn_chain* chain, const char* target,
                                 ctn_compiled** compiled);

/* From now on ctn_engine_compile and ctn_engine_prepare look into the pack before they compile.
 * Packs with a higher priority are searched first; among equals, the one that was added first. */
CTN_API ctn_status ctn_engine_add_pack(ctn_engine* engine, const ctn_pack* pack, int32_t priority);

/* All chains that no pack of the engine had, each once, as the lines of a trace; "" if there is
 * none. To be freed by ctn_string_free. An engine that may compile, and has neither a pack nor a
 * trace, records no misses. */
CTN_API ctn_status ctn_engine_missed(ctn_engine* engine, char** trace_text);

/* What a pack holds beside machine code. */
typedef struct ctn_pack_writer_options {
  size_t struct_size;      /* sizeof the struct */
  int32_t without_explain; /* 1: ctn_compiled_explain has no text */
  int32_t with_sources;    /* 1: ctn_compiled_kernel_source has the sources */
} ctn_pack_writer_options;

/* `options` may be null. One thread at a time may use a writer. */
CTN_API ctn_status ctn_pack_writer_create(const ctn_pack_writer_options* options,
                                          ctn_pack_writer** writer);
CTN_API void ctn_pack_writer_destroy(ctn_pack_writer* writer);

/* A second entry for one chain, set of options, architecture and GPU is left out. CTN_UNSUPPORTED:
 * the machine code is not what a pack can hold. */
CTN_API ctn_status ctn_pack_writer_add(ctn_pack_writer* writer, const ctn_compiled* compiled);

/* Writes the file whole or not at all. The same chains give the same bytes, in any order. CTN_IO.
 */
CTN_API ctn_status ctn_pack_writer_finish(const ctn_pack_writer* writer, const char* path);

/* One compiled chain as a pack of one entry, and back. */
CTN_API ctn_status ctn_compiled_save(const ctn_compiled* compiled, const char* path);
CTN_API ctn_status ctn_compiled_open(const char* path, const ctn_pack_options* options,
                                     ctn_compiled** compiled);

#ifdef __cplusplus
}
#endif

#endif /* CATENARY_PACK_H */
