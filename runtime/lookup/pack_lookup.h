// SPDX-License-Identifier: Apache-2.0
// The packs of one engine: finds a chain in them, and decides what a miss means. Keeps every miss,
// and writes the trace. Knows no compiler.
#pragma once

#include <mutex>
#include <set>

#include "runtime/lookup/chain_request.h"
#include "runtime/lookup/lookup_options.h"
#include "runtime/warnings.h"

namespace catenary {

// Thread-safe.
class PackLookup {
 public:
  explicit PackLookup(LookupOptions options);

  // A pack with a higher priority is asked first; among equals the one that was added first.
  void add(std::shared_ptr<const Pack> pack, int priority);

  // Nothing depends on a request: there is no pack and no trace, and every chain is compiled.
  bool idle() const;

  // The entry that fits the request best, under the request's own names. Null: no pack has one.
  // Without a compiler (kOff), an entry that cannot be read is an error; else it is a warning.
  Expected<std::shared_ptr<const ChainRecord>> find(const ChainRequest& request);

  // Call it before compiling what find() did not have. kPackMiss in kOff: the sentence names what
  // differs from the nearest entry.
  Error miss(const ChainRequest& request);

  // For a caller that needs the compiled chain, which no pack has: kPackMiss in kOff.
  Error refuse_compiling(const ChainRequest& request) const;

  // Appends the request to the trace, once.
  void trace(const ChainRequest& request);

  // The requests that were missed, as the lines of a trace, each once, in order.
  std::string missed() const;

 private:
  struct Added {
    std::shared_ptr<const Pack> pack;
    int priority = 0;
  };
  struct Candidate;
  struct RequestId {
    KernelKey key;
    u64 fit = 0;
    auto operator<=>(const RequestId&) const = default;
  };

  std::vector<Added> packs() const;
  Error add_candidates(const ChainRequest& request, const std::shared_ptr<const Pack>& pack,
                       std::optional<Candidate>& best);
  Expected<std::shared_ptr<const ChainRecord>> take(const ChainRequest& request, Candidate best);
  void warn_once(const std::string& line) { warnings_.warn(line); }
  void warn_unread(const ChainRequest& request, Error error);
  JitMode mode() const { return options_.jit.value_or(JitMode::kAuto); }

  LookupOptions options_;
  Warnings warnings_;
  mutable std::mutex mutex_;
  std::vector<Added> packs_;  // in the order of a search
  std::set<RequestId> traced_;
  std::set<RequestId> missed_;
  std::set<RequestId> unread_;  // asked of a pack that cannot be read, which a warning has said
  std::string missed_lines_;
};

}  // namespace catenary
