// SPDX-License-Identifier: Apache-2.0
#include "adapters/torch/host_run.h"

#include "catenary/catenary.h"
#include "runtime/c_api/c_api.h"

namespace catenary::torch_adapter {
namespace {

Error checked(ctn_status status) {
  if (status == CTN_OK) return Error::success();
  return make_error_text(static_cast<ErrorCode>(status), ctn_last_error());
}

// Device memory of the simulator with the bytes of a host tensor.
class DeviceCopy {
 public:
  DeviceCopy() = default;
  DeviceCopy(DeviceCopy&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(other.bytes_) {}
  DeviceCopy& operator=(DeviceCopy&&) = delete;
  ~DeviceCopy() { ctn_device_free(0, address_); }

  Error allocate(size_t bytes) {
    bytes_ = bytes;
    return checked(ctn_device_alloc(0, bytes, &address_));
  }
  Error upload(const void* from) { return checked(ctn_device_upload(0, address_, from, bytes_)); }
  Error download(void* to) { return checked(ctn_device_download(0, to, address_, bytes_)); }
  void* address() const { return address_; }

 private:
  void* address_ = nullptr;
  size_t bytes_ = 0;
};

size_t span_bytes(const TensorType& type, i64 symbol) {
  return static_cast<size_t>(catenary::span_bytes(with_symbol(type, symbol)));
}

Error run_reference(const Bound& bound, llvm::ArrayRef<void*> addresses,
                    llvm::ArrayRef<float> scalars) {
  const ctn_chain chain{bound.special.chain.chain(), {}};
  ctn_reference_args args{};
  args.struct_size = sizeof args;
  args.tensors = addresses.data();
  args.num_tensors = addresses.size();
  args.scalars = scalars.data();
  args.num_scalars = scalars.size();
  args.symbol = bound.special.symbol;
  args.threads = 1;
  return checked(ctn_reference_run(&chain, &args));
}

Error run_simulator(const Bound& bound, llvm::ArrayRef<void*> addresses,
                    llvm::ArrayRef<float> scalars) {
  const Form& form = *bound.form;
  const VerifiedChain& chain = bound.special.chain;
  const i64 symbol = bound.special.symbol;
  std::vector<DeviceCopy> copies(addresses.size());
  llvm::SmallVector<void*, 16> device(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    const bool output = i >= form.tensors.size();
    const size_t o = i - form.tensors.size();
    if (output && form.outputs[o].in_place >= 0) {
      device[i] = device[static_cast<size_t>(form.outputs[o].in_place)];
      continue;
    }
    const TensorType& type =
        output ? chain.output_type(static_cast<int>(o)) : chain.info(form.tensors[i].value).type;
    if (Error error = copies[i].allocate(span_bytes(type, symbol))) return error;
    device[i] = copies[i].address();
    // Between the elements of an output with gaps is memory of the caller.
    const bool gaps = output && span_elements(type) != num_elements(type);
    if (output && !gaps) continue;
    if (Error error = copies[i].upload(addresses[i])) return error;
  }
  DeviceCopy workspace;
  if (Error error = workspace.allocate(static_cast<size_t>(bound.executable->workspace_bytes()))) {
    return error;
  }
  LaunchArguments launch;
  launch.tensors = device;
  launch.scalars = scalars;
  launch.symbol = symbol;
  launch.workspace = workspace.address();
  launch.allow_pdl = Registry::process().allow_pdl(form);
  {
    Expected<cuda::ScopedContext> scope = cuda::ScopedContext::primary(0);
    if (!scope) return scope.takeError();
    if (Error error = bound.executable->launch(launch)) return error;
  }
  for (size_t o = 0; o < form.outputs.size(); ++o) {
    const size_t i = form.tensors.size() + o;
    const int in_place = form.outputs[o].in_place;
    DeviceCopy& copy = copies[in_place >= 0 ? static_cast<size_t>(in_place) : i];
    if (Error error = copy.download(addresses[i])) return error;
  }
  return Error::success();
}

}  // namespace

Error run_on_host(const Bound& bound, llvm::ArrayRef<void*> addresses,
                  llvm::ArrayRef<float> scalars) {
  return bound.place == Place::kSimulator ? run_simulator(bound, addresses, scalars)
                                          : run_reference(bound, addresses, scalars);
}

}  // namespace catenary::torch_adapter
