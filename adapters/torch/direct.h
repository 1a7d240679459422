// SPDX-License-Identifier: Apache-2.0
// A call of an operator from Python without torch's dispatcher: a function of Python that takes the
// tensors themselves. It makes only calls that the dispatcher would hand to the operator's own
// kernel unchanged; for every other call it returns None, and the caller calls the operator.
#pragma once

#include <string>

#include "adapters/torch/python.h"
#include "adapters/torch/shim.h"

namespace catenary::torch_adapter {

struct DirectOptions {
  std::string libc10;  // paths of torch's libraries, which are loaded
  std::string libtorch_cpu;
  const void* exchange = nullptr;         // DLPackExchangeAPI of torch.Tensor
  python::Object* tensor_type = nullptr;  // torch.Tensor
  python::Object* parameter_type = nullptr;
  python::Object* empty_cpu = nullptr;   // empty(sizes, strides, dtype) on the CPU
  python::Object* empty_cuda = nullptr;  // on the current GPU; null: no direct calls there
  python::Object* dtypes = nullptr;      // a tuple: torch's dtypes by ctn_dtype
  // admit(*tensors): a function check(*tensors) that is true while the dispatcher would treat these
  // tensors, in the thread's state, as it does now; None where it would not go straight to the
  // operator's kernel.
  python::Object* admit = nullptr;
};

// The function direct(key, inputs, scalars=(), outs=None), a new reference. `inputs`, `scalars` and
// `outs` are tuples, `outs` as run_out takes them. `key` may be a pair of keys, for bf16 and f16 as
// the first tensor's dtype, 0 for none; then no call is made while gradients are enabled. It
// returns the output, a tuple of several, or `outs`; None if it makes no call. The GIL is held but
// for the launch. The objects of `options` live from then on as long as the process; a second call
// returns the same function. kUnsupported: the process or its torch lacks what the function needs.
Expected<python::Object*> make_direct(const Shim& shim, const DirectOptions& options);

}  // namespace catenary::torch_adapter
