// SPDX-License-Identifier: Apache-2.0
// One piece of work per key at a time: the first caller works, those who come meanwhile wait and
// share its value, or what the work throws. Nobody holds a lock during the work. The work must not
// ask for its own key.
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
    bool led;  // this caller did the work
  };

  Result run(const Key& key, llvm::function_ref<Value()> work) {
    std::shared_ptr<Flight> flight;
    {
      std::unique_lock lock(mutex_);
      auto [it, led] = flights_.try_emplace(key);
      if (led) it->second = std::make_shared<Flight>();
      flight = it->second;
      if (!led) {
        flight->landed.wait(lock, [&] { return flight->value || flight->thrown; });
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
    flight->landed.notify_all();
    if (thrown) std::rethrow_exception(thrown);
    return {*flight->value, true};
  }

 private:
  struct Flight {
    std::condition_variable landed;
    std::optional<Value> value;
    std::exception_ptr thrown;
  };
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Flight>> flights_;
};

}  // namespace catenary
