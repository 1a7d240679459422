// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/simulated_driver.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "compiler/compile/environment.h"
#include "llvm/ADT/StringRef.h"
#include "runtime/driver/simulated_launch.h"
#include "runtime/driver/simulated_objects.h"
#include "runtime/driver/tensor_map.h"

namespace catenary::cuda {

namespace {

constexpr int kDriverVersion = 13000;

thread_local int contexts_pushed = 0;

Expected<u64> seed_of_environment() {
  const std::string text = environment("CATENARY_SIM_SEED");
  u64 seed = 1;
  if (!text.empty() && llvm::StringRef(text).getAsInteger(10, seed)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "CATENARY_SIM_SEED is '{}': set it to a number of 0 or more", text);
  }
  return seed;
}

Expected<std::unique_ptr<SimulatedDevice>> make_device() {
  Expected<Target> target = simulated_target();
  if (!target) return target.takeError();
  Expected<u64> seed = seed_of_environment();
  if (!seed) return seed.takeError();
  return std::make_unique<SimulatedDevice>(std::move(*target), *seed);
}

// Set before simulator_api() returns a table; never destroyed, like a driver.
SimulatedDevice* the_device = nullptr;

ContextObject the_context;

int attribute(int which) {
  const Target& target = device().target();
  switch (which) {
    case kDeviceCapabilityMajor:
      return target.compute_capability() / 10;
    case kDeviceCapabilityMinor:
      return target.compute_capability() % 10;
    case kDeviceSmCount:
      return target.sm_count;
    case kDeviceSmemPerSm:
      return static_cast<int>(target.smem_per_sm);
    case kDeviceSmemPerCta:
      return static_cast<int>(target.smem_per_cta);
    case kDeviceL2Bytes:
      return static_cast<int>(target.l2_bytes);
    default:
      return 0;  // a clock of 0: probe() takes that of targets.def
  }
}

struct ResultText {
  Result result;
  const char* name;
  const char* text;
};
constexpr ResultText kResults[] = {
    {kErrorInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kErrorOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kErrorNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "the simulator runs only kernels of the host's compiler"},
    {kErrorInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "no context is current on this thread"},
    {kErrorLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "a kernel failed"},
    {kErrorNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "the simulator does not support this"},
    {kErrorStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "not permitted while the stream is being captured"},
    {kErrorStreamCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "would depend on a stream that is being captured"},
};

const ResultText* find_text(Result result) {
  const auto* it = std::find_if(std::begin(kResults), std::end(kResults),
                                [&](const ResultText& row) { return row.result == result; });
  return it == std::end(kResults) ? nullptr : it;
}

// cuLibraryLoadData takes no size: it follows from the ELF headers.
Expected<llvm::ArrayRef<u8>> elf_bytes(const void* image) {
#if defined(__x86_64__)
  constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
  constexpr int kMachine = EM_AARCH64;
#endif
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header.e_ident);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0) {
    std::memcpy(&header, image, sizeof header);
    if (header.e_machine == kMachine) {
      const auto* bytes = static_cast<const u8*>(image);
      u64 end = header.e_shoff + u64{header.e_shnum} * header.e_shentsize;
      for (int i = 0; i < header.e_shnum; ++i) {
        Elf64_Shdr section;
        std::memcpy(&section, bytes + header.e_shoff + u64(i) * header.e_shentsize, sizeof section);
        if (section.sh_type != SHT_NOBITS)
          end = std::max<u64>(end, section.sh_offset + section.sh_size);
      }
      return llvm::ArrayRef<u8>(bytes, end);
    }
  }
  return make_error(ErrorCode::kArchMismatch,
                    "the simulator cannot run a GPU's machine code: compile the chain by an engine "
                    "with backend kHost");
}

Result load_library(Library* library, const void* image, int*, void**, unsigned, int*, void**,
                    unsigned) {
  Expected<llvm::ArrayRef<u8>> bytes = elf_bytes(image);
  if (!bytes) return device().explain(kErrorNoBinaryForGpu, bytes.takeError());
  auto object = sim::Object::load(*bytes);
  if (!object) return device().explain(kErrorNoBinaryForGpu, object.takeError());
  auto made = std::make_shared<LibraryObject>(LibraryObject{{{std::move(*object), ""}}});
  // Kernel and function are parts of their library, and live as long.
  kernels().add(std::shared_ptr<KernelObject>(made, &made->kernel));
  functions().add(std::shared_ptr<FunctionObject>(made, &made->kernel.function));
  *library = libraries().add(std::move(made));
  return kSuccess;
}

Result unload_library(Library library) {
  return with(libraries(), library, [&](LibraryObject& object) {
    destroy(functions(), &object.kernel.function);
    destroy(kernels(), &object.kernel);
    return destroy(libraries(), library);
  });
}

Result get_kernel(Kernel* kernel, Library library, const char* name) {
  return with(libraries(), library, [&](LibraryObject& object) {
    object.kernel.function.name = name;
    *kernel = &object.kernel;
    return kSuccess;
  });
}

// The CTAs of `threads` threads that fit an SM.
Result max_active_blocks(int* blocks, Function, int threads, size_t smem) {
  constexpr int kMaxThreadsPerSm = 2048;
  constexpr int kMaxCtasPerSm = 32;
  constexpr size_t kReservedPerCta = 1024;
  const auto by_smem = static_cast<int>(static_cast<size_t>(device().target().smem_per_sm) /
                                        (smem + kReservedPerCta));
  *blocks = std::min({kMaxThreadsPerSm / std::max(threads, 1), kMaxCtasPerSm, by_smem});
  return kSuccess;
}

// The clusters that fit the GPCs, as planning assumes them.
Result max_active_clusters(int* clusters, Function function, const LaunchConfig* config) {
  int per_sm = 0;
  max_active_blocks(&per_sm, function, static_cast<int>(config->block_x), config->shared_mem_bytes);
  *clusters = 0;
  for (unsigned i = 0; i < config->num_attributes; ++i) {
    const LaunchAttribute& given = config->attributes[i];
    if (given.id != kAttributeClusterDimension) continue;
    const auto ctas = static_cast<int>(given.value.cluster.x);
    *clusters = static_cast<int>(device().target().ctas_at_once(ctas, per_sm) / ctas);
  }
  return kSuccess;
}

Result launch_kernel(const LaunchConfig* config, Function function, void** parameters, void**) {
  const SimulatedLaunch* facts = nullptr;
  QueuedLaunch queued;
  sim::Launch& launch = queued.launch;
  for (unsigned i = 0; i < config->num_attributes; ++i) {
    const LaunchAttribute& given = config->attributes[i];
    if (given.id == kAttributeSimulatedLaunch) {
      facts = static_cast<const SimulatedLaunch*>(given.value.pointer);
    } else if (given.id == kAttributeProgrammaticStreamSerialization) {
      launch.overlap = given.value.programmatic_stream_serialization_allowed != 0;
    } else if (given.id == kAttributeClusterDimension) {
      launch.cluster_ctas = given.value.cluster.x * given.value.cluster.y * given.value.cluster.z;
    }
  }
  // Only the attribute has the size of the parameters.
  if (facts == nullptr) return kErrorInvalidValue;
  if (contexts_pushed == 0) return kErrorInvalidContext;
  const Result found = with(functions(), function, [&](FunctionObject& object) {
    launch.object = object.object;
    launch.kernel = object.name;
    return kSuccess;
  });
  if (found != kSuccess) return found;
  launch.ctas = config->grid_x * config->grid_y * config->grid_z;
  launch.threads = config->block_x * config->block_y * config->block_z;
  launch.smem_bytes = config->shared_mem_bytes;
  const auto* bytes = static_cast<const std::byte*>(parameters[0]);
  launch.parameters.assign(bytes, bytes + facts->parameter_bytes);
  queued.tensors = facts->tensors;
  queued.first_of_chain = facts->first_of_chain;
  return submit(config->stream, {std::move(queued)});
}

// A copy or fill in stream order; it is complete on return.
template <typename Work>
Result in_stream(Stream handle, const Work& work) {
  return with_stream(handle, [&](StreamObject* stream) -> Result {
    if (stream != nullptr && stream->capturing) return kErrorNotSupported;
    return work();
  });
}

void set_device_calls(Api& api) {
  api.init = [](unsigned) { return kSuccess; };
  api.driver_get_version = [](int* version) { return *version = kDriverVersion, kSuccess; };
  api.get_error_name = [](Result result, const char** text) {
    const ResultText* row = find_text(result);
    return *text = row ? row->name : nullptr, kSuccess;
  };
  api.get_error_string = [](Result result, const char** text) {
    const ResultText* row = find_text(result);
    return *text = row ? row->text : nullptr, kSuccess;
  };
  api.device_get_count = [](int* count) { return *count = 1, kSuccess; };
  api.device_get = [](Device* handle, int ordinal) { return *handle = ordinal, kSuccess; };
  api.device_get_name = [](char* name, int bytes, Device) {
    const std::string text = fmt::format("Catenary simulator ({})", device().target().name);
    return std::strncpy(name, text.c_str(), static_cast<size_t>(bytes)), kSuccess;
  };
  api.device_get_attribute = [](int* value, int which, Device) {
    return *value = attribute(which), kSuccess;
  };
  api.device_total_mem = [](size_t* bytes, Device) {
    *bytes = static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) *
             static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    return kSuccess;
  };
}

void set_context_calls(Api& api) {
  api.device_primary_ctx_retain = [](Context* context, Device) {
    return *context = &the_context, kSuccess;
  };
  api.device_primary_ctx_release = [](Device) { return kSuccess; };
  api.ctx_push_current = [](Context) { return ++contexts_pushed, kSuccess; };
  api.ctx_pop_current = [](Context* context) {
    --contexts_pushed;
    return *context = &the_context, kSuccess;
  };
  api.ctx_get_current = [](Context* context) {
    return *context = contexts_pushed > 0 ? &the_context : nullptr, kSuccess;
  };
  api.ctx_get_device = [](Device* ordinal) { return *ordinal = 0, kSuccess; };
  api.ctx_synchronize = [] { return device().synchronize(); };
}

void set_memory_calls(Api& api) {
  api.mem_alloc = [](DevicePtr* to, size_t bytes) { return device().allocate(to, bytes); };
  api.mem_free = [](DevicePtr pointer) { return device().release(pointer); };
  api.memcpy_htod = [](DevicePtr to, const void* from, size_t bytes) {
    return device().upload(to, from, bytes);
  };
  api.memcpy_dtoh = [](void* to, DevicePtr from, size_t bytes) {
    return device().download(to, from, bytes);
  };
  api.memset_d8 = [](DevicePtr to, unsigned char byte, size_t bytes) {
    return device().fill(to, byte, bytes);
  };
  api.memcpy_htod_async = [](DevicePtr to, const void* from, size_t bytes, Stream stream) {
    return in_stream(stream, [&] { return device().upload(to, from, bytes); });
  };
  api.memcpy_dtoh_async = [](void* to, DevicePtr from, size_t bytes, Stream stream) {
    return in_stream(stream, [&] { return device().download(to, from, bytes); });
  };
  api.memcpy_dtod_async = [](DevicePtr to, DevicePtr from, size_t bytes, Stream stream) {
    return in_stream(stream, [&] { return device().copy(to, from, bytes); });
  };
  api.memset_d8_async = [](DevicePtr to, unsigned char byte, size_t bytes, Stream stream) {
    return in_stream(stream, [&] { return device().fill(to, byte, bytes); });
  };
}

// Not supported.
void set_virtual_memory_calls(Api& api) {
  api.mem_address_reserve = [](DevicePtr*, size_t, size_t, DevicePtr, unsigned long long) {
    return kErrorNotSupported;
  };
  api.mem_address_free = [](DevicePtr, size_t) { return kErrorNotSupported; };
  api.mem_create = [](MemoryHandle*, size_t, const MemoryProperties*, unsigned long long) {
    return kErrorNotSupported;
  };
  api.mem_release = [](MemoryHandle) { return kErrorNotSupported; };
  api.mem_map = [](DevicePtr, size_t, size_t, MemoryHandle, unsigned long long) {
    return kErrorNotSupported;
  };
  api.mem_unmap = [](DevicePtr, size_t) { return kErrorNotSupported; };
  api.mem_set_access = [](DevicePtr, size_t, const MemoryAccess*, size_t) {
    return kErrorNotSupported;
  };
  api.mem_get_allocation_granularity = [](size_t*, const MemoryProperties*, int) {
    return kErrorNotSupported;
  };
}

void set_kernel_calls(Api& api) {
  api.library_load_data = load_library;
  api.library_unload = unload_library;
  api.library_get_kernel = get_kernel;
  api.kernel_get_function = [](Function* function, Kernel kernel) {
    return with(kernels(), kernel, [&](KernelObject& object) {
      *function = &object.function;
      return kSuccess;
    });
  };
  api.func_load = [](Function function) { return check(functions(), function); };
  api.func_set_attribute = [](Function function, int, int) { return check(functions(), function); };
  api.occupancy_max_active_blocks = max_active_blocks;
  api.occupancy_max_active_clusters = max_active_clusters;
  api.launch_kernel_ex = launch_kernel;
  api.tensor_map_encode_tiled = simulated_tensor_map_encode;
}

}  // namespace

SimulatedDevice& device() { return *the_device; }

Expected<Api> simulator_api() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (the_device == nullptr) {
    auto made = make_device();
    if (!made) return made.takeError();
    the_device = made->release();
  }
  Api api;
  set_device_calls(api);
  set_context_calls(api);
  set_memory_calls(api);
  set_virtual_memory_calls(api);
  set_kernel_calls(api);
  set_stream_calls(api);
  return api;
}

Expected<Target> simulated_target() {
  const std::string name = environment("CATENARY_SIM_TARGET");
  Expected<Target> target = name.empty() ? Expected<Target>(default_target()) : find_target(name);
  if (target) return target;
  return make_error(ErrorCode::kInvalidArgument, "CATENARY_SIM_TARGET: {}",
                    take_report(target.takeError()).message);
}

Error set_simulator_seed(u64 seed) {
  Expected<Api> opened = simulator_api();
  if (!opened) return opened.takeError();
  device().set_seed(seed);
  return Error::success();
}

Error set_simulator_progress(std::function<void(u64 done, u64 all)> progress) {
  Expected<Api> opened = simulator_api();
  if (!opened) return opened.takeError();
  device().set_progress(std::move(progress));
  return Error::success();
}

std::optional<ErrorReport> take_simulator_report(Result result) {
  return device().take_report(result);
}

}  // namespace catenary::cuda
