/* SPDX-License-Identifier: Apache-2.0
 * Catenary's C ABI, the library's one binary contract: build or parse a chain of linear layers,
 * compile it (needs NVRTC, no GPU), load it on a device, launch it on a stream. C11, no header of
 * CUDA or of any other library. catenary.hpp wraps it for C++20.
 *
 * Every function that can fail returns a ctn_status and throws nothing; ctn_last_error() then has
 * one sentence with the value, the rule and the fix. A null argument that is not said to be
 * optional is CTN_INVALID_ARGUMENT. On failure, results are not written. Functions without a status
 * leave the last error as it is.
 *
 * Handles are not shared between threads while one of them changes a chain; engines, compiled
 * chains and executables may be used from any number of threads at once. Destroy functions accept
 * null. A struct with `struct_size` is filled with zeros first, then struct_size = sizeof(it): a
 * field of 0 means its default.
 */
#ifndef CATENARY_CATENARY_H
#define CATENARY_CATENARY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CTN_API __attribute__((visibility("default")))
#else
#define CTN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ctn_chain ctn_chain;           /* a chain being built */
typedef struct ctn_engine ctn_engine;         /* a compiler with its cache */
typedef struct ctn_compiled ctn_compiled;     /* a chain as machine code for one architecture */
typedef struct ctn_executable ctn_executable; /* a compiled chain loaded on one device */

typedef enum ctn_status {
  CTN_OK = 0,
  CTN_INVALID_ARGUMENT = 1,    /* an argument of this API or of a launch is wrong */
  CTN_PARSE = 2,               /* the text is not a chain */
  CTN_INVALID_CHAIN = 3,       /* the chain breaks a rule */
  CTN_UNSUPPORTED = 4,         /* the chain is fine; no kernel takes it on this target */
  CTN_RESOURCE_LIMIT = 5,      /* a limit of the chain or of the target is exceeded */
  CTN_COMPILE_FAILED = 6,      /* NVRTC or ptxas refused the emitted source */
  CTN_NVRTC_MISSING = 7,       /* no usable NVRTC */
  CTN_DRIVER_MISSING = 8,      /* no usable CUDA driver, or no device */
  CTN_ARCH_MISMATCH = 9,       /* compiled for another GPU */
  CTN_CACHE_IO = 10,           /* the cache directory cannot be used */
  CTN_CORRUPT_ARTIFACT = 11,   /* a cache entry or file failed its check */
  CTN_NOT_WARMED_CAPTURE = 12, /* compiling or loading during stream capture */
  CTN_CONTEXT_POISONED = 13,   /* an earlier kernel left the device's context unusable */
  CTN_OUT_OF_MEMORY = 14,
  CTN_IO = 15,                    /* a file could not be read or written */
  CTN_MISMATCH = 16,              /* a check found a wrong result */
  CTN_DRIVER = 17,                /* the driver refused a call for another reason */
  CTN_SIMULATOR_FAULT = 18,       /* a kernel in the simulator broke a rule of the hardware */
  CTN_HOST_COMPILER_MISSING = 19, /* no usable C++ compiler for the simulator */
  CTN_KERNEL_REJECTED = 20,       /* ptxas spilled registers or serialised wgmma */
  CTN_INTERNAL = 99               /* a broken invariant of this library: please report it */
} ctn_status;

/* Kinds are 32-bit integers, so that a wrong number can be told instead of trusted. */
typedef int32_t ctn_dtype;
enum { CTN_BF16 = 0, CTN_F16 = 1, CTN_F32 = 2, CTN_I32 = 3 };

/* How a parameter is used. An input may be written by the kernel before it in the stream; a weight
 * does not change while the chain runs; a scalar is one float handed over at launch. */
typedef int32_t ctn_role;
enum { CTN_INPUT = 0, CTN_WEIGHT = 1, CTN_SCALAR = 2 };

/* A dimension whose size is the chain's symbol (ctn_chain_symbol). */
#define CTN_SYMBOL INT64_MIN

/* A value of a chain: what a builder call returns. */
typedef int32_t ctn_value;

/* ---- errors, version, text ------------------------------------------------------------------ */

/* "0.1.0". */
CTN_API const char* ctn_version(void);

/* "invalid_argument" for CTN_INVALID_ARGUMENT; "internal" for a number that is no status. */
CTN_API const char* ctn_status_name(ctn_status status);

/* The message of this thread's last failed call, "" before the first. Valid until the next failure
 * on this thread. */
CTN_API const char* ctn_last_error(void);

/* The place in the parsed text that it speaks of, counted from 1; 0 when there is none. */
CTN_API int32_t ctn_last_error_line(void);
CTN_API int32_t ctn_last_error_column(void);

/* Frees text that this library handed out. Accepts null. */
CTN_API void ctn_string_free(char* text);

/* ---- building a chain ----------------------------------------------------------------------- */

/* `length` bytes of chain text (need not end in a zero byte). */
CTN_API ctn_status ctn_chain_parse(const char* text, size_t length, ctn_chain** chain);
CTN_API ctn_status ctn_chain_create(const char* name, ctn_chain** chain);
CTN_API void ctn_chain_destroy(ctn_chain* chain);

/* The canonical text of the chain; free it by ctn_string_free. */
CTN_API ctn_status ctn_chain_print(const ctn_chain* chain, char** text);

/* Checks every rule without compiling: CTN_INVALID_CHAIN or CTN_RESOURCE_LIMIT. */
CTN_API ctn_status ctn_chain_verify(const ctn_chain* chain);

/* Declares the symbolic size, lo <= name <= hi. Before the first dimension that is CTN_SYMBOL. */
CTN_API ctn_status ctn_chain_symbol(ctn_chain* chain, const char* name, int64_t lo, int64_t hi);

typedef struct ctn_parameter {
  size_t struct_size;
  const char* name; /* null: "t<number>" */
  ctn_role role;
  ctn_dtype dtype;
  int32_t rank;           /* at most 8 */
  const int64_t* dims;    /* rank sizes, or CTN_SYMBOL; null only for rank 0 */
  const int64_t* strides; /* elements per step, rank of them; null: contiguous */
  int64_t align;          /* bytes the address is a multiple of; 0: 16 */
} ctn_parameter;

/* Parameters may be declared between operations; in the chain they stand first, in the order of
 * their declaration. */
CTN_API ctn_status ctn_chain_parameter(ctn_chain* chain, const ctn_parameter* parameter,
                                       ctn_value* value);

/* `name` may be null in all of the following. */
CTN_API ctn_status ctn_chain_constant(ctn_chain* chain, double number, const char* name,
                                      ctn_value* value);

/* A contraction over experts: rows [ends[g-1], ends[g]) of label `label` meet group g of label
 * `group`; `ends` is an i32 parameter of inclusive ends. */
typedef struct ctn_ragged {
  size_t struct_size;
  char label;
  char group;
  ctn_value ends;
} ctn_ragged;

/* f32 operands are multiplied as f32 instead of as tf32. */
#define CTN_CONTRACT_TRUE_F32 1u

/* "mk,nk->mn": a label in one operand and the result is kept, one in both operands only is summed.
 * `ragged` may be null. */
CTN_API ctn_status ctn_chain_contract(ctn_chain* chain, const char* equation, ctn_value left,
                                      ctn_value right, uint32_t flags, const ctn_ragged* ragged,
                                      const char* name, ctn_value* value);

/* An operand. `labels` (null: none) names its dimensions, one letter each, for broadcasting by
 * label instead of by trailing dimension. */
typedef struct ctn_use {
  ctn_value value;
  const char* labels;
} ctn_use;

/* `op` as in chain text: "add", "silu", "clamp", ... `attributes` in the order of the op's own
 * ("clamp": lo, hi); null when num_attributes is 0. */
CTN_API ctn_status ctn_chain_elementwise(ctn_chain* chain, const char* op, const ctn_use* operands,
                                         size_t num_operands, const double* attributes,
                                         size_t num_attributes, const char* name, ctn_value* value);

/* "mn->n" sums over m. */
CTN_API ctn_status ctn_chain_sum(ctn_chain* chain, const char* equation, ctn_value operand,
                                 const char* name, ctn_value* value);
CTN_API ctn_status ctn_chain_cast(ctn_chain* chain, ctn_value operand, ctn_dtype dtype,
                                  const char* name, ctn_value* value);

typedef struct ctn_output {
  size_t struct_size;
  ctn_value value;
  ctn_dtype dtype;
  int32_t num_strides;    /* 0: contiguous */
  const int64_t* strides; /* num_strides of them */
  int64_t align;          /* bytes; 0: 16 */
} ctn_output;

CTN_API ctn_status ctn_chain_return(ctn_chain* chain, const ctn_output* output);

/* ---- compiling ------------------------------------------------------------------------------ */

typedef int32_t ctn_cache_mode;
enum { CTN_CACHE_READ_WRITE = 0, CTN_CACHE_READ_ONLY = 1, CTN_CACHE_OFF = 2 };

typedef struct ctn_engine_options {
  size_t struct_size;
  const char* cache_directory; /* null or "": CATENARY_CACHE_DIR, else the user's cache folder */
  ctn_cache_mode cache_mode;
  int32_t line_info;      /* 1: profilers show the emitted source */
  int32_t allow_spills;   /* 1: keep a kernel whose registers spill */
  int32_t unfused;        /* 1: one kernel per operation, for comparison */
  int32_t split_k;        /* 0: chosen by the cost model */
  const char* force_tile; /* null or "": chosen by the cost model */
  /* Called with one line per distinct cache problem, from any thread. May be null. */
  void (*warn)(void* user, const char* line);
  void* user;
} ctn_engine_options;

/* `options` may be null. */
CTN_API ctn_status ctn_engine_create(const ctn_engine_options* options, ctn_engine** engine);
CTN_API void ctn_engine_destroy(ctn_engine* engine);

/* Machine code for `target`, a GPU's name ("h200") or an architecture ("sm_80"). Needs no GPU. */
CTN_API ctn_status ctn_engine_compile(ctn_engine* engine, const ctn_chain* chain,
                                      const char* target, ctn_compiled** compiled);

/* Loads into the primary context of `device`. Refused during stream capture with
 * CTN_NOT_WARMED_CAPTURE: `stream` (a CUstream, or null) is the one that is asked. */
CTN_API ctn_status ctn_engine_load(ctn_engine* engine, const ctn_compiled* compiled, int32_t device,
                                   void* stream, ctn_executable** executable);

/* Compiles for the device itself, then loads. */
CTN_API ctn_status ctn_engine_prepare(ctn_engine* engine, const ctn_chain* chain, int32_t device,
                                      void* stream, ctn_executable** executable);

CTN_API void ctn_compiled_destroy(ctn_compiled* compiled);

typedef int32_t ctn_format;
enum { CTN_TEXT = 0, CTN_JSON = 1 };

/* The plan: kernels, why they end where they end, runner-ups, predicted time. ctn_string_free. */
CTN_API ctn_status ctn_compiled_explain(const ctn_compiled* compiled, ctn_format format,
                                        char** text);

/* Kernels of all buckets of the symbol, in order. */
CTN_API ctn_status ctn_compiled_kernel_count(const ctn_compiled* compiled, size_t* count);

/* Facts of one kernel. Pointers stay valid while `compiled` lives. */
typedef struct ctn_kernel {
  size_t struct_size; /* set by the caller */
  const char* name;   /* the entry point in the cubin */
  const char* arch;   /* "sm_90a" */
  const void* cubin;
  size_t cubin_bytes;
  int32_t threads;    /* per CTA */
  int32_t registers;  /* per thread */
  int64_t smem_bytes; /* dynamic shared memory per CTA */
} ctn_kernel;
CTN_API ctn_status ctn_compiled_kernel(const ctn_compiled* compiled, size_t index,
                                       ctn_kernel* kernel);

/* The emitted CUDA source of one kernel. ctn_string_free. */
CTN_API ctn_status ctn_compiled_kernel_source(const ctn_compiled* compiled, size_t index,
                                              char** text);

/* ---- launching ------------------------------------------------------------------------------ */

typedef struct ctn_launch_args {
  size_t struct_size;
  void* const* tensors; /* device addresses: parameters that are not scalars, then outputs */
  size_t num_tensors;
  const float* scalars; /* scalar parameters in order */
  size_t num_scalars;
  int64_t symbol;      /* the symbolic size; 0 without one */
  void* workspace;     /* ctn_executable_workspace_bytes of device memory, aligned to 256 */
  void* stream;        /* CUstream or cudaStream_t of the executable's device */
  int32_t allow_pdl;   /* 1: may start while the stream's previous kernel still runs */
  int32_t disable_pdl; /* 1: no kernel starts before the one before it has ended, not even
                          inside the chain, whatever allow_pdl says */
} ctn_launch_args;

/* Checks the arguments, then launches the chain's kernels in order. Allocates nothing, takes no
 * lock, may be captured. A tensor without elements may be null; an output may overlap no other
 * tensor, counted as the bytes from a tensor's first element to its last. */
CTN_API ctn_status ctn_executable_launch(const ctn_executable* executable,
                                         const ctn_launch_args* args);
CTN_API ctn_status ctn_executable_workspace_bytes(const ctn_executable* executable, int64_t* bytes);

/* What was compiled, for ctn_compiled_*; to be destroyed by the caller. */
CTN_API ctn_status ctn_executable_compiled(const ctn_executable* executable,
                                           ctn_compiled** compiled);
CTN_API void ctn_executable_destroy(ctn_executable* executable);

/* ---- device memory and streams -------------------------------------------------------------- */

/* For programs that bring none of their own; a launch takes memory of any allocator and streams of
 * the CUDA runtime as well. Each call works in the primary context of `device` and leaves the
 * thread's current context as it was. */

/* Devices that this process sees, 1 or more. CTN_DRIVER_MISSING says why there is none. */
CTN_API ctn_status ctn_device_count(int32_t* count);

/* Device memory, aligned to 256 bytes; null for 0 bytes. Freeing accepts null. */
CTN_API ctn_status ctn_device_alloc(int32_t device, size_t bytes, void** address);
CTN_API void ctn_device_free(int32_t device, void* address);

/* Copies from and to host memory, in order with the launches on streams of ctn_stream_create. The
 * host memory is the caller's again on return. */
CTN_API ctn_status ctn_device_upload(int32_t device, void* to, const void* from, size_t bytes);
CTN_API ctn_status ctn_device_download(int32_t device, void* to, const void* from, size_t bytes);

/* A CUstream. Destroying accepts null; what was launched on it still runs to its end. */
CTN_API ctn_status ctn_stream_create(int32_t device, void** stream);
CTN_API ctn_status ctn_stream_synchronize(int32_t device, void* stream);
CTN_API void ctn_stream_destroy(int32_t device, void* stream);

/* ---- the reference -------------------------------------------------------------------------- */

typedef struct ctn_reference_args {
  size_t struct_size;
  void* const* tensors; /* host addresses in the tensors' own dtype and strides, as for a launch */
  size_t num_tensors;
  const float* scalars;
  size_t num_scalars;
  int64_t symbol;
  int32_t threads; /* 0: one per core */
} ctn_reference_args;

/* Evaluates the chain on the host in double precision, rounding only where the chain says so, and
 * writes the outputs. Slow: for checking. */
CTN_API ctn_status ctn_reference_run(const ctn_chain* chain, const ctn_reference_args* args);

#ifdef __cplusplus
}
#endif

#endif /* CATENARY_CATENARY_H */
