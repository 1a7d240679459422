// SPDX-License-Identifier: Apache-2.0
// Cubins in memory, up to a number of bytes; the least recently used is dropped first. Not
// thread-safe: the owner locks. A dropped cubin lives as long as a caller holds it.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "compiler/emit/source.h"

namespace catenary {

// A key and its record: ids that differ only in the record are two kernels.
using CubinId = std::pair<KernelKey, std::string>;

class MemoryTier {
 public:
  explicit MemoryTier(i64 max_bytes) : max_bytes_(max_bytes) {}

  // Null: absent.
  std::shared_ptr<const Cubin> find(const CubinId& id) {
    const auto it = index_.find(id);
    if (it == index_.end()) return nullptr;
    uses_.splice(uses_.begin(), uses_, it->second);
    return it->second->cubin;
  }

  // If it throws, nothing has changed.
  void insert(const CubinId& id, std::shared_ptr<const Cubin> cubin) {
    if (index_.contains(id)) return;
    Uses fresh;
    fresh.push_front({std::move(cubin), {}});
    fresh.front().indexed = index_.try_emplace(id, fresh.begin()).first;
    bytes_ += static_cast<i64>(fresh.front().cubin->image.size());
    uses_.splice(uses_.begin(), fresh);
    // The newest stays, whatever its size: its caller holds it.
    while (bytes_ > max_bytes_ && uses_.size() > 1) {
      bytes_ -= static_cast<i64>(uses_.back().cubin->image.size());
      index_.erase(uses_.back().indexed);
      uses_.pop_back();
    }
  }

  void clear() {
    index_.clear();
    uses_.clear();
    bytes_ = 0;
  }

 private:
  struct Slot;
  using Uses = std::list<Slot>;
  using Index = std::map<CubinId, Uses::iterator>;
  struct Slot {
    std::shared_ptr<const Cubin> cubin;
    Index::iterator indexed;
  };

  i64 max_bytes_;
  i64 bytes_ = 0;
  Uses uses_;  // most recent first
  Index index_;
};

}  // namespace catenary
