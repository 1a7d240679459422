// SPDX-License-Identifier: Apache-2.0
// What `catenary tune` found for one contraction on one device, as the bytes of a file: a first
// line with the SHA-256 of the rest, then JSON that people can read. Opens no file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/source.h"
#include "compiler/kernel_plan.h"
#include "compiler/target.h"
#include "ir/error.h"
#include "ir/json.h"
#include "llvm/ADT/ArrayRef.h"

namespace catenary {

// One candidate's time per launch of the chain, microseconds. No median: `note` says why.
struct TunedCandidate {
  CandidateId id;
  double predicted_us = 0;
  std::optional<double> median_us;
  double p10_us = 0, p90_us = 0;
  std::string note;
};

struct TuningRecord {
  // What the record is for; all of it is in the file's name.
  std::string signature;  // KernelPlan::signature
  std::string target, arch;
  int sm_count = 0;
  // What it depends on besides: another digest makes it stale.
  std::string templates;
  // Where it comes from.
  std::string device, driver, compiler, date, chain;
  // The winner, and what the cost model would have taken.
  CandidateId winner, model;
  std::vector<TunedCandidate> candidates;
};

// SHA-256 over signature and device, each part with its length: the record's file.
KernelKey tuning_key(const Target& target, const std::string& signature);

llvm::json::Value tuning_json(const TuningRecord& record);
std::vector<u8> tuning_bytes(const TuningRecord& record);

// kCorruptArtifact: damaged, or no record.
Expected<TuningRecord> parse_tuning(llvm::ArrayRef<u8> bytes);

// "measured 12.3 us, 15.1 us by the cost model's 128x128x64p2s4 (NVIDIA H200, 2026-11-22)".
std::string tuning_summary(const TuningRecord& record);

}  // namespace catenary
