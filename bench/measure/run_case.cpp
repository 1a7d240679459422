// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/run_case.h"

namespace catenary::bench {
namespace {

bool poisoned(const ErrorReport& report) { return report.code == ErrorCode::kContextPoisoned; }

std::optional<double> faster_peer(const Row& row) {
  std::optional<double> us;
  for (const auto& peer : {row.peer_us, row.second_peer_us}) {
    if (peer && (!us || peer->median < *us)) us = peer->median;
  }
  return us;
}

// The contenders of a case, in the order of their turns.
class CaseRun {
 public:
  CaseRun(const Session& session, const CublasLt* lt, const Case& spec, const ChainSetup& setup,
          const CaseOptions& options, Row& row)
      : session_(session), lt_(lt), spec_(spec), setup_(setup), options_(options), row_(row) {}

  // Compiles and verifies ours. False: it is wrong, and the row says so.
  Expected<bool> add_ours();

  // A contender that cannot be compared is noted and left out. An error is a broken context.
  Error add_peer();
  Error add_second_peer();
  Error add_unfused();
  Error add_no_epilogue();
  Error add_pdl();

  Error time(const Ceilings& ceilings);

 private:
  enum class Kind { kOurs, kPeer, kSecondPeer, kUnfused, kNoEpilogue, kPdl, kNoEpiloguePdl };
  void add(Kind kind, Contender contender) {
    kinds_.push_back(kind);
    contenders_.push_back(std::move(contender));
  }
  Expected<CompareResult> check(const Contender& contender);
  Expected<Contender> ready_unfused();
  Error ready_no_epilogue();
  Expected<Contender> ready_peer(const Peer& spec, std::string& config);
  Expected<std::vector<Timing>> contest();

  const Session& session_;
  const CublasLt* lt_;
  const Case& spec_;
  const ChainSetup& setup_;
  const CaseOptions& options_;
  Row& row_;
  std::shared_ptr<const BoundChain> ours_, no_epilogue_;
  std::vector<Kind> kinds_;
  std::vector<Contender> contenders_;
};

Expected<CompareResult> CaseRun::check(const Contender& contender) {
  if (Error error = run_poisoned(session_, setup_.data(), contender)) return error;
  return compare_samples(setup_.samples, setup_.tensors);
}

Expected<bool> CaseRun::add_ours() {
  auto bound =
      BoundChain::make(session_, setup_.chain, options_.plan, setup_.tensors, setup_.copies);
  if (!bound) return bound.takeError();
  ours_ = std::move(*bound);
  const Plan& plan = ours_->plan();
  row_.family = plan_family(plan);
  row_.config = config_text(plan);
  row_.kernels = static_cast<int>(plan.buckets.front().kernels.size());
  Contender ours = contender("ours", ours_);
  Expected<CompareResult> result = check(ours);
  if (!result) return result.takeError();
  row_.verified = result->ok() && result->checked > 0;
  row_.worst_error_ratio = result->worst_ratio;
  if (!row_.verified) {
    row_.note = to_string(*result);
    return false;
  }
  add(Kind::kOurs, std::move(ours));
  return true;
}

Expected<Contender> CaseRun::ready_unfused() {
  PlanOptions options;
  options.fuse = false;
  auto bound = BoundChain::make(session_, setup_.chain, options, setup_.tensors, setup_.copies);
  if (!bound) return bound.takeError();
  row_.unfused_kernels = static_cast<int>((*bound)->plan().buckets.front().kernels.size());
  Contender unfused = contender("unfused", std::move(*bound));
  Expected<CompareResult> result = check(unfused);
  if (!result) return result.takeError();
  if (!result->ok()) {
    row_.verified = false;
    return make_error(ErrorCode::kMismatch, "the unfused plan is wrong: {}", to_string(*result));
  }
  return unfused;
}

Error CaseRun::ready_no_epilogue() {
  Expected<VerifiedChain> chain = verified_chain(spec_.no_epilogue);
  if (!chain) return chain.takeError();
  auto bound = BoundChain::make(session_, *chain, options_.plan, setup_.tensors, setup_.copies);
  if (!bound) return bound.takeError();
  no_epilogue_ = std::move(*bound);
  return run_poisoned(session_, setup_.data(), contender("no epilogue", no_epilogue_));
}

Expected<Contender> CaseRun::ready_peer(const Peer& spec, std::string& config) {
  PeerOptions options;
  options.algorithms = options_.algorithms;
  options.timing = options_.timing;
  options.timing.rounds = 3;
  options.timing.batch_us = options_.timing.batch_us / 2;
  Expected<ReadyPeer> peer =
      make_peer(session_, *lt_, spec, setup_.tensors, setup_.copies, options);
  if (!peer) return peer.takeError();
  config = peer->config;
  if (Error error = run_poisoned(session_, setup_.data(), peer->contender)) return error;
  if (spec.own_weights) return std::move(peer->contender);
  Expected<double> distance = coarse_distance(setup_.samples, setup_.tensors);
  if (!distance) return distance.takeError();
  if (!(*distance <= kCoarseLimit)) {
    return make_error(ErrorCode::kMismatch,
                      "its result is {:.3g} root mean squares from the reference, so it computes "
                      "something else",
                      *distance);
  }
  return std::move(peer->contender);
}

Error CaseRun::add_peer() {
  row_.peer = spec_.peer.name;
  if (row_.peer.empty()) return Error::success();
  if (lt_ == nullptr) {
    row_.peer_note = "cuBLASLt was not found";
    return Error::success();
  }
  Expected<Contender> peer = ready_peer(spec_.peer, row_.peer_config);
  if (peer) {
    add(Kind::kPeer, std::move(*peer));
    return Error::success();
  }
  const ErrorReport report = take_report(peer.takeError());
  if (poisoned(report)) return make_error_text(report.code, report.message);
  row_.peer_note = report.message;
  return Error::success();
}

Error CaseRun::add_second_peer() {
  row_.second_peer = spec_.second_peer.name;
  if (row_.second_peer.empty() || lt_ == nullptr) return Error::success();
  Expected<Contender> peer = ready_peer(spec_.second_peer, row_.second_peer_config);
  if (peer) {
    add(Kind::kSecondPeer, std::move(*peer));
    return Error::success();
  }
  const ErrorReport report = take_report(peer.takeError());
  if (poisoned(report)) return make_error_text(report.code, report.message);
  row_.note = fmt::format("{}: {}", row_.second_peer, report.message);
  return Error::success();
}

Error CaseRun::add_unfused() {
  const Plan& plan = ours_->plan();
  if (plan.unfused_kernels <= plan.fused_kernels) return Error::success();
  Expected<Contender> unfused = ready_unfused();
  if (unfused) {
    add(Kind::kUnfused, std::move(*unfused));
    return Error::success();
  }
  const ErrorReport report = take_report(unfused.takeError());
  if (poisoned(report)) return make_error_text(report.code, report.message);
  row_.note = report.message;
  return Error::success();
}

Error CaseRun::add_no_epilogue() {
  if (spec_.no_epilogue.empty()) return Error::success();
  Error error = ready_no_epilogue();
  if (!error) {
    add(Kind::kNoEpilogue, contender("no epilogue", no_epilogue_));
    return Error::success();
  }
  no_epilogue_ = nullptr;
  const ErrorReport report = take_report(std::move(error));
  if (poisoned(report)) return make_error_text(report.code, report.message);
  row_.note = report.message;
  return Error::success();
}

// For cases with a rotation of their own, whose launches are short, and for chains of several
// kernels.
Error CaseRun::add_pdl() {
  if (spec_.copies == 0 && row_.kernels < 2) return Error::success();
  Contender pdl = contender("PDL", ours_, true);
  // Verified after a launch that it may overlap.
  const Contender both{"PDL", [&](int copy) -> Error {
                         if (Error error = pdl.launch(copy + 1)) return error;
                         return pdl.launch(copy);
                       }};
  Expected<CompareResult> result = check(both);
  if (!result) return result.takeError();
  if (result->ok()) {
    add(Kind::kPdl, std::move(pdl));
    if (no_epilogue_) add(Kind::kNoEpiloguePdl, contender("no epilogue, PDL", no_epilogue_, true));
  } else {
    row_.verified = false;
    row_.note = "launches with PDL are wrong: " + to_string(*result);
  }
  return Error::success();
}

// If a contender fails, the contest is repeated without the last one.
Expected<std::vector<Timing>> CaseRun::contest() {
  TimingOptions options = options_.timing;
  options.copies = setup_.copies;
  for (;;) {
    auto timings = time_contenders(session_, contenders_, options);
    if (timings || contenders_.size() == 1) return timings;
    const ErrorReport report = take_report(timings.takeError());
    if (poisoned(report)) return make_error_text(report.code, report.message);
    std::string& note = kinds_.back() == Kind::kPeer ? row_.peer_note : row_.note;
    note = fmt::format("not timed against {}: {}", contenders_.back().name, report.message);
    contenders_.pop_back();
    kinds_.pop_back();
  }
}

Error CaseRun::time(const Ceilings& ceilings) {
  auto timings = contest();
  if (!timings) return timings.takeError();
  for (size_t i = 0; i < timings->size(); ++i) {
    const Spread& us = (*timings)[i].us;
    switch (kinds_[i]) {
      case Kind::kOurs:
        row_.us = us;
        row_.graph = (*timings)[i].graph;
        break;
      case Kind::kPeer:
        row_.peer_us = us;
        break;
      case Kind::kSecondPeer:
        row_.second_peer_us = us;
        break;
      case Kind::kUnfused:
        row_.unfused_us = us;
        break;
      case Kind::kNoEpilogue:
        row_.no_epilogue_us = us;
        break;
      case Kind::kPdl:
        row_.pdl_us = us;
        break;
      case Kind::kNoEpiloguePdl:
        row_.no_epilogue_pdl_us = us;
        break;
    }
  }
  const Bound bound = ceiling_bound(ceilings, row_.bytes, row_.flops, spec_.rate);
  row_.ceiling = bound.by;
  if (bound.us > 0) row_.of_ceiling = bound.us / row_.us->median;
  row_.copy_share = copy_share(ceilings, row_.bytes, row_.us);
  row_.pdl_copy_share = copy_share(ceilings, row_.bytes, row_.pdl_us);
  const std::optional<double> peer_us = faster_peer(row_);
  if (peer_us) row_.ratio = *peer_us / row_.us->median;
  if (peer_us && row_.pdl_us) row_.pdl_ratio = *peer_us / row_.pdl_us->median;
  return Error::success();
}

Error fill_row(const Session& session, const CublasLt* lt, RandomPool& pool,
               const Ceilings& ceilings, const Case& spec, const CaseOptions& options, Row& row) {
  Expected<VerifiedChain> chain = verified_chain(spec.chain);
  if (!chain) return chain.takeError();
  const SetupOptions wanted{spec.ends, spec.copies, options.samples, options.seed};
  Expected<ChainSetup> setup = set_up_chain(session, pool, std::move(*chain), wanted);
  if (!setup) return setup.takeError();
  row.copies = setup->copies;
  for (const auto& [name, arena] : setup->tensors) {
    row.bytes += static_cast<double>(tensor_bytes(arena.type));
  }
  row.bytes -= static_cast<double>(spec.unread_bytes);
  CaseRun run(session, lt, spec, *setup, options, row);
  Expected<bool> right = run.add_ours();
  if (!right) return right.takeError();
  if (!*right) return Error::success();
  if (Error error = run.add_peer()) return error;
  if (Error error = run.add_second_peer()) return error;
  if (Error error = run.add_unfused()) return error;
  if (!row.verified) return Error::success();
  if (Error error = run.add_no_epilogue()) return error;
  if (Error error = run.add_pdl()) return error;
  if (!row.verified) return Error::success();
  if (Error error = run.time(ceilings)) return error;
  if (!options.all_tiles || row.family == "pointwise") return Error::success();
  auto tiles = time_tiles(session, *setup, options);
  if (!tiles) return tiles.takeError();
  row.tiles = std::move(*tiles);
  return Error::success();
}

}  // namespace

Expected<Row> run_case(const Session& session, const CublasLt* lt, RandomPool& pool,
                       const Ceilings& ceilings, const Case& spec, const CaseOptions& options) {
  Row row;
  row.name = spec.name;
  row.group = spec.group;
  row.dtype = spec.dtype;
  row.shape = spec.shape;
  row.flops = spec.flops;
  row.note = spec.note;
  row.peer = spec.peer.name;
  if (Error error = fill_row(session, lt, pool, ceilings, spec, options, row)) {
    const ErrorReport report = take_report(std::move(error));
    if (poisoned(report)) return make_error_text(report.code, report.message);
    row.error = report.message;
  }
  return row;
}

}  // namespace catenary::bench
