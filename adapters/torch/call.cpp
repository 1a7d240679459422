// SPDX-License-Identifier: Apache-2.0
#include "adapters/torch/call.h"

#include "adapters/torch/launch_bound.h"
#include "adapters/torch/view.h"
#include "ir/counted.h"
#include "ir/names.h"

namespace catenary::torch_adapter {
namespace {

#define CATENARY_SHIM(call) \
  if (const Status status = (call); status != 0) return shim_error(status, #call)

Error view_of(const Shim& shim, TensorHandle tensor, View& view) {
  CATENARY_SHIM(shim.aoti_torch_get_dim(tensor, &view.rank));
  int64_t* sizes = nullptr;
  int64_t* strides = nullptr;
  CATENARY_SHIM(shim.aoti_torch_get_sizes(tensor, &sizes));
  CATENARY_SHIM(shim.aoti_torch_get_strides(tensor, &strides));
  view.sizes = sizes;
  view.strides = strides;
  CATENARY_SHIM(shim.aoti_torch_get_dtype(tensor, &view.dtype));
  CATENARY_SHIM(shim.aoti_torch_get_device_type(tensor, &view.device_type));
  CATENARY_SHIM(shim.aoti_torch_get_device_index(tensor, &view.device));
  CATENARY_SHIM(shim.aoti_torch_get_data_ptr(tensor, &view.address));
  return Error::success();
}

// One call while it is made.
class Call {
 public:
  Call(const Shim& shim, CallArguments& arguments)
      : shim_(shim), arguments_(arguments), form_(arguments.form) {}

  Error run() {
    if (Error error = gather()) return error;
    if (Error error = find_bound()) return error;
    if (bound_->copies) {
      if (Error error = copy_arguments()) return error;
    }
    if (Error error = arguments_.given_outputs ? check_outputs() : allocate_outputs()) return error;
    return launch();
  }

 private:
  // The parameters in order. A parameter that an output overwrites is an output of the caller.
  Error gather() {
    if (Error error = check_counts()) return error;
    size_t input = 0;
    for (const FormTensor& tensor : form_->tensors) {
      const bool overwritten = tensor.overwritten_by >= 0;
      handles_.push_back(overwritten ? arguments_.outputs[tensor.overwritten_by].get()
                                     : arguments_.inputs[input++].get());
      views_.emplace_back();
      if (Error error = view_of(shim_, handles_.back(), views_.back())) return error;
      if (Error error = check_device(handles_.size() - 1)) return error;
    }
    return Error::success();
  }

  Error check_counts() {
    size_t overwritten = 0;
    for (const FormTensor& tensor : form_->tensors) overwritten += tensor.overwritten_by >= 0;
    const std::string& name = form_->chain.chain().name;
    if (overwritten > 0 && !arguments_.given_outputs) {
      return make_error(ErrorCode::kInvalidArgument,
                        "chain {} overwrites inputs: call run_out, with these as outputs",
                        quoted(name));
    }
    if (arguments_.inputs.size() + overwritten != form_->tensors.size()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "chain {} takes {}, got {}: pass its parameters in order, without "
                        "scalars and those that an output overwrites",
                        quoted(name), counted(form_->tensors.size() - overwritten, "tensor"),
                        arguments_.inputs.size());
    }
    if (arguments_.given_outputs && arguments_.outputs.size() != form_->outputs.size()) {
      return make_error(ErrorCode::kInvalidArgument, "chain {} has {}, got {}", quoted(name),
                        counted(form_->outputs.size(), "output"), arguments_.outputs.size());
    }
    if (arguments_.scalars.size() == form_->num_scalars) return Error::success();
    return make_error(ErrorCode::kInvalidArgument, "chain {} takes {}, got {}", quoted(name),
                      counted(form_->num_scalars, "scalar"), arguments_.scalars.size());
  }

  Error check_device(size_t i) {
    const View& view = views_[i];
    const bool wanted = view.device_type == (arguments_.on_gpu ? shim_.cuda : shim_.cpu);
    if (wanted && (i == 0 || view.device == views_[0].device)) return Error::success();
    return make_error(ErrorCode::kInvalidArgument,
                      "{} is on another device than the other tensors of the call: move all to one",
                      quoted(tensor_name(*form_, i)));
  }

  Place place() const { return arguments_.on_gpu ? Place::kGpu : Registry::process().host_place(); }
  int device() const { return arguments_.on_gpu && !views_.empty() ? views_[0].device : 0; }

  Error find_bound() {
    const Signature signature = signature_of(*form_, place(), device(), views_);
    bound_ = Registry::process().lookup(signature);
    return bound_ != nullptr ? Error::success() : bind(signature);
  }

  Error bind(llvm::ArrayRef<i64> signature) {
    std::vector<TensorLayout> layouts;
    for (size_t i = 0; i < views_.size(); ++i) {
      const View& view = views_[i];
      TensorLayout layout;
      layout.unsigned_bytes = view.dtype == shim_.u8;
      if (layout.unsigned_bytes) {
        layout.dtype = DType::kI8;
      } else if (!shim_.find_dtype(view.dtype, layout.dtype)) {
        return make_error(
            ErrorCode::kInvalidArgument,
            "{} has a dtype that no chain takes: use bfloat16, float16, float32, float8_e4m3fn or "
            "float8_e5m2, or int32 for the ends of groups, int8 or uint8 for quantised weights",
            quoted(tensor_name(*form_, i)));
      }
      layout.sizes.assign(view.sizes, view.sizes + view.rank);
      layout.strides.assign(view.strides, view.strides + view.rank);
      layout.align = alignment_of(view.address);
      layouts.push_back(std::move(layout));
    }
    Expected<cuda::Stream> stream = current_stream();
    if (!stream) return stream.takeError();
    Expected<const Bound*> bound =
        Registry::process().bind(*form_, layouts, signature, place(), device(), *stream);
    if (!bound) return bound.takeError();
    bound_ = *bound;
    return Error::success();
  }

  Expected<cuda::Stream> current_stream() const {
    void* stream = nullptr;
    if (!arguments_.on_gpu) return nullptr;
    if (shim_.aoti_torch_get_current_cuda_stream == nullptr) {
      return make_error(
          ErrorCode::kUnsupported,
          "the operators were registered without torch's CUDA library: pass its path");
    }
    CATENARY_SHIM(shim_.aoti_torch_get_current_cuda_stream(device(), &stream));
    return static_cast<cuda::Stream>(stream);
  }

  Error allocate(llvm::ArrayRef<i64> sizes, llvm::ArrayRef<i64> strides, int32_t dtype,
                 OwnedTensor& tensor) const {
    const llvm::SmallVector<int64_t, kMaxRank> torch_sizes(sizes.begin(), sizes.end());
    const llvm::SmallVector<int64_t, kMaxRank> torch_strides(strides.begin(), strides.end());
    TensorHandle handle = nullptr;
    CATENARY_SHIM(shim_.aoti_torch_empty_strided(
        static_cast<int64_t>(sizes.size()), torch_sizes.data(), torch_strides.data(), dtype,
        arguments_.on_gpu ? shim_.cuda : shim_.cpu, device(), &handle));
    tensor = OwnedTensor(&shim_, handle);
    return Error::success();
  }

  // The copies live until the call ends: the caching allocator keeps their memory for this stream.
  Error copy_arguments() {
    for (size_t i = 0; i < views_.size(); ++i) {
      if (!bound_->special.copied[i]) continue;
      const llvm::SmallVector<i64, kMaxRank> sizes(views_[i].sizes,
                                                   views_[i].sizes + views_[i].rank);
      llvm::SmallVector<i64, kMaxRank> strides(sizes.size(), 1);
      for (size_t d = sizes.size(); d-- > 1;) {
        strides[d - 1] = strides[d] * std::max<i64>(sizes[d], 1);
      }
      copies_.emplace_back();
      if (Error error = allocate(sizes, strides, views_[i].dtype, copies_.back())) return error;
      CATENARY_SHIM(shim_.aoti_torch_copy_(copies_.back().get(), handles_[i], 0));
      CATENARY_SHIM(shim_.aoti_torch_get_data_ptr(copies_.back().get(), &views_[i].address));
    }
    return Error::success();
  }

  Error allocate_outputs() {
    for (const TensorLayout& layout : bound_->special.outputs) {
      arguments_.outputs.emplace_back();
      if (Error error = allocate(layout.sizes, layout.strides, shim_.dtype_code(layout.dtype),
                                 arguments_.outputs.back())) {
        return error;
      }
    }
    return Error::success();
  }

  // The caller's outputs have the layouts that this call would allocate.
  Error check_outputs() const {
    for (size_t i = 0; i < arguments_.outputs.size(); ++i) {
      const TensorLayout& wanted = bound_->special.outputs[i];
      View view;
      if (Error error = view_of(shim_, arguments_.outputs[i].get(), view)) return error;
      const bool there = view.device_type == (arguments_.on_gpu ? shim_.cuda : shim_.cpu) &&
                         (views_.empty() || view.device == views_[0].device);
      if (!there || !fits(shim_, view, wanted)) return wrong_output(i, wanted);
    }
    return Error::success();
  }

  Error wrong_output(size_t i, const TensorLayout& wanted) const {
    return make_error(
        ErrorCode::kInvalidArgument,
        "output {} of chain {} must be {} of sizes ({}) and strides ({}) on the inputs' device", i,
        quoted(form_->chain.chain().name), dtype_text(wanted.dtype),
        fmt::format("{}", fmt::join(wanted.sizes.begin(), wanted.sizes.end(), ", ")),
        fmt::format("{}", fmt::join(wanted.strides.begin(), wanted.strides.end(), ", ")));
  }

  Error launch() {
    llvm::SmallVector<void*, 16> addresses;
    for (const View& view : views_) addresses.push_back(view.address);
    for (const OwnedTensor& output : arguments_.outputs) {
      void* address = nullptr;
      CATENARY_SHIM(shim_.aoti_torch_get_data_ptr(output.get(), &address));
      addresses.push_back(address);
    }
    if (!arguments_.on_gpu) return launch_bound(*bound_, addresses, arguments_.scalars, {});
    Expected<cuda::Stream> stream = current_stream();
    if (!stream) return stream.takeError();
    LaunchMemory memory{nullptr, *stream};
    OwnedTensor workspace;
    if (const i64 bytes = bound_->executable->workspace_bytes(); bytes > 0) {
      if (Error error = allocate({bytes}, {1}, shim_.u8, workspace)) return error;
      CATENARY_SHIM(shim_.aoti_torch_get_data_ptr(workspace.get(), &memory.workspace));
    }
    return launch_bound(*bound_, addresses, arguments_.scalars, memory);
  }

  const Shim& shim_;
  CallArguments& arguments_;
  const Form* form_;
  llvm::SmallVector<TensorHandle, 8> handles_;
  llvm::SmallVector<View, 8> views_;
  Tensors copies_;
  const Bound* bound_ = nullptr;
};

#undef CATENARY_SHIM

}  // namespace

Error call(const Shim& shim, CallArguments& arguments) { return Call(shim, arguments).run(); }

}  // namespace catenary::torch_adapter
