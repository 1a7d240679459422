/* SPDX-License-Identifier: Apache-2.0
 * Catenary's C ABI: build or parse a chain of linear layers, compile it (needs NVRTC, no GPU), load
 * it on a device, launch it on a stream. It is the library's only binary contract. C11; includes no
 * header of CUDA or of another library. catenary.hpp wraps it for C++20.
 *
 * Errors: a function that can fail returns a ctn_status; no exception leaves the library. After a
 * failure ctn_last_error() has one sentence with the value, the rule and the fix, and the results
 * are not written. A null argument is CTN_INVALID_ARGUMENT unless the function allows it. Functions
 * that return no status do not change the last error.
 *
 * Threads: any number of threads may use one engine, compiled chain or executable at the same time.
 * While a thread changes a chain, no other thread may use that chain.
 *
 * Lifetime: every handle is destroyed once, by its destroy function, in any order; no other thread
 * may use the handle meanwhile. Destroy functions allow null. A compiled chain and an executable do
 * not need their engine or their chain. An executable must live until its launches have ended, and
 * as long as a graph that captured one of them.
 *
 * Numbers: no result depends on the caller's locale, rounding mode or flush-to-zero. A function,
 * and a callback that it calls, runs with the locale "C" and the default floating-point
 * environment; the function restores the caller's. A launch changes neither.
 *
 * Structs: set all bytes of a struct that has `struct_size` to zero, then set struct_size to its
 * sizeof. A field of 0 has its default. The library reads structs and arrays only during the call.
 */
#ifndef CATENARY_CATENARY_H
#define CATENARY_CATENARY_H

#include <stddef.h>
#include <stdint.h>

/* The visibility of the ABI. */
#if defined(__GNUC__)
#define CTN_API __attribute__((visibility("default")))
#else
#define CTN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ctn_chain ctn_chain;             /* a chain under construction */
typedef struct ctn_engine ctn_engine;           /* a compiler and its cache */
typedef struct ctn_compiled ctn_compiled;       /* a chain as machine code for one architecture */
typedef struct ctn_executable ctn_executable;   /* a compiled chain loaded on one device */
typedef struct ctn_pack ctn_pack;               /* compiled chains in a file or in memory, open */
typedef struct ctn_pack_writer ctn_pack_writer; /* a pack under construction */

/* The result of a call. Later versions may add numbers. */
typedef enum ctn_status {
  CTN_OK = 0,
  CTN_INVALID_ARGUMENT = 1,    /* an argument of this API or of a launch is wrong */
  CTN_PARSE = 2,               /* the text is not that of a chain */
  CTN_INVALID_CHAIN = 3,       /* the chain breaks a rule */
  CTN_UNSUPPORTED = 4,         /* the chain is valid; no kernel supports it on this target */
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
  CTN_PACK_MISS = 21,             /* compiling is off, and no pack has the chain */
  CTN_COMPILE_TIMEOUT = 22,       /* NVRTC's helper process took longer than its limit */
  CTN_COMPILER_ENDED = 23,        /* NVRTC's helper process was ended from outside */
  CTN_INTERNAL = 99               /* a broken invariant of this library: please report it */
} ctn_status;

/* Enumerations in arguments are 32-bit integers, so that the library can refuse a wrong number. */
typedef int32_t ctn_dtype;
enum {
  CTN_BF16 = 0,
  CTN_F16 = 1,
  CTN_F32 = 2,
  CTN_I32 = 3,
  CTN_I8 = 4, /* this one, CTN_I4 and CTN_U4: only operands of ctn_chain_dequant */
  CTN_I4 = 5, /* two elements a byte, the low nibble first */
  CTN_U4 = 6,
  CTN_E4M3 = 7, /* float8_e4m3fn, up to 448, no infinity; larger values are rounded to 448 */
  CTN_E5M2 = 8  /* float8_e5m2, up to 57,344; larger values are rounded to that */
};

/* The role of a parameter. An input may be written by the previous kernel of the stream. A weight
 * does not change while the chain runs, nor, in a launch with allow_pdl, while that previous kernel
 * runs. A scalar is one float, passed by value to a launch. */
typedef int32_t ctn_role;
enum { CTN_INPUT = 0, CTN_WEIGHT = 1, CTN_SCALAR = 2 };

/* As the size of a dimension: the chain's symbol (ctn_chain_symbol). */
#define CTN_SYMBOL INT64_MIN

/* The number of a value within its chain, as a builder function returns it. */
typedef int32_t ctn_value;

/* ---- errors, version, text ------------------------------------------------------------------ */

/* The version of the library, "0.1.0". Valid until the process ends. */
CTN_API const char* ctn_version(void);

/* "invalid_argument" for CTN_INVALID_ARGUMENT; "internal" for a number that is no status. Valid
 * until the process ends. */
CTN_API const char* ctn_status_name(ctn_status status);

/* The message of this thread's last failed call; "" before the first one. Valid until the next
 * failure on this thread. */
CTN_API const char* ctn_last_error(void);

/* Line and column of the parsed text where that error or refused operation is, from 1; 0: none. */
CTN_API int32_t ctn_last_error_line(void);
CTN_API int32_t ctn_last_error_column(void);

/* Frees text that a function of this library returned as char*. Null is allowed. */
CTN_API void ctn_string_free(char* text);

/* ---- log ----------------------------------------------------------------------------------- */

/* What is logged; each level has the lines of those before it. */
typedef int32_t ctn_log_level;
enum {
  CTN_LOG_OFF = 0,
  CTN_LOG_WARN = 1, /* problems that do not stop the library, if the engine has no `warn` */
  CTN_LOG_INFO = 2, /* what was planned, compiled, found in the cache and loaded, with times */
  CTN_LOG_DEBUG = 3 /* keys, files, reasons of misses, helper processes */
};

/* Sends the log lines of the whole process, up to `level`, to `callback`: one line per event,
 * one call at a time, from any thread. `line` is valid during the call. With a null callback the
 * lines go to stderr. Before the first call, and after ctn_reset_log, CATENARY_LOG sets the level;
 * without it nothing is logged. When the function returns, a callback that was set before is not
 * called again. A callback may use the library; what this would log is lost. No result depends on
 * the log, and launches log nothing. */
CTN_API ctn_status ctn_set_log(void (*callback)(void* user, ctn_log_level level, const char* line),
                               void* user, ctn_log_level level);
CTN_API void ctn_reset_log(void);

/* ---- building a chain ----------------------------------------------------------------------- */

/* Every call checks what it adds by the rules of a chain. A call that breaks one is refused with
 * CTN_INVALID_CHAIN or CTN_RESOURCE_LIMIT and leaves the chain as it is. ctn_chain_verify adds what
 * only a whole chain can break: it returns something, and every value reaches what it returns. */

/* Parses `length` bytes of text, without a zero byte. Errors: CTN_PARSE, with line and column. */
CTN_API ctn_status ctn_chain_parse(const char* text, size_t length, ctn_chain** chain);
CTN_API ctn_status ctn_chain_create(const char* name, ctn_chain** chain);
CTN_API void ctn_chain_destroy(ctn_chain* chain);

/* The canonical text, to be freed by ctn_string_free. Errors: those of ctn_chain_verify. */
CTN_API ctn_status ctn_chain_print(const ctn_chain* chain, char** text);

/* Checks all rules of a chain. Compiles nothing. Errors: CTN_INVALID_CHAIN, CTN_RESOURCE_LIMIT. */
CTN_API ctn_status ctn_chain_verify(const ctn_chain* chain);

/* Declares the chain's symbolic size, lo <= name <= hi. Call it before the first parameter with a
 * dimension of CTN_SYMBOL. A chain has at most one. */
CTN_API ctn_status ctn_chain_symbol(ctn_chain* chain, const char* name, int64_t lo, int64_t hi);

/* Gives the chain a word of its text form; one that it has stays. Errors: CTN_INVALID_ARGUMENT. */
CTN_API ctn_status ctn_chain_word(ctn_chain* chain, const char* word);

/* A parameter of a chain. */
typedef struct ctn_parameter {
  size_t struct_size;     /* sizeof the struct */
  const char* name;       /* null: "t<number>" */
  ctn_role role;          /* of its memory */
  ctn_dtype dtype;        /* of its elements */
  int32_t rank;           /* number of dimensions, 0 to 8; 0 for a scalar */
  const int64_t* dims;    /* `rank` sizes in elements, or CTN_SYMBOL; null only for rank 0 */
  const int64_t* strides; /* `rank` strides in elements; null: contiguous, last dimension fastest */
  int64_t align;          /* the address is a multiple of this many bytes; 0: 16 */
  int32_t packed;         /* not 0: in the packed layout, CTN_I8, CTN_I4 or CTN_U4; no strides */
} ctn_parameter;

/* Declares a parameter. Launches take parameters in the order of their declaration, which may come
 * between operations. */
CTN_API ctn_status ctn_chain_parameter(ctn_chain* chain, const ctn_parameter* parameter,
                                       ctn_value* value);

/* `name` may be null, here and below. A constant that has neither a name nor a use is left out. */
CTN_API ctn_status ctn_chain_constant(ctn_chain* chain, double number, const char* name,
                                      ctn_value* value);

/* Divides a label into groups, of a contraction here, elsewhere in groups.h. Group g, an index of
 * label `group`, has the indices ends[g-1] to ends[g] - 1 of label `label`, with ends[-1] = 0.
 * Indices from the last end on belong to no group: as rows of the result they are 0 before the
 * epilogue, as K they are not summed. `ends` is an i32 parameter with one element per group,
 * ascending; the kernels read it on the device. */
typedef struct ctn_ragged {
  size_t struct_size; /* sizeof the struct */
  char label;         /* the label that is divided */
  char group;         /* the label of the groups */
  ctn_value ends;     /* the parameter with the end of each group */
} ctn_ragged;

/* Multiplies f32 operands in f32. Without it they are rounded to tf32. */
#define CTN_CONTRACT_TRUE_F32 1u
/* Operands of CTN_E4M3 or CTN_E5M2: the tensor cores keep the whole sum, with 13 fraction bits.
 * Without the flag, sums of 128 terms are added in f32. */
#define CTN_CONTRACT_FAST_ACCUM 2u

/* "mk,nk->mn", one letter per dimension. A label of one operand and the result is kept, a label of
 * all three is a batch label, a label of only the two operands is summed. `flags`: 0, or a flag
 * above that fits the operands' dtype. `ragged` may be null. */
CTN_API ctn_status ctn_chain_contract(ctn_chain* chain, const char* equation, ctn_value left,
                                      ctn_value right, uint32_t flags, const ctn_ragged* ragged,
                                      const char* name, ctn_value* value);

/* The weight (q - zero) * scale of integers `q`, for a contraction with a bf16 or f16 operand or a
 * cast to one of these, a matrix like any other; or the operand q * scale of CTN_E4M3 or CTN_E5M2,
 * for a contraction with another one of that dtype. No other operation takes it. Scales of fp8 are
 * CTN_F32, without zeros. Blocks of block_rows x block_columns of the last two dimensions of `q`
 * share one scale and zero: both have the shape of `q` with those sizes divided by the block's,
 * rounded up. All three are parameters. `zero` is of CTN_I8, CTN_I4 or CTN_U4, or -1: none. */
CTN_API ctn_status ctn_chain_dequant(ctn_chain* chain, ctn_value q, ctn_value scale, ctn_value zero,
                                     int64_t block_rows, int64_t block_columns, const char* name,
                                     ctn_value* value);

/* An operand. With `labels`, one letter per dimension, it broadcasts by label; with null, by
 * trailing dimension. Where the rows of the result are those of an M-grouped contraction, a label
 * may be that of the group: "en" of b[groups, n] reads b[g, n] in a row of group g, and 0 in a row
 * of no group. */
typedef struct ctn_use {
  ctn_value value;    /* a value of the chain */
  const char* labels; /* "mn"; null: by trailing dimension */
} ctn_use;

/* `op` is the name in chain text: "add", "silu", "clamp", ... `attributes` are those of the op, in
 * its order ("clamp": lo, hi); null if num_attributes is 0. */
CTN_API ctn_status ctn_chain_elementwise(ctn_chain* chain, const char* op, const ctn_use* operands,
                                         size_t num_operands, const double* attributes,
                                         size_t num_attributes, const char* name, ctn_value* value);

/* "mn->n" sums over the labels that the result lacks: over m. */
CTN_API ctn_status ctn_chain_sum(ctn_chain* chain, const char* equation, ctn_value operand,
                                 const char* name, ctn_value* value);

/* A reduction by its name in chain text: "sum", or "reduce_max", which is NaN if an element is, and
 * -inf without elements. Equation as for ctn_chain_sum. */
CTN_API ctn_status ctn_chain_reduce(ctn_chain* chain, const char* op, const char* equation,
                                    ctn_value operand, const char* name, ctn_value* value);

/* Rounds to `dtype`. */
CTN_API ctn_status ctn_chain_cast(ctn_chain* chain, ctn_value operand, ctn_dtype dtype,
                                  const char* name, ctn_value* value);

/* An output of a chain. */
typedef struct ctn_output {
  size_t struct_size;     /* sizeof the struct */
  ctn_value value;        /* what is returned */
  ctn_dtype dtype;        /* of the elements in memory: bf16, f16, f32, e4m3 or e5m2 */
  int32_t num_strides;    /* the rank of the value, or 0: contiguous */
  const int64_t* strides; /* num_strides strides in elements; null only for 0 */
  int64_t align;          /* the address is a multiple of this many bytes; 0: 16 */
  /* 0: memory of its own. Else 1 + an input of the same dtype and shape that the output overwrites
   * (`x += f(x)`): the output takes the input's strides and align, every value of the chain is
   * computed from the input as it was before the launch, and a launch takes the input's address for
   * both. Each input at most once. */
  ctn_value in_place;
} ctn_output;

/* Makes a value, rounded to `dtype`, the next output. */
CTN_API ctn_status ctn_chain_return(ctn_chain* chain, const ctn_output* output);

/* ---- compiling ------------------------------------------------------------------------------ */

/* What an engine does with the cache on disk. */
typedef int32_t ctn_cache_mode;
enum { CTN_CACHE_READ_WRITE = 0, CTN_CACHE_READ_ONLY = 1, CTN_CACHE_OFF = 2 };

/* Where NVRTC runs. In a helper process, a compile that crashes, hangs or needs too much memory is
 * an error of the call; in this process it may end the process. */
typedef int32_t ctn_helper;
enum {
  CTN_HELPER_ENVIRONMENT = 0, /* as CATENARY_HELPER says, else CTN_HELPER_OFF */
  CTN_HELPER_OFF = 1,         /* in this process */
  CTN_HELPER_PREFERRED = 2, /* in this process, with a warning, where there is no helper program */
  CTN_HELPER_REQUIRED = 3   /* CTN_NVRTC_MISSING where there is no helper program */
};

/* What an engine does with a chain that is in no pack. Off: CTN_PACK_MISS, and no compiler is
 * opened. Warn: it is compiled, with one line to `warn`, or to stderr without one. */
typedef int32_t ctn_jit_mode;
enum { CTN_JIT_DEFAULT = 0, CTN_JIT_AUTO = 1, CTN_JIT_WARN = 2, CTN_JIT_OFF = 3 };

/* Adds a folder in which NVRTC is searched after what the process has loaded: that of a library, a
 * toolkit's, or one that holds the wheels of Python (site-packages). Has no effect once NVRTC has
 * been opened, or if CATENARY_NVRTC is set. */
CTN_API ctn_status ctn_nvrtc_add_folder(const char* folder);

/* Whose machine code an engine makes. */
typedef int32_t ctn_backend;
enum {
  CTN_BACKEND_DEVICE = 0,   /* that of the process's device */
  CTN_BACKEND_CUDA = 1,     /* of GPUs, by NVRTC */
  CTN_BACKEND_SIMULATOR = 2 /* of the simulator, by the host's C++ compiler */
};

/* How an engine plans, compiles and caches. */
typedef struct ctn_engine_options {
  size_t struct_size; /* sizeof the struct */
  /* null or "": CATENARY_CACHE_DIR, else catenary/ in XDG_CACHE_HOME, else ~/.cache/catenary */
  const char* cache_directory;
  ctn_cache_mode cache_mode; /* CATENARY_CACHE overrides it if cache_directory is null or "" */
  int32_t line_info;         /* 1: profilers show the emitted source */
  int32_t allow_spills;      /* 1: accept a kernel whose registers spill */
  int32_t unfused;           /* 1: one kernel per operation, for comparison */
  int32_t split_k;           /* CTAs that divide K, 1 to 16; 0: the cost model chooses */
  const char* force_tile;    /* a tile's name as explain prints it; null or "": the cost model */
  /* Called once for each distinct problem, from any thread, with `user` and a line that is valid
   * during the call. Null: the log gets it (stderr with CTN_JIT_WARN, for what packs miss). */
  void (*warn)(void* user, const char* line);
  void* user;
  /* A file that gets one line for each distinct chain, target and set of options that is asked for;
   * `catenary pack build --from` reads it. null or "": CATENARY_TRACE, else none. */
  const char* trace_file;
  ctn_jit_mode jit; /* CTN_JIT_DEFAULT: CATENARY_JIT=auto|warn|off, else CTN_JIT_AUTO */
  ctn_helper helper;
  /* null or "": CATENARY_HELPER if that is a path, else the program installed with the library */
  const char* helper_program;
  int64_t helper_memory_bytes; /* of a helper's address space; 0: CATENARY_HELPER_MEMORY or 4 GiB */
  int32_t helper_seconds;      /* of one compile; 0: CATENARY_HELPER_SECONDS or 300 */
  ctn_backend backend;
  /* 1: the bits of a row depend neither on the number of rows nor on other rows. Sums of products
   * have one order for every M, and small M has no kernels of its own: it is slower. */
  int32_t batch_invariant;
  /* The build of NVRTC that kernels of the cache are of, as `catenary doctor` prints it:
   * "nvrtc 13.0.88 CL-36424714". NVRTC is then opened only for a kernel that is not in the cache;
   * another build is CTN_NVRTC_MISSING. null or "": CATENARY_NVRTC_BUILD, else NVRTC is
   * opened to ask for its build. Without effect in the simulator. */
  const char* nvrtc_build;
  /* 1: every chain is compiled as if its text had the word algebraic_norms: row scales of norms
   * move through the contractions that read the normalised rows, and roundings on that way are
   * dropped. */
  int32_t algebraic_norms;
} ctn_engine_options;

/* `options` may be null: all defaults. Opens the packs of CATENARY_PACK_PATH, files separated by
 * colons, with priority 0; errors are those of ctn_pack_open. */
CTN_API ctn_status ctn_engine_create(const ctn_engine_options* options, ctn_engine** engine);
CTN_API void ctn_engine_destroy(ctn_engine* engine);

/* Compiles for `target`, a GPU's name ("h200") or an architecture ("sm_80"), or takes the chain
 * from a pack of the engine. Needs no GPU. Errors: CTN_INVALID_CHAIN, CTN_UNSUPPORTED,
 * CTN_RESOURCE_LIMIT, CTN_NVRTC_MISSING, CTN_COMPILE_FAILED, CTN_KERNEL_REJECTED,
 * CTN_OUT_OF_MEMORY, CTN_PACK_MISS; with a helper CTN_COMPILE_TIMEOUT, CTN_COMPILER_ENDED. */
CTN_API ctn_status ctn_engine_compile(ctn_engine* engine, const ctn_chain* chain,
                                      const char* target, ctn_compiled** compiled);

/* Loads into the primary context of device `device`. Fails with CTN_NOT_WARMED_CAPTURE while
 * `stream` (a CUstream) is being captured; null checks the device's blocking streams. Other errors:
 * CTN_DRIVER_MISSING, CTN_ARCH_MISMATCH, CTN_RESOURCE_LIMIT, CTN_OUT_OF_MEMORY. */
CTN_API ctn_status ctn_engine_load(ctn_engine* engine, const ctn_compiled* compiled, int32_t device,
                                   void* stream, ctn_executable** executable);

/* ctn_engine_compile for the GPU of `device`, then ctn_engine_load. Errors are those of both. */
CTN_API ctn_status ctn_engine_prepare(ctn_engine* engine, const ctn_chain* chain, int32_t device,
                                      void* stream, ctn_executable** executable);

/* Destroys the handle. Executables that were loaded from it stay. */
CTN_API void ctn_compiled_destroy(ctn_compiled* compiled);

/* The form of a text for people or for programs. */
typedef int32_t ctn_format;
enum { CTN_TEXT = 0, CTN_JSON = 1 };

/* The plan: kernels, the reason of every fusion boundary, alternatives, predicted times. JSON has
 * the same facts. To be freed by ctn_string_free. Of a chain of a pack: the text that was stored
 * when it was compiled; CTN_UNSUPPORTED: the pack has none. */
CTN_API ctn_status ctn_compiled_explain(const ctn_compiled* compiled, ctn_format format,
                                        char** text);

/* The number of kernels, over all buckets of the symbol. */
CTN_API ctn_status ctn_compiled_kernel_count(const ctn_compiled* compiled, size_t* count);

/* Facts of one kernel. Its pointers are valid until `compiled` is destroyed. */
typedef struct ctn_kernel {
  size_t struct_size; /* set by the caller */
  const char* name;   /* the entry point in the cubin */
  const char* arch;   /* "sm_90a" */
  const void* cubin;  /* machine code, an ELF file */
  size_t cubin_bytes; /* its size */
  int32_t threads;    /* per CTA */
  int32_t registers;  /* per thread */
  int64_t smem_bytes; /* dynamic shared memory per CTA */
} ctn_kernel;

/* `index`: from 0, in the order of buckets and of launches in a bucket. */
CTN_API ctn_status ctn_compiled_kernel(const ctn_compiled* compiled, size_t index,
                                       ctn_kernel* kernel);

/* The emitted CUDA source of one kernel, to be freed by ctn_string_free. CTN_UNSUPPORTED: the chain
 * is from a pack that was built without sources. */
CTN_API ctn_status ctn_compiled_kernel_source(const ctn_compiled* compiled, size_t index,
                                              char** text);

/* ---- launching ------------------------------------------------------------------------------ */

/* The arguments of a launch. */
typedef struct ctn_launch_args {
  size_t struct_size;   /* sizeof the struct */
  void* const* tensors; /* device addresses: the tensor parameters in order, then the outputs */
  size_t num_tensors;   /* of `tensors` */
  const float* scalars; /* the scalar parameters in order */
  size_t num_scalars;   /* of `scalars` */
  int64_t symbol;       /* the symbolic size; 0 for a chain without one */
  void* workspace;      /* ctn_executable_workspace_bytes of device memory, aligned to 256 bytes */
  void* stream;         /* CUstream or cudaStream_t of the device's primary context; null: its
                           default stream */
  int32_t allow_pdl;    /* 1: the first kernel may start while the stream's previous kernel still
                           runs (programmatic dependent launch) */
  int32_t disable_pdl;  /* 1: no kernel of the chain starts before the previous one has ended;
                           overrides allow_pdl */
} ctn_launch_args;

/* Checks the arguments, then launches the chain's kernels in order. Asynchronous; allocates
 * nothing, takes no lock, may be captured, needs no current context and leaves the thread's as it
 * is. A tensor without elements may be null. The bytes from an output's first element to its last
 * may overlap those of no other tensor, but for an output in place of an input, which is given that
 * input's address. Errors: CTN_INVALID_ARGUMENT, before any kernel is launched; the driver's. */
CTN_API ctn_status ctn_executable_launch(const ctn_executable* executable,
                                         const ctn_launch_args* args);

/* Device memory that a launch needs as `workspace`, in bytes, for every size of the symbol; may be
 * 0. Concurrent launches need a workspace each. */
CTN_API ctn_status ctn_executable_workspace_bytes(const ctn_executable* executable, int64_t* bytes);

/* What was compiled, for ctn_compiled_*. The caller destroys it; it may outlive the executable. */
CTN_API ctn_status ctn_executable_compiled(const ctn_executable* executable,
                                           ctn_compiled** compiled);
CTN_API void ctn_executable_destroy(ctn_executable* executable);

/* ---- device memory and streams -------------------------------------------------------------- */

/* For programs without an allocator and streams of their own: a launch takes memory of any
 * allocator, and streams of the CUDA runtime. Each function works in the primary context of device
 * `device` and does not change the thread's current context. */

/* The number of devices that this process sees, 1 or more. None is CTN_DRIVER_MISSING. */
CTN_API ctn_status ctn_device_count(int32_t* count);

/* Makes the simulator the device of this process, as CATENARY_DEVICE=sim does. For programs that go
 * on without a GPU; also after CTN_DRIVER_MISSING. CTN_INVALID_ARGUMENT: a GPU is in use. */
CTN_API ctn_status ctn_device_use_simulator(void);

/* 1: the simulator is the device of this process, by CATENARY_DEVICE=sim or by the call above. */
CTN_API ctn_status ctn_device_is_simulator(int32_t* simulator);

/* Device memory, aligned to 256 bytes; null for 0 bytes. ctn_device_free allows null. */
CTN_API ctn_status ctn_device_alloc(int32_t device, size_t bytes, void** address);
CTN_API void ctn_device_free(int32_t device, void* address);

/* Copies of `bytes` bytes, complete on return for launches on any stream. A download waits for all
 * work of the device, then copies to host memory. */
CTN_API ctn_status ctn_device_upload(int32_t device, void* to, const void* from, size_t bytes);
CTN_API ctn_status ctn_device_download(int32_t device, void* to, const void* from, size_t bytes);

/* A CUstream that is ordered with the default stream. ctn_stream_destroy allows null; kernels that
 * were launched on the stream run to their end. */
CTN_API ctn_status ctn_stream_create(int32_t device, void** stream);
CTN_API ctn_status ctn_stream_synchronize(int32_t device, void* stream);
CTN_API void ctn_stream_destroy(int32_t device, void* stream);

/* ---- the reference -------------------------------------------------------------------------- */

/* The arguments of an evaluation on the host. */
typedef struct ctn_reference_args {
  size_t struct_size;   /* sizeof the struct */
  void* const* tensors; /* host addresses in the order, dtypes and strides of a launch */
  size_t num_tensors;   /* of `tensors` */
  const float* scalars; /* the scalar parameters in order */
  size_t num_scalars;   /* of `scalars` */
  int64_t symbol;       /* the symbolic size; 0 for a chain without one */
  int32_t threads;      /* 1 to 1024; 0: one per core */
} ctn_reference_args;

/* Evaluates the chain on the host in double precision, rounds only at casts and outputs, and writes
 * the outputs. Slow: for checks. */
CTN_API ctn_status ctn_reference_run(const ctn_chain* chain, const ctn_reference_args* args);

#ifdef __cplusplus
}
#endif

#include "catenary/facts.h"    /* facts about a chain: part of this ABI */
#include "catenary/gradient.h" /* gradients: part of this ABI */
#include "catenary/groups.h"   /* groups outside contractions: part of this ABI */
#include "catenary/pack.h"     /* packs: part of this ABI */
#include "catenary/repack.h"   /* quantised weights: part of this ABI */
#include "catenary/torch.h"    /* operators of PyTorch: part of this ABI */

#endif /* CATENARY_CATENARY_H */
