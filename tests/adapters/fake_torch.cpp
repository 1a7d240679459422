// SPDX-License-Identifier: Apache-2.0
// A library that exports torch's C shim for tests: tensors are host memory, operators are kept by
// name. Counts what is alive, so that a test sees a leak.
#include "tests/adapters/fake_torch.h"

#include <cstring>
#include <map>
#include <string>

namespace {

std::map<std::string, fake_torch::Kernel> kernels;  // "CPU run1"
std::vector<std::string> schemas;
int live_tensors = 0;
int live_lists = 0;
int versions = 0;

struct Library {
  std::string dispatch_key;
};

}  // namespace

using fake_torch::List;
using fake_torch::Tensor;

#define SHIM extern "C" __attribute__((visibility("default")))

SHIM int fake_live_tensors() { return live_tensors; }
SHIM int fake_live_lists() { return live_lists; }
SHIM int fake_versions() { return versions; }  // how often one was counted
SHIM size_t fake_num_schemas() { return schemas.size(); }
SHIM fake_torch::Kernel fake_kernel(const char* name) {
  const auto found = kernels.find(name);
  return found == kernels.end() ? nullptr : found->second;
}
SHIM Tensor* fake_new_tensor(const Tensor* like) {
  ++live_tensors;
  return new Tensor(*like);
}
SHIM List* fake_new_list() {
  ++live_lists;
  return new List;
}

// The C++ functions of torch that count versions, by their names as symbols.
SHIM bool is_inference(const Tensor*) __asm__("_ZN2at6native12is_inferenceERKNS_6TensorE");
SHIM bool is_inference(const Tensor* tensor) { return tensor->inference; }
SHIM void bump_version(Tensor*) __asm__("_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE");
SHIM void bump_version(Tensor*) { ++versions; }

SHIM int32_t aoti_torch_library_init_def(const char*, const char*, uint32_t, void** library) {
  *library = new Library;
  return 0;
}
SHIM int32_t aoti_torch_library_init_impl(const char*, const char* key, const char*, uint32_t,
                                          void** library) {
  *library = new Library{key};
  return 0;
}
SHIM int32_t aoti_torch_library_def(void*, const char* schema) {
  schemas.emplace_back(schema);
  return 0;
}
SHIM int32_t torch_library_impl(void* library, const char* name, fake_torch::Kernel kernel,
                                uint64_t) {
  kernels[static_cast<Library*>(library)->dispatch_key + " " + name] = kernel;
  return 0;
}

SHIM int32_t torch_list_size(List* list, size_t* size) {
  *size = list->items.size();
  return 0;
}
SHIM int32_t torch_list_get_item(List* list, size_t index, uint64_t* item) {
  *item = list->items[index];
  return 0;
}
SHIM int32_t torch_delete_list(List* list) {
  --live_lists;
  delete list;
  return 0;
}

SHIM int32_t aoti_torch_get_data_ptr(Tensor* tensor, void** address) {
  *address = tensor->data ? tensor->data->data() + tensor->offset : nullptr;
  return 0;
}
SHIM int32_t aoti_torch_get_dim(Tensor* tensor, int64_t* rank) {
  *rank = static_cast<int64_t>(tensor->sizes.size());
  return 0;
}
SHIM int32_t aoti_torch_get_sizes(Tensor* tensor, int64_t** sizes) {
  *sizes = tensor->sizes.data();
  return 0;
}
SHIM int32_t aoti_torch_get_strides(Tensor* tensor, int64_t** strides) {
  *strides = tensor->strides.data();
  return 0;
}
SHIM int32_t aoti_torch_get_dtype(Tensor* tensor, int32_t* dtype) {
  *dtype = tensor->dtype;
  return 0;
}
SHIM int32_t aoti_torch_get_device_type(Tensor* tensor, int32_t* type) {
  *type = tensor->device_type;
  return 0;
}
SHIM int32_t aoti_torch_get_device_index(Tensor* tensor, int32_t* index) {
  *index = tensor->device;
  return 0;
}
SHIM int32_t aoti_torch_empty_strided(int64_t rank, const int64_t* sizes, const int64_t* strides,
                                      int32_t dtype, int32_t device_type, int32_t device,
                                      Tensor** tensor) {
  *tensor = new Tensor(fake_torch::make_tensor({sizes, sizes + rank}, {strides, strides + rank},
                                               dtype, device_type, device));
  ++live_tensors;
  return 0;
}
SHIM int32_t aoti_torch_copy_(Tensor* to, Tensor* from, int32_t) {
  fake_torch::copy(*to, *from);
  return 0;
}
SHIM int32_t aoti_torch_delete_tensor_object(Tensor* tensor) {
  --live_tensors;
  delete tensor;
  return 0;
}

SHIM int32_t aoti_torch_get_current_cuda_stream(int32_t, void** stream) {
  *stream = reinterpret_cast<void*>(fake_torch::kStream);
  return 0;
}

SHIM bool aoti_torch_grad_mode_is_enabled() { return false; }

SHIM int32_t aoti_torch_dtype_bfloat16() { return fake_torch::kBF16; }
SHIM int32_t aoti_torch_dtype_float16() { return fake_torch::kF16; }
SHIM int32_t aoti_torch_dtype_float32() { return fake_torch::kF32; }
SHIM int32_t aoti_torch_dtype_int32() { return fake_torch::kI32; }
SHIM int32_t aoti_torch_dtype_int8() { return fake_torch::kI8; }
SHIM int32_t aoti_torch_dtype_uint8() { return fake_torch::kU8; }
SHIM int32_t aoti_torch_dtype_float8_e4m3fn() { return fake_torch::kE4M3; }
SHIM int32_t aoti_torch_dtype_float8_e5m2() { return fake_torch::kE5M2; }
SHIM int32_t aoti_torch_device_type_cpu() { return fake_torch::kCpu; }
SHIM int32_t aoti_torch_device_type_cuda() { return fake_torch::kCuda; }
