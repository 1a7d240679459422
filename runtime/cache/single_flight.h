// SPDX-License-Identifier: Apache-2.0
// Runs the work of a key at most once at a time: the first caller runs it; callers that come in the
// meantime wait, and share its value or its exception. No lock is held during the work, which must
// not ask for its own key.
#pragma once

#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "llvm/ADT/STLExtras.h"

namespace catenary {

// Value is copyable; a failure is a kind of value.
template <typename Key, typename Value>
class SingleFlight {
 public:
  struct Result {
    Value value;
    bool led;  // this caller ran the work
  };

  Result run(const Key& key, llvm::function_ref<Value()> work) {
    // Allocated before the map has an entry: an entry always has a flight.
    auto flight = std::make_shared<Flight>();
    {
      std::unique_lock lock(mutex_);
      const auto [it, led] = flights_.try_emplace(key, flight);
      if (!led) {
        flight = it->second;
        flight->done.wait(lock, [&] { return flight->value || flight->thrown; });
        if (flight->thrown) std::rethrow_exception(flight->thrown);
        return {*flight->value, false};
      }
    }
    std::exception_ptr thrown;
    try {
      Value value = work();
      const std::lock_guard lock(mutex_);
      flight->value = std::move(value);
    } catch (...) {
      thrown = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      flight->thrown = thrown;
      flights_.erase(key);
    }
    flight->done.notify_all();
    if (thrown) std::rethrow_exception(thrown);
    return {*flight->value, true};
  }

 private:
  struct Flight {
    std::condition_variable done;
    std::optional<Value> value;
    std::exception_ptr thrown;
  };
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Flight>> flights_;
};

}  // namespace catenary
