// SPDX-License-Identifier: Apache-2.0
// What XLA's FFI hands to a custom call, declared by hand: the layouts of xla/ffi/api/c_api.h, API
// version 0.4. Version 0.3 has a prefix of each. tests/python/test_jax.py compares them with the
// header of the installed jaxlib.
#pragma once

#include <cstddef>
#include <cstdint>

namespace catenary::xla {

struct Error;
struct Context;

struct Extension {
  size_t struct_size;
  int32_t type;
  Extension* next;
};
inline constexpr int32_t kMetadataExtension = 1;

struct Version {
  size_t struct_size;
  Extension* extension;
  int major, minor;
};
inline constexpr int kMajor = 0;
inline constexpr int kMinor = 3;

struct Metadata {
  size_t struct_size;
  Version version;
  uint32_t traits;
  int64_t state_type;
};
inline constexpr uint32_t kCommandBufferCompatible = 1;

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Buffer {
  size_t struct_size;
  Extension* extension;
  int32_t dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
};

// Arguments, and results too.
struct Buffers {
  size_t struct_size;
  Extension* extension;
  int64_t size;
  int32_t* types;
  Buffer** buffers;
};

struct Bytes {
  const char* data;
  size_t size;
};

// The value of an attribute is a Bytes for a string.
struct Scalar {
  int32_t dtype;
  void* value;
};
struct Array {
  int32_t dtype;
  size_t size;
  void* data;
};
inline constexpr int32_t kArray = 1, kScalar = 3, kString = 4;

struct Attributes {
  size_t struct_size;
  Extension* extension;
  int64_t size;
  int32_t* types;
  Bytes** names;
  void** values;
};

struct ErrorCreate {
  size_t struct_size;
  Extension* extension;
  const char* message;
  int32_t code;
};
struct ErrorDestroy {
  size_t struct_size;
  Extension* extension;
  Error* error;
};
struct ErrorMessage {
  size_t struct_size;
  Extension* extension;
  Error* error;
  const char* message;
  int32_t code;  // from 0.4 on
};
struct StreamGet {
  size_t struct_size;
  Extension* extension;
  Context* context;
  void* stream;
};
struct DeviceOrdinalGet {
  size_t struct_size;
  Extension* extension;
  Context* context;
  int32_t ordinal;
};

struct Api {
  size_t struct_size;
  Extension* extension;
  Version version;
  const void* internal;
  Error* (*error_create)(ErrorCreate*);
  void (*error_message)(ErrorMessage*);
  void (*error_destroy)(ErrorDestroy*);
  void* handler_register;
  Error* (*stream_get)(StreamGet*);
  void *type_register, *context_get, *state_set, *state_get, *memory_allocate, *memory_free,
      *pool_schedule, *pool_threads, *future_create, *future_available, *future_error, *run_id;
  Error* (*device_ordinal)(DeviceOrdinalGet*);
};

enum Stage : int32_t { kInstantiate = 0, kPrepare = 1, kInitialize = 2, kExecute = 3 };

struct CallFrame {
  size_t struct_size;
  Extension* extension;
  const Api* api;
  Context* context;
  int32_t stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
  void* future;
};

// Element types of buffers and scalars.
inline constexpr int32_t kS8 = 2, kS32 = 4, kS64 = 5, kU8 = 6, kF16 = 10, kF32 = 11, kBF16 = 16;
inline constexpr int32_t kF8E5M2 = 19, kF8E4M3FN = 20;
// Codes of errors.
inline constexpr int32_t kInvalidArgument = 3, kResourceExhausted = 8, kFailedPrecondition = 9,
                         kUnimplemented = 12, kInternal = 13;

}  // namespace catenary::xla
