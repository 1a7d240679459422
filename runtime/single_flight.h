// SPDX-License-Identifier: Apache-2.0
// One piece of work per key at a time: the first caller works, those who come meanwhile wait and
// share its value. Nobody holds a lock during the work. The work must not ask for its own key.
#pragma once

#include <condition_variable>
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
        flight->landed.wait(lock, [&] { return flight->value.has_value(); });
        return {*flight->value, false};
      }
    }
    Value value = work();
    {
      std::lock_guard lock(mutex_);
      flight->value = value;
      flights_.erase(key);
    }
    flight->landed.notify_all();
    return {std::move(value), true};
  }

 private:
  struct Flight {
    std::condition_variable landed;
    std::optional<Value> value;
  };
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Flight>> flights_;
};

}  // namespace catenary
