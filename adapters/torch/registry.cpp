// SPDX-License-Identifier: Apache-2.0
#include "adapters/torch/registry.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>

#include "catenary/catenary.h"
#include "ir/callbacks.h"
#include "ir/json.h"
#include "ir/names.h"
#include "ir/text/text.h"
#include "llvm/ADT/Hashing.h"
#include "runtime/c_api/c_api.h"
#include "runtime/record/canonical.h"

namespace catenary::torch_adapter {
namespace {

// This many leading sizes get kernels of their own; later ones share those of a range.
constexpr size_t kExactSizes = 8;

// Slots of each thread's two tables, of forms and of bound forms, that are read without a lock.
constexpr size_t kRemembered = 256;

size_t hash_of(llvm::ArrayRef<i64> signature) {
  return llvm::hash_combine_range(signature.begin(), signature.end());
}

Error no_form(i64 key) {
  return make_error(ErrorCode::kInvalidArgument,
                    "no chain has the key {}: register the chain, or the pack that has it, before "
                    "its operator runs",
                    key);
}

// A key of 63 bits names one chain only as long as no other has it.
Error same_key(const Form& a, const Form& b) {
  return make_error(ErrorCode::kResourceLimit,
                    "chains {} and {} have one key, {}: use them in two processes",
                    quoted(a.chain.chain().name), quoted(b.chain.chain().name), a.key);
}

}  // namespace

i64 alignment_of(const void* address) {
  return i64{1} << std::countr_zero(reinterpret_cast<uintptr_t>(address) | 16);
}

struct Registry::OwnEngine {
  ctn_engine* handle = nullptr;
  ~OwnEngine() { ctn_engine_destroy(handle); }
};

Registry& Registry::process() {
  static auto* registry = new Registry;  // operators may run until the process ends
  return *registry;
}

Expected<i64> Registry::add(VerifiedChain chain, LayoutRule rule, bool allow_pdl) {
  Expected<Form> form = make_form(std::move(chain), rule, allow_pdl);
  if (!form) return form.takeError();
  auto made = std::make_unique<const Form>(std::move(*form));
  const std::lock_guard lock(mutex_);
  const auto [it, fresh] = forms_.try_emplace(made->key, std::move(made));
  const Form& known = *it->second;
  if (!fresh && (known.canonical != made->canonical || known.rule != made->rule ||
                 known.allow_pdl != made->allow_pdl)) {
    return same_key(known, *made);
  }
  return it->first;
}

Expected<const Form*> Registry::find(i64 key) const {
  static thread_local std::array<const Form*, kRemembered> remembered{};
  const Form*& slot = remembered[static_cast<u64>(key) % kRemembered];
  if (slot != nullptr && slot->key == key) return slot;
  const std::shared_lock lock(mutex_);
  const auto it = forms_.find(key);
  if (it == forms_.end()) return no_form(key);
  return slot = it->second.get();
}

const Bound* Registry::lookup(llvm::ArrayRef<i64> signature) const {
  static thread_local std::array<const Bound*, kRemembered> remembered{};
  const size_t hash = hash_of(signature);
  const Bound*& slot = remembered[hash % kRemembered];
  if (slot != nullptr && llvm::ArrayRef<i64>(slot->signature) == signature) return slot;
  const std::shared_lock lock(mutex_);
  const auto [first, last] = bound_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (llvm::ArrayRef<i64>(it->second->signature) == signature) return slot = it->second.get();
  }
  return nullptr;
}

namespace {

// Whether rows are outermost in memory in all outputs: else their strides depend on the number of
// rows, and kernels for a range of it have one stride.
bool has_outer_rows(const Form& form) {
  return llvm::all_of(form.outputs, [&](const FormOutput& output) {
    for (size_t d = 0; d < output.sizes.size(); ++d) {
      const SizeSource& source = output.sizes[d];
      const bool rows =
          source.parameter >= 0 && source.dim == 0 && form.tensors[source.parameter].leading;
      if (rows && output.in_place < 0 && output.order.front() != static_cast<int>(d)) return false;
    }
    return true;
  });
}

}  // namespace

// Whether the arguments' leading size comes after kExactSizes others, so that it shares kernels.
bool Registry::wants_symbol(const Form& form, llvm::ArrayRef<TensorLayout> arguments) {
  std::string text = std::to_string(form.key);
  i64 rows = -1;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const size_t rank = form.chain.info(form.tensors[i].value).type.shape.size();
    const size_t leading = form.tensors[i].leading && arguments[i].sizes.size() >= rank
                               ? arguments[i].sizes.size() - rank + 1
                               : 0;
    if (leading > 0) {
      rows = 1;
      for (size_t d = 0; d < leading; ++d) rows *= arguments[i].sizes[d];
    }
    for (size_t d = leading; d < arguments[i].sizes.size(); ++d) {
      text += fmt::format(" {}:{}", arguments[i].sizes[d], arguments[i].strides[d]);
    }
  }
  if (rows < 0) return false;
  const std::lock_guard lock(mutex_);
  std::vector<i64>& sizes = leading_sizes_[text];
  if (llvm::is_contained(sizes, rows)) return false;
  if (sizes.size() >= kExactSizes) return true;
  sizes.push_back(rows);
  return false;
}

Expected<const Bound*> Registry::bind(const Form& form, llvm::ArrayRef<TensorLayout> arguments,
                                      llvm::ArrayRef<i64> signature, Place place, int device,
                                      cuda::Stream stream) {
  const bool symbolic = form.rule == LayoutRule::kFromTensors && has_outer_rows(form) &&
                        wants_symbol(form, arguments);
  Expected<Specialisation> special = specialise(form, arguments, symbolic);
  if (!special) return special.takeError();
  auto bound = std::make_unique<Bound>(
      Bound{signature.vec(), &form, std::move(*special), nullptr, place, false});
  bound->copies = llvm::is_contained(bound->special.copied, true);
  if (place != Place::kReference) {
    auto executable = prepare(bound->special.chain, device, stream);
    if (!executable) return executable.takeError();
    bound->executable = std::move(*executable);
  }
  const size_t hash = hash_of(signature);
  const std::lock_guard lock(mutex_);
  return bound_.emplace(hash, std::move(bound))->second.get();
}

// Two threads may prepare one chain at the same time: the engine compiles each kernel once.
Expected<std::shared_ptr<const Executable>> Registry::prepare(const VerifiedChain& chain,
                                                              int device, cuda::Stream stream) {
  const std::string name = fmt::format("{} {}", device, canonical_text(chain));
  {
    const std::shared_lock lock(mutex_);
    const auto it = executables_.find(name);
    if (it != executables_.end()) return it->second;
  }
  Expected<Engine*> chosen = engine();
  if (!chosen) return chosen.takeError();
  auto executable = (*chosen)->prepare(chain.chain(), device, stream);
  if (!executable) return executable.takeError();
  const std::lock_guard lock(mutex_);
  return executables_.try_emplace(name, std::move(*executable)).first->second;
}

void Registry::use(Engine* engine) {
  const std::lock_guard lock(mutex_);
  engine_ = engine;
}

Expected<Engine*> Registry::engine() {
  const CallbacksHeld held;
  const std::lock_guard lock(mutex_);
  if (engine_ != nullptr) return engine_;
  if (!own_engine_) {
    auto own = std::make_shared<OwnEngine>();
    const ctn_status status = ctn_engine_create(nullptr, &own->handle);
    if (status != CTN_OK) {
      return make_error_text(static_cast<ErrorCode>(status), ctn_last_error());
    }
    own_engine_ = std::move(own);
  }
  return &own_engine_->handle->engine;
}

std::string Registry::report() const {
  llvm::json::Array rows;
  const std::shared_lock lock(mutex_);
  for (const auto& [hash, bound] : bound_) {
    llvm::json::Object row;
    row["key"] = bound->form->key;
    row["place"] = bound->executable ? "device" : "reference";
    if (bound->executable) row["device"] = bound->executable->device();
    row["symbol"] = bound->special.symbol;
    row["chain"] = print(bound->special.chain.chain());
    rows.push_back(std::move(row));
  }
  return json_text(std::move(rows), 0);
}

}  // namespace catenary::torch_adapter
