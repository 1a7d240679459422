// SPDX-License-Identifier: Apache-2.0
// The interface of a contraction family, and the registered ones. A family knows its own kernel and
// the neutral problem; it knows no other family, and nothing outside it knows its config.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/families/problem.h"
#include "compiler/kernel_family.h"
#include "compiler/target.h"

namespace catenary {

// The order in which a candidate forms the sum of an element of D. Candidates of one order, other
// than kOther, form the same bits whatever their tile.
struct SumOrder {
  enum class Kind : u8 {
    kOther,          // an order of its own
    kAscending,      // k-blocks of mma.sync (true f32: terms), ascending
    kAscendingWgmma  // k-blocks of wgmma, ascending
  };
  Kind kind = Kind::kOther;
  // K-slices that are summed separately. Slice i begins at k-tile (k-tiles * i / slices). The sums
  // of the slices are added in ascending order.
  int slices = 1;
  bool operator==(const SumOrder&) const = default;
};

// One kernel that a family could launch for a problem.
struct Candidate {
  CandidateId id;
  KernelConfig config;
  int min_ctas = 1;  // CTAs per SM: launch bounds
  Prediction predicted;
  std::string text;      // for people: "tile 128x256x64, 2 cooperative warpgroups, ..."
  std::string rejected;  // why the target cannot run it; empty: it can
  SumOrder sums;
};

// What a caller forces; empty and 0: nothing. A family whose tiles have other names offers none.
struct TileRequest {
  std::string tile;
  int split_k = 0;
  int sum_slices = 1;  // SumOrder::slices of candidates that do not divide K among CTAs
  bool is_forced() const { return !tile.empty() || split_k != 0; }
};

class ContractionFamily : public KernelFamily {
 public:
  // Why the family has no kernel for the problem on the target: one sentence with the fix, or
  // "" if it has. Allow-lists only: a dtype, a layout or a target that the family does not name is
  // refused. `silent`: the reason is not worth a line of `explain`.
  struct Support {
    std::string refusal;
    bool silent = false;
    explicit operator bool() const { return refusal.empty(); }
  };
  virtual Support supports(const ContractionProblem& problem, const Target& target) const = 0;

  // Does the family store outputs that are contiguous along M (ContractionProblem::transposed)?
  virtual bool takes_transposed() const { return false; }

  // Does the epilogue reduce rows (ContractionProblem::reduced_columns)?
  virtual bool reduces_rows() const { return false; }

  // Every candidate that matches `request`, in any order. Candidates that do not fit the target
  // have the reason in `rejected`. The problem is supported.
  virtual std::vector<Candidate> candidates(const ContractionProblem& problem, const Target& target,
                                            const TileRequest& request) const = 0;

  // The kernel of one candidate, for whole sums: complete but for the symbol's prefix. Split-K
  // replaces its program afterwards.
  virtual KernelPlan kernel(const ContractionProblem& problem, const Target& target,
                            const Candidate& candidate) const = 0;

  // The candidate's tile for a contraction that runs beside others of that tile in one launch
  // (scheduler/beside.cuh); nothing: it cannot. The problem is supported.
  virtual std::optional<Candidate> beside(const ContractionProblem& /*problem*/,
                                          const Target& /*target*/,
                                          const Candidate& /*candidate*/) const {
    return std::nullopt;
  }
};

// The rows of families.def, then those added at run time, in the order of preference among equal
// predictions.
std::vector<const ContractionFamily*> contraction_families();

// Adds a family to this process while it lives. Not while another thread plans.
class ScopedFamily {
 public:
  explicit ScopedFamily(const ContractionFamily& family);
  ~ScopedFamily();
  ScopedFamily(const ScopedFamily&) = delete;
  ScopedFamily& operator=(const ScopedFamily&) = delete;

 private:
  const ContractionFamily* family_;
};

// The families of groups without a contraction; `reduce` also adds the partial sums of split-K.
const KernelFamily& pointwise_family();
const KernelFamily& dequantise_family();
const KernelFamily& reduce_family();

}  // namespace catenary
