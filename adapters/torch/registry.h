// SPDX-License-Identifier: Apache-2.0
// The forms of the process by key, and what each has been bound to: an executable, or the reference
// on the host, per layouts and device of the arguments. Knows no framework.
#pragma once

#include <atomic>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "adapters/torch/form.h"
#include "runtime/engine.h"

namespace catenary::torch_adapter {

// Where an operator runs. On the host: by the reference, or by the simulator.
enum class Place : u8 { kGpu, kReference, kSimulator };

// A form bound to layouts and a place: what a call needs beside addresses. Never freed.
struct Bound {
  std::vector<i64> signature;
  const Form* form = nullptr;
  Specialisation special;
  std::shared_ptr<const Executable> executable;  // null: the reference
  Place place = Place::kReference;
  bool copies = false;  // some argument is copied
};

// What identifies a Bound, in this order: key, place, device, then of each argument its dtype,
// alignment and rank, sizes and strides.
using Signature = llvm::SmallVector<i64, 48>;
inline void add_tensor(Signature& signature, i64 dtype, i64 align, llvm::ArrayRef<int64_t> sizes,
                       llvm::ArrayRef<int64_t> strides) {
  signature.push_back(dtype | align << 8 | static_cast<i64>(sizes.size()) << 16);
  signature.append(sizes.begin(), sizes.end());
  signature.append(strides.begin(), strides.end());
}

// The largest power of 2, at most 16, that divides the address.
i64 alignment_of(const void* address);

class Registry {
 public:
  // The only one, which is never destroyed: threads remember what they have found in it.
  static Registry& process();

  // The same form again gives the same key. Errors of make_form().
  Expected<i64> add(VerifiedChain chain, LayoutRule rule, bool allow_pdl = false);
  // Never freed. kInvalidArgument: no form has the key. Takes no lock for what the thread has found
  // lately.
  Expected<const Form*> find(i64 key) const;

  // Null: nothing is bound to the signature. Allocates nothing; locks as find() does.
  const Bound* lookup(llvm::ArrayRef<i64> signature) const;

  // Specialises, prepares and binds. Errors of specialise() and of Engine::prepare(), among them
  // kNotWarmedCapture while `stream` is captured.
  Expected<const Bound*> bind(const Form& form, llvm::ArrayRef<TensorLayout> arguments,
                              llvm::ArrayRef<i64> signature, Place place, int device,
                              cuda::Stream stream);

  // The engine that prepares from now on; it outlives its use. Null: one of the registry's own.
  void use(Engine* engine);
  // What computes CPU tensors: kReference or kSimulator.
  void set_host_place(Place place) { host_place_.store(place, std::memory_order_relaxed); }
  Place host_place() const { return host_place_.load(std::memory_order_relaxed); }

  // Whether launches of all forms may start before the stream's previous kernel has ended.
  void set_pdl(bool allow) { pdl_.store(allow, std::memory_order_relaxed); }
  bool allow_pdl(const Form& form) const {
    return form.allow_pdl || pdl_.load(std::memory_order_relaxed);
  }

  // One JSON object per executable: key, device, text of the chain.
  std::string report() const;

 private:
  Registry() = default;
  Expected<std::shared_ptr<const Executable>> prepare(const VerifiedChain& chain, int device,
                                                      cuda::Stream stream);
  Expected<Engine*> engine();
  bool wants_symbol(const Form& form, llvm::ArrayRef<TensorLayout> arguments);

  mutable std::shared_mutex mutex_;
  std::unordered_map<i64, std::unique_ptr<const Form>> forms_;
  std::unordered_multimap<size_t, std::unique_ptr<const Bound>> bound_;
  // By device and canonical text.
  std::unordered_map<std::string, std::shared_ptr<const Executable>> executables_;
  // By form and layouts but the leading sizes: how many leading sizes there were.
  std::unordered_map<std::string, std::vector<i64>> leading_sizes_;
  Engine* engine_ = nullptr;
  struct OwnEngine;
  std::shared_ptr<OwnEngine> own_engine_;
  std::atomic<Place> host_place_ = Place::kReference;
  std::atomic<bool> pdl_ = false;
};

}  // namespace catenary::torch_adapter
