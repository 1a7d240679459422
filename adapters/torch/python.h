// SPDX-License-Identifier: Apache-2.0
// The part of Python's stable ABI that the direct call uses, found in the process: the library
// links no Python, and one build serves every version. The GIL is held in every call but
// PyEval_RestoreThread.
#pragma once

#include <cstddef>
#include <utility>

#include "ir/error.h"

namespace catenary::torch_adapter::python {

struct Object {};  // PyObject: only its address is used
struct ThreadState;
using Size = std::ptrdiff_t;
using FastCall = Object* (*)(Object* self, Object* const* arguments, Size count);

// PyMethodDef; `flags` of a FastCall: METH_FASTCALL.
struct MethodDef {
  const char* name;
  FastCall call;
  int flags;
  const char* doc;
};
inline constexpr int kFastCall = 0x80;

// One member per row of python.def.
struct Api {
#define CATENARY_PYTHON(name, result, parameters) result(*name) parameters = nullptr;
#define CATENARY_PYTHON_OBJECT(name, type) type* name = nullptr;
#include "adapters/torch/python.def"
#undef CATENARY_PYTHON
#undef CATENARY_PYTHON_OBJECT
};

// Null: the process runs no Python that exports all of them. Found once.
const Api* api();

// A reference, which is given up with this. May be null.
class Reference {
 public:
  Reference() = default;
  explicit Reference(Object* owned) : object_(owned) {}
  Reference(Reference&& other) noexcept : object_(other.release()) {}
  Reference& operator=(Reference&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Reference() {
    if (object_ != nullptr) api()->Py_DecRef(object_);
  }
  Object* get() const { return object_; }
  Object* release() { return std::exchange(object_, nullptr); }

 private:
  Object* object_ = nullptr;
};

// One more reference to an object of the caller.
inline Reference share(Object* object) {
  api()->Py_IncRef(object);
  return Reference(object);
}

}  // namespace catenary::torch_adapter::python
