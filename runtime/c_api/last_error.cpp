// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/last_error.h"

#include <pthread.h>

#include <atomic>
#include <new>

namespace catenary::c_api {
namespace {

// A thread's own object, kept for its life, and which of the two errors is the last one.
struct Slot {
  LastError error;
  bool out_of_memory = false;
};

// Constructed before the first call and never destroyed: a call may come late in the process's
// exit.
struct Texts {
  LastError none;
  LastError out_of_memory{"out of host memory: free some and try again", {}};
};
const Texts& texts() {
  static const Texts& made = *new Texts;
  return made;
}
[[maybe_unused]] const Texts& made_at_load = texts();

// glibc keeps the value of one of the first 32 keys in the thread's descriptor, where setting it
// needs no memory. The key is deleted when the library is unloaded.
class Key {
 public:
  Key() {
    valid_ = ::pthread_key_create(&key_, [](void* slot) { destroy(slot); }) == 0;
  }
  ~Key() {
    if (!valid_) return;
    destroy(::pthread_getspecific(key_));
    ::pthread_key_delete(key_);
    valid_ = false;
  }
  void* get() const { return valid_ ? ::pthread_getspecific(key_) : nullptr; }
  bool set(void* slot) const { return valid_ && ::pthread_setspecific(key_, slot) == 0; }

 private:
  static void destroy(void* slot);

  pthread_key_t key_{};
  bool valid_ = false;
};

// The key's value for a thread that has no Slot and ran out of memory.
char no_slot_but_out_of_memory;
std::atomic<bool> marker_lost{false};  // not even the marker could be set

void Key::destroy(void* slot) {
  if (slot != &no_slot_but_out_of_memory) delete static_cast<Slot*>(slot);
}

Key key;

Slot* own_slot() {
  void* const slot = key.get();
  return slot == &no_slot_but_out_of_memory ? nullptr : static_cast<Slot*>(slot);
}

}  // namespace

const LastError* last_error() noexcept {
  if (const Slot* slot = own_slot()) {
    return slot->out_of_memory ? &texts().out_of_memory : &slot->error;
  }
  const bool out_of_memory = key.get() != nullptr || marker_lost;
  return out_of_memory ? &texts().out_of_memory : &texts().none;
}

bool set_last_error(std::string message, Location at) noexcept {
  Slot* slot = own_slot();
  if (slot == nullptr) {
    slot = new (std::nothrow) Slot;
    if (slot == nullptr) return false;
    if (!key.set(slot)) {
      delete slot;
      return false;
    }
  }
  slot->error.message = std::move(message);
  slot->error.at = at;
  slot->out_of_memory = false;
  return true;
}

void set_out_of_memory() noexcept {
  if (Slot* slot = own_slot()) {
    slot->out_of_memory = true;
  } else if (!key.set(&no_slot_but_out_of_memory)) {
    marker_lost = true;
  }
}

}  // namespace catenary::c_api
