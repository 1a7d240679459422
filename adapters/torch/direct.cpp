// SPDX-License-Identifier: Apache-2.0
#include "adapters/torch/direct.h"

#include <dlfcn.h>

#include <unordered_map>

#include "adapters/torch/forward_mode.h"
#include "adapters/torch/launch_bound.h"
#include "adapters/torch/operators.h"
#include "adapters/torch/view.h"
#include "catenary/dlpack.hpp"
#include "ir/names.h"

namespace catenary::torch_adapter {
namespace {

using python::Object;
using python::Reference;
using python::share;
using python::Size;

// DLPackExchangeAPI of dlpack.h 1.2 and newer.
struct Exchange {
  uint32_t major, minor;
  const Exchange* older;
  void* allocate;
  void* from_object;
  void* to_object;
  int (*view)(Object* tensor, ctn::DLPackTensor* view);  // sets Python's error unless 0
  void* current_stream;
};

// What makes the dispatcher, or torch.ops before it, do more than call a kernel and is no dispatch
// key. C++ functions of torch without arguments of its types.
struct TorchState {
  bool (*has_callbacks)() = nullptr;                  // at::hasCallbacks: a profiler, an observer
  bool (*has_function_mode)() = nullptr;              // at::impl::torch_function_mode_enabled
  bool (*has_dispatch_mode)(bool of_user) = nullptr;  // TorchDispatchModeTLS::any_modes_set
  Status (*current_device)(int32_t* device) = nullptr;
  ForwardMode forward_mode;
};

// The checks that admit() has made for calls with as many tensors.
struct Admission {
  std::vector<Reference> checks;
  uint64_t refused = 0;
};

// What a bound form needs of Python. Guarded by the GIL.
struct Prepared {
  std::vector<Reference> outputs;  // the arguments of `empty`
  Reference workspace;
  Admission allocating, given_outputs;
};
// Kinds of tensors and states of a thread that one form is called with: inference mode or not,
// parameters or tensors.
constexpr size_t kMostChecks = 4;

struct Direct {
  const python::Api& py;
  const Shim& shim;
  const Exchange& exchange;
  TorchState state;
  DirectOptions options;
  Object* function = nullptr;
  std::unordered_map<const Bound*, Prepared> prepared;
};
Direct* the_direct = nullptr;

int32_t torch_dtype(const Shim& shim, const ctn::DLPackTensor& tensor) {
  if (tensor.lanes != 1) return -1;
  const int kind = tensor.code << 8 | tensor.bits;
  switch (kind) {
    case 4 << 8 | 16:
      return shim.bf16;
    case 2 << 8 | 16:
      return shim.f16;
    case 2 << 8 | 32:
      return shim.f32;
    case 0 << 8 | 32:
      return shim.i32;
    case 0 << 8 | 8:
      return shim.i8;
    case 1 << 8 | 8:
      return shim.u8;
    case 10 << 8 | 8:
      return shim.e4m3;
    case 12 << 8 | 8:
      return shim.e5m2;
    default:
      return -1;
  }
}

// One call while it is made. Steps that return false have set no error of Python.
class DirectCall {
 public:
  DirectCall(Direct& direct, Object* const* arguments, Size count)
      : direct_(direct), py_(direct.py), arguments_(arguments), count_(count) {}

  // The result; None: not made; null: Python's error is set.
  Object* run() {
    const TorchState& state = direct_.state;
    if (state.has_callbacks() || state.has_function_mode() || state.has_dispatch_mode(false) ||
        state.forward_mode.is_active()) {
      return none();
    }
    if (!read_arguments() || !gather() || !find_bound() || !outputs_fit()) return none();
    Prepared& prepared = direct_.prepared[bound_];
    if (prepared.outputs.empty()) prepare(prepared);
    if (!admitted(prepared)) return none();
    return launch(prepared);
  }

 private:
  Object* none() const { return share(py_._Py_NoneStruct).release(); }

  bool is_tuple(Object* object) const {
    return Reference(py_.PyObject_Type(object)).get() == py_.PyTuple_Type;
  }

  bool read_arguments() {
    if (count_ < 2 || count_ > 4 || !read_tensors(arguments_[1], inputs_)) return false;
    i64 key = 0;
    if (!read_key(arguments_[0], key)) return false;
    Expected<const Form*> form = Registry::process().find(key);
    if (!form) {
      llvm::consumeError(form.takeError());
      return false;
    }
    form_ = *form;
    if (count_ > 3 && arguments_[3] != py_._Py_NoneStruct) {
      outs_ = arguments_[3];
      if (!read_tensors(outs_, out_views_)) return false;
    }
    return count_ < 3 || read_scalars(arguments_[2]);
  }

  bool read_tensors(Object* tuple, llvm::SmallVectorImpl<View>& views) {
    if (!is_tuple(tuple)) return false;
    for (Size i = 0; i < py_.PyTuple_Size(tuple); ++i) {
      if (!read_view(py_.PyTuple_GetItem(tuple, i), views)) return false;
    }
    return true;
  }

  // A tuple: a layer's keys for bf16 and f16, or 0, and no call while gradients are enabled.
  bool read_key(Object* given, i64& key) {
    if (is_tuple(given)) {
      if (inputs_.empty() || direct_.shim.aoti_torch_grad_mode_is_enabled()) return false;
      const int32_t dtype = inputs_[0].dtype;
      const bool known = dtype == direct_.shim.bf16 || dtype == direct_.shim.f16;
      if (!known || py_.PyTuple_Size(given) != 2) return false;
      given = py_.PyTuple_GetItem(given, dtype == direct_.shim.bf16 ? 0 : 1);
    }
    key = py_.PyLong_AsLongLong(given);
    return key != -1 || py_.PyErr_Occurred() == nullptr || cleared();
  }

  bool read_scalars(Object* tuple) {
    if (!is_tuple(tuple)) return false;
    for (Size i = 0; i < py_.PyTuple_Size(tuple); ++i) {
      const double number = py_.PyFloat_AsDouble(py_.PyTuple_GetItem(tuple, i));
      if (number == -1 && py_.PyErr_Occurred() != nullptr) return cleared();
      scalars_.push_back(static_cast<float>(number));
    }
    return true;
  }

  bool cleared() const {
    py_.PyErr_Clear();
    return false;
  }

  // The tensors of the form, in order.
  bool gather() {
    if (scalars_.size() != form_->num_scalars) return false;
    if (outs_ != nullptr && out_views_.size() != form_->outputs.size()) return false;
    size_t input = 0;
    for (const FormTensor& tensor : form_->tensors) {
      const bool overwritten = tensor.overwritten_by >= 0;
      if (overwritten ? outs_ == nullptr : input == inputs_.size()) return false;
      views_.push_back(overwritten ? out_views_[tensor.overwritten_by] : inputs_[input++]);
    }
    return input == inputs_.size() && all_on_one_device();
  }

  bool all_on_one_device() const {
    if (views_.empty()) return false;
    const auto same = [&](const View& view) {
      return view.device_type == views_[0].device_type && view.device == views_[0].device;
    };
    return llvm::all_of(views_, same) && llvm::all_of(out_views_, same);
  }

  bool read_view(Object* object, llvm::SmallVectorImpl<View>& views) {
    const Reference type(py_.PyObject_Type(object));
    const DirectOptions& options = direct_.options;
    if (type.get() != options.tensor_type && type.get() != options.parameter_type) return false;
    ctn::DLPackTensor tensor;
    if (direct_.exchange.view(object, &tensor) != 0) return cleared();
    View view{static_cast<char*>(tensor.data) + tensor.byte_offset,
              tensor.ndim,
              tensor.shape,
              tensor.strides,
              torch_dtype(direct_.shim, tensor),
              tensor.device_type,
              tensor.device_id};
    if (view.dtype < 0 || (view.rank > 0 && view.strides == nullptr)) return false;
    views.push_back(view);
    return true;
  }

  bool find_bound() {
    constexpr int32_t kCpu = 1, kCuda = 2;  // DLPack's
    on_gpu_ = views_[0].device_type == kCuda;
    if (!on_gpu_ && views_[0].device_type != kCpu) return false;
    const int device = on_gpu_ ? views_[0].device : 0;
    if (on_gpu_) {  // `empty` allocates on the current device
      int32_t current = -1;
      if (direct_.options.empty_cuda == nullptr) return false;
      if (direct_.state.current_device(&current) != 0 || current != device) return false;
    }
    const Place place = on_gpu_ ? Place::kGpu : Registry::process().host_place();
    bound_ = Registry::process().lookup(signature_of(*form_, place, device, views_));
    return bound_ != nullptr && !bound_->copies;
  }

  bool outputs_fit() const {
    for (size_t i = 0; i < out_views_.size(); ++i) {
      if (!fits(direct_.shim, out_views_[i], bound_->special.outputs[i])) return false;
    }
    return true;
  }

  Reference tuple(llvm::ArrayRef<i64> numbers) const {
    Reference made(py_.PyTuple_New(static_cast<Size>(numbers.size())));
    if (made.get() == nullptr) throw std::bad_alloc();
    for (size_t i = 0; i < numbers.size(); ++i) {
      Object* number = py_.PyLong_FromLongLong(numbers[i]);
      if (number == nullptr) throw std::bad_alloc();
      py_.PyTuple_SetItem(made.get(), static_cast<Size>(i), number);
    }
    return made;
  }

  Reference tuple(llvm::MutableArrayRef<Reference> items) const {
    Reference made(py_.PyTuple_New(static_cast<Size>(items.size())));
    if (made.get() == nullptr) throw std::bad_alloc();
    for (size_t i = 0; i < items.size(); ++i) {
      py_.PyTuple_SetItem(made.get(), static_cast<Size>(i), items[i].release());
    }
    return made;
  }

  Reference layout(llvm::ArrayRef<i64> sizes, llvm::ArrayRef<i64> strides, DType dtype) const {
    Object* type = py_.PyTuple_GetItem(direct_.options.dtypes, static_cast<Size>(dtype));
    Reference items[] = {tuple(sizes), tuple(strides), share(type)};
    return tuple(items);
  }

  void prepare(Prepared& prepared) const {
    std::vector<Reference> outputs;
    for (const TensorLayout& output : bound_->special.outputs) {
      outputs.push_back(layout(output.sizes, output.strides, output.dtype));
    }
    const i64 bytes = on_gpu_ ? bound_->executable->workspace_bytes() : 0;
    Reference workspace;
    if (bytes > 0) workspace = layout({bytes}, {1}, DType::kI8);
    // Memory for a tuple may start Python's garbage collector, and with it another thread, which
    // reads what it has prepared.
    if (!prepared.outputs.empty()) return;
    prepared.outputs = std::move(outputs);
    prepared.workspace = std::move(workspace);
  }

  // All tensors of the call, as a tuple.
  Reference all_tensors() const {
    if (outs_ == nullptr) return share(arguments_[1]);
    llvm::SmallVector<Reference, 8> all;
    for (Object* from : {arguments_[1], outs_}) {
      for (Size i = 0; i < py_.PyTuple_Size(from); ++i) {
        all.push_back(share(py_.PyTuple_GetItem(from, i)));
      }
    }
    return tuple(all);
  }

  bool admitted(Prepared& prepared) const {
    const Reference tensors = all_tensors();
    Admission& admission = outs_ == nullptr ? prepared.allocating : prepared.given_outputs;
    for (size_t i = 0; i < admission.checks.size(); ++i) {
      // Python runs in a check: another thread may change the list meanwhile.
      const Reference check = share(admission.checks[i].get());
      const Reference answer(py_.PyObject_Call(check.get(), tensors.get(), nullptr));
      if (answer.get() == nullptr) return cleared();
      if (answer.get() != py_._Py_TrueStruct) continue;
      if (i > 0 && i < admission.checks.size() && admission.checks[i].get() == check.get())
        std::swap(admission.checks[i], admission.checks[i - 1]);
      return true;
    }
    // Seldom asked where it goes on: the state may last, and is no reason to be slow.
    const uint64_t refused = admission.refused++;
    if (refused >= 8 && refused % 64 != 0) return false;
    Reference check(py_.PyObject_Call(direct_.options.admit, tensors.get(), nullptr));
    if (check.get() == nullptr) return cleared();
    if (check.get() == py_._Py_NoneStruct) return false;
    Reference evicted;  // released last, since that may run Python
    if (admission.checks.size() >= kMostChecks) {
      evicted = std::move(admission.checks.back());
      admission.checks.pop_back();
    }
    admission.checks.push_back(std::move(check));
    return true;
  }

  // Uninitialised memory on the tensors' device. Null: Python's error is set.
  Reference allocate(const Reference& layout) const {
    Object* empty = on_gpu_ ? direct_.options.empty_cuda : direct_.options.empty_cpu;
    return Reference(py_.PyObject_Call(empty, layout.get(), nullptr));
  }

  bool address_of(const Reference& tensor, void*& address) const {
    ctn::DLPackTensor view;
    if (tensor.get() == nullptr || direct_.exchange.view(tensor.get(), &view) != 0) return false;
    address = static_cast<char*>(view.data) + view.byte_offset;
    return true;
  }

  Object* launch(const Prepared& prepared) {
    llvm::SmallVector<void*, 16> addresses;
    llvm::SmallVector<Reference, 5> made;  // the outputs, then the workspace
    for (const View& view : views_) addresses.push_back(view.address);
    for (const View& view : out_views_) addresses.push_back(view.address);
    for (const Reference& layout : prepared.outputs) {
      if (outs_ != nullptr) break;
      made.push_back(allocate(layout));
      addresses.push_back(nullptr);
      if (!address_of(made.back(), addresses.back())) return nullptr;
    }
    const size_t outputs = made.size();
    LaunchMemory memory;
    if (prepared.workspace.get() != nullptr) {
      made.push_back(allocate(prepared.workspace));
      if (!address_of(made.back(), memory.workspace)) return nullptr;
    }
    if (Error error = launch_without_gil(addresses, memory, made)) {
      py_.PyErr_SetString(*py_.PyExc_RuntimeError, error_sentence(std::move(error)).c_str());
      return nullptr;
    }
    if (outs_ != nullptr) return share(outs_).release();
    if (outputs == 1) return made[0].release();
    return tuple(llvm::MutableArrayRef<Reference>(made).take_front(outputs)).release();
  }

  // The driver may wait for the GPU, and the GPU for a thread of Python. The caller's references
  // keep the tensors. When the interpreter has ended, PyEval_RestoreThread ends the thread, which
  // no handler may catch: the thread unwinds without the GIL, so it may own no reference.
  Error launch_without_gil(llvm::ArrayRef<void*> addresses, LaunchMemory memory,
                           llvm::MutableArrayRef<Reference> made) const {
    llvm::SmallVector<Object*, 5> objects;
    objects.reserve(made.size());
    for (Reference& reference : made) objects.push_back(reference.release());
    python::ThreadState* thread = py_.PyEval_SaveThread();
    Error error = launch_caught(addresses, memory);
    py_.PyEval_RestoreThread(thread);
    for (size_t i = 0; i < made.size(); ++i) made[i] = Reference(objects[i]);
    return error;
  }

  Error launch_caught(llvm::ArrayRef<void*> addresses, LaunchMemory& memory) const try {
    if (on_gpu_) {
      void* stream = nullptr;
      const Status status =
          direct_.shim.aoti_torch_get_current_cuda_stream(views_[0].device, &stream);
      if (status != 0) return shim_error(status, "aoti_torch_get_current_cuda_stream");
      memory.stream = static_cast<cuda::Stream>(stream);
    }
    return launch_bound(*bound_, addresses, scalars_, memory);
  } catch (const std::bad_alloc&) {
    return make_error_text(ErrorCode::kOutOfMemory, "out of memory: the call may be repeated");
  } catch (const std::exception& exception) {
    return make_error_text(ErrorCode::kInternal, exception.what());
  }

  Direct& direct_;
  const python::Api& py_;
  Object* const* arguments_;
  Size count_;
  Object* outs_ = nullptr;  // the caller's outputs
  const Form* form_ = nullptr;
  const Bound* bound_ = nullptr;
  bool on_gpu_ = false;
  llvm::SmallVector<View, 8> inputs_;
  llvm::SmallVector<View, 8> views_;  // of the form
  llvm::SmallVector<View, 4> out_views_;
  llvm::SmallVector<float, 4> scalars_;
};

Object* call(Object*, Object* const* arguments, Size count) {
  try {
    return DirectCall(*the_direct, arguments, count).run();
  } catch (const std::bad_alloc&) {
    const python::Api& py = the_direct->py;
    py.PyErr_SetString(*py.PyExc_MemoryError, "out of memory: the call may be repeated");
  } catch (const std::exception& exception) {
    const python::Api& py = the_direct->py;
    py.PyErr_SetString(*py.PyExc_RuntimeError, exception.what());
  }
  return nullptr;
}

constexpr char kDoc[] = "The outputs of an operator, or None: call the operator.";
python::MethodDef kMethod = {"direct", call, python::kFastCall, kDoc};

template <typename Function>
Error find(const std::string& path, const char* name, Function& function) {
  void* const library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function != nullptr) return Error::success();
  return make_error(ErrorCode::kUnsupported,
                    "{} is not loaded or does not export {}: call the "
                    "operators by the dispatcher",
                    quoted(path), name);
}

Expected<TorchState> find_state(const DirectOptions& options) {
  TorchState state;
  const std::string& cpu = options.libtorch_cpu;
  if (Error error = find(cpu, "_ZN2at12hasCallbacksEv", state.has_callbacks)) return error;
  if (Error error =
          find(cpu, "_ZN2at4impl27torch_function_mode_enabledEv", state.has_function_mode)) {
    return error;
  }
  if (Error error = find(options.libc10, "_ZN3c104impl20TorchDispatchModeTLS13any_modes_setEb",
                         state.has_dispatch_mode)) {
    return error;
  }
  state.forward_mode = ForwardMode::open(cpu);
  if (!state.forward_mode.is_known()) {
    return make_error(ErrorCode::kUnsupported,
                      "{} does not tell of forward mode: call the operators by the dispatcher",
                      quoted(cpu));
  }
  if (Error error = find(cpu, "aoti_torch_get_current_device_index", state.current_device)) {
    return error;
  }
  return state;
}

}  // namespace

Expected<Object*> make_direct(const Shim& shim, const DirectOptions& options) {
  const python::Api* py = python::api();
  if (py == nullptr) {
    return make_error(ErrorCode::kUnsupported,
                      "the process exports no functions of Python: call the operators by the "
                      "dispatcher");
  }
  if (the_direct != nullptr) return share(the_direct->function).release();
  const auto* exchange = static_cast<const Exchange*>(options.exchange);
  if (exchange->major != 1 || exchange->view == nullptr) {
    return make_error(ErrorCode::kUnsupported,
                      "torch exchanges tensors by version {} of DLPack: the direct call takes 1",
                      exchange->major);
  }
  Expected<TorchState> state = find_state(options);
  if (!state) return state.takeError();
  for (Object* object : {options.tensor_type, options.parameter_type, options.empty_cpu,
                         options.empty_cuda, options.dtypes, options.admit}) {
    if (object != nullptr) share(object).release();
  }
  auto made = std::make_unique<Direct>(Direct{*py, shim, *exchange, *state, options, nullptr, {}});
  made->function = py->PyCFunction_NewEx(&kMethod, nullptr, nullptr);
  if (made->function == nullptr) throw std::bad_alloc();
  the_direct = made.release();  // calls may run until the process ends
  return share(the_direct->function).release();
}

}  // namespace catenary::torch_adapter
