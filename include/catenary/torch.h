/* SPDX-License-Identifier: Apache-2.0
 * Catenary's C ABI, continued: chains as operators of PyTorch 2.10 and newer, through the C shim
 * that torch's libraries export. Needs no header of torch and no build for a version of it. Part of
 * catenary.h, which includes it; errors, lifetimes and structs are as described there.
 *
 * The operators of the namespace `catenary` are run1 to run4 by the number of outputs, and run_out,
 * which writes outputs of the caller. train1 to train4 are the same as run1 to run4 under names to
 * which the Python package gives gradients. They take the tensors of a chain, its key, and its
 * scalars:
 *
 *   run1(Tensor[] inputs, int key, float[] scalars=[]) -> Tensor
 *   run_out(Tensor[] inputs, Tensor(a!)[] outs, int key, float[] scalars=[]) -> ()
 *
 * `inputs` are the parameters in order, without scalars and without those that an output
 * overwrites, which are only in `outs`. Outputs and workspace are from torch's allocator, launches
 * are on its current stream. A first call for new layouts compiles, which is refused during a
 * stream capture.
 */
#ifndef CATENARY_TORCH_H
#define CATENARY_TORCH_H

#include "catenary/catenary.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the operators are registered. */
typedef struct ctn_torch_options {
  size_t struct_size;        /* sizeof the struct */
  const char* libtorch_cpu;  /* path of the libtorch_cpu.so that the process has loaded */
  const char* libtorch_cuda; /* of libtorch_cuda.so; null or "": for CPU tensors only */
  int32_t define_schemas;    /* 1: the schemas too, for a process without the Python package */
} ctn_torch_options;

/* Registers the operators for the life of the process. A second call does nothing.
 * CTN_INVALID_ARGUMENT: a library is not loaded. CTN_UNSUPPORTED: torch is older than 2.10. */
CTN_API ctn_status ctn_torch_register(const ctn_torch_options* options);

/* What a call from Python without torch's dispatcher is made of: PyObject pointers, which live from
 * then on as long as the process. The package's catenary/torch/direct.py fills it. */
typedef struct ctn_torch_direct_options {
  size_t struct_size;       /* sizeof the struct */
  const char* libc10;       /* path of the process's libc10.so */
  const char* libtorch_cpu; /* path of its libtorch_cpu.so */
  const void* exchange;     /* DLPackExchangeAPI: the pointer of Tensor.__dlpack_c_exchange_api__ */
  void* tensor_type;        /* torch.Tensor */
  void* parameter_type;     /* torch.nn.Parameter */
  void* empty_cpu;          /* empty(sizes, strides, dtype) of CPU memory */
  void* empty_cuda;         /* of memory on the current GPU; may be null: no direct calls there */
  void* dtypes;             /* a tuple: torch's dtypes by ctn_dtype */
  /* admit(*tensors) -> check(*tensors), which is true as long as the dispatcher would treat tensors
   * as it does these now, or None where it would not go straight to the operator's kernel. */
  void* admit;
} ctn_torch_direct_options;

/* A function of Python, direct(key, inputs, scalars=(), outs=None) with tuples, which makes a call
 * as the operators do, without the dispatcher, and returns the output, a tuple of several, or
 * `outs`. It returns None where a call needs the dispatcher or must compile. A pair as `key` has a
 * layer's keys for a first tensor of bf16 and of f16, or 0; such a call is made only while no
 * gradients are recorded. Call with the GIL held. `function`: a new reference. CTN_UNSUPPORTED: the
 * operators are not registered, the process runs no Python, or its torch lacks something. A second
 * call returns the same function. */
CTN_API ctn_status ctn_torch_direct(const ctn_torch_direct_options* options, void** function);

/* What the sizes and strides of a chain's parameters say to its operator. */
typedef int32_t ctn_torch_layouts;
enum {
  CTN_TORCH_EXACT = 0, /* tensors must have them */
  /* They are examples: a call compiles the chain for the sizes, strides and alignment of its
   * tensors. A symbol as dimension 0 of parameters takes all leading dimensions of the tensors
   * beyond the declared rank, as in a linear layer; after 8 different sizes of it, kernels are
   * compiled for ranges. Outputs are dense, their dimensions ordered in memory as in the chain. */
  CTN_TORCH_FROM_TENSORS = 1,
  /* Added to either: calls of this key launch with allow_pdl. A caller of the operator makes sure
   * that no kernel that may still run writes a weight. */
  CTN_TORCH_ALLOW_PDL = 2
};

/* Makes a chain known to the operators. `key` is the same in every process: 63 bits of a SHA-256
 * over the chain without its names, and `layouts`. The chain may be destroyed. */
CTN_API ctn_status ctn_torch_add_chain(const ctn_chain* chain, ctn_torch_layouts layouts,
                                       int64_t* key);

/* Makes every chain of a pack known, with exact layouts. Add the pack to the engine too: it has the
 * machine code. `count`: entries; may be null. */
CTN_API ctn_status ctn_torch_add_pack(const ctn_pack* pack, size_t* count);

/* What the chain of a key takes and returns, as JSON, to be freed by ctn_string_free. */
CTN_API ctn_status ctn_torch_describe(int64_t key, char** json);

/* A tensor of the caller. */
typedef struct ctn_torch_tensor {
  /* Of its elements: CTN_BF16 to CTN_I8, CTN_E4M3 or CTN_E5M2. A parameter that is packed or has
   * 4 bits takes its bytes as CTN_I8: all of a packed one in one dimension, else rows of two
   * elements a byte. */
  ctn_dtype dtype;
  int32_t rank;           /* number of dimensions, 0 to 8 */
  const int64_t* sizes;   /* `rank` numbers */
  const int64_t* strides; /* `rank` strides in elements */
  void* address;          /* of the first element */
} ctn_torch_tensor;

/* A chain for layouts and a device: valid until the process ends. */
typedef struct ctn_torch_binding ctn_torch_binding;

/* What the operators do, for a caller that allocates memory itself: finds or compiles the chain for
 * these tensors, one per parameter that is no scalar, in order. `on_gpu`: 1 for memory of GPU
 * `device` and work on `stream`, 0 for host memory. */
CTN_API ctn_status ctn_torch_bind(int64_t key, const ctn_torch_tensor* tensors, size_t num_tensors,
                                  int32_t on_gpu, int32_t device, void* stream,
                                  const ctn_torch_binding** binding);

/* The layout that output `index` must have; the address is not written. */
CTN_API ctn_status ctn_torch_binding_output(const ctn_torch_binding* binding, size_t index,
                                            ctn_torch_tensor* output);

/* Whether tensor `index` must be passed as a contiguous copy. */
CTN_API ctn_status ctn_torch_binding_copied(const ctn_torch_binding* binding, size_t index,
                                            int32_t* copied);
CTN_API ctn_status ctn_torch_binding_workspace(const ctn_torch_binding* binding, int64_t* bytes);

/* Launches on the GPU's `args->stream`, or computes on the host. `args` as for
 * ctn_executable_launch; its symbol is not read. With allow_pdl of the arguments, of the key or of
 * ctn_torch_set_pdl it launches with allow_pdl. */
CTN_API ctn_status ctn_torch_launch(const ctn_torch_binding* binding, const ctn_launch_args* args);

/* What calls have been compiled for, as a JSON array of {key, place, device, symbol, chain}. To be
 * freed by ctn_string_free. */
CTN_API ctn_status ctn_torch_report(char** json);

/* The engine with which the operators compile from now on; it must stay alive. Null: an engine of
 * their own with default options. */
CTN_API ctn_status ctn_torch_use_engine(ctn_engine* engine);

/* 1: all operators launch with allow_pdl: kernels may read weights before the stream's previous
 * kernel has ended, so that kernel must not write them. 0, the default: only those whose key has
 * CTN_TORCH_ALLOW_PDL. */
CTN_API ctn_status ctn_torch_set_pdl(int32_t allow);

/* What computes CPU tensors: the reference in float64, or the simulator, which must be the device
 * of the process (CATENARY_DEVICE=sim). */
typedef int32_t ctn_torch_host;
enum { CTN_TORCH_REFERENCE = 0, CTN_TORCH_SIMULATOR = 1 };
/* Of the whole process, from the next call on. Errors: CTN_INVALID_ARGUMENT for another value. */
CTN_API ctn_status ctn_torch_set_host(ctn_torch_host host);

#ifdef __cplusplus
}
#endif

#endif /* CATENARY_TORCH_H */
