// SPDX-License-Identifier: Apache-2.0
#include "tuner/contest.h"

namespace catenary::tuner {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Runs `contender` on copy 0 and compares. False: the note says what is wrong.
Expected<bool> is_right(const Session& session, const ContestData& data, const Contender& contender,
                        std::string& note) {
  if (Error error = run_poisoned(session, data, contender)) return error;
  Expected<CompareResult> result = compare_samples(data.samples, data.tensors);
  if (!result) return result.takeError();
  if (result->ok() && result->checked > 0) return true;
  note = fmt::format("WRONG, {}: {}", contender.name, to_string(*result));
  return false;
}

// The entrant's contenders: plain, and with `pdl` overlapped. None, with a note, when it cannot be
// loaded or is wrong.
Expected<std::vector<Contender>> contenders_of(const Session& session, const ContestData& data,
                                               bool pdl, Entrant& entrant) {
  Engine engine(engine_options(session));
  auto bound = BoundChain::load(session, engine, entrant.compiled, data.tensors, data.copies);
  if (!bound) {
    ErrorReport report = take_report(bound.takeError());
    if (report.code == ErrorCode::kContextPoisoned) {
      return make_error_text(report.code, report.message);
    }
    entrant.note = first_line(report.message);
    return std::vector<Contender>();
  }
  std::vector<Contender> made = {contender("plain", *bound)};
  Expected<bool> right = is_right(session, data, made[0], entrant.note);
  if (!right) return right.takeError();
  if (!*right) return std::vector<Contender>();
  if (pdl) {
    made.push_back(contender("PDL", *bound, true));
    // Verified after a launch that it may overlap.
    const Contender both{"PDL", [&](int copy) -> Error {
                           if (Error error = made[1].launch((copy + 1) % data.copies)) return error;
                           return made[1].launch(copy);
                         }};
    right = is_right(session, data, both, entrant.note);
    if (!right) return right.takeError();
    if (!*right) return std::vector<Contender>();
  }
  entrant.verified = true;
  return made;
}

}  // namespace

void compile_entrant(const Session& session, const Chain& chain, Entrant& entrant) {
  Engine engine(engine_options(session, entrant.plan));
  auto compiled = engine.compile(chain, session.info().target);
  if (!compiled) {
    entrant.note = first_line(take_report(compiled.takeError()).message);
    return;
  }
  entrant.compiled = std::move(*compiled);
  entrant.registers = entrant.compiled->buckets[0][0].cubin->resources.registers;
}

Error run_poisoned(const Session& session, const ContestData& data, const Contender& contender) {
  for (const Samples& samples : data.samples) {
    const TensorArena& output = data.tensors.at(samples.output);
    const auto bytes = static_cast<size_t>(tensor_bytes(output.type));
    if (Error error = session.check(
            session.api().memset_d8_async(output.base(), 0xff, bytes, session.stream()),
            "poisoning an output")) {
      return error;
    }
  }
  if (Error error = contender.launch(0)) return error;
  return session.synchronize();
}

Expected<std::vector<Timing>> run_contest(const Session& session,
                                          llvm::MutableArrayRef<Entrant> entrants,
                                          llvm::ArrayRef<Contender> others, const ContestData& data,
                                          const TimingOptions& timing, bool pdl) {
  std::vector<Contender> contenders;
  std::vector<Entrant*> timed;
  for (Entrant& entrant : entrants) {
    if (!entrant.compiled) continue;
    auto made = contenders_of(session, data, pdl, entrant);
    if (!made) return made.takeError();
    if (made->empty()) continue;
    for (Contender& one : *made) contenders.push_back(std::move(one));
    timed.push_back(&entrant);
  }
  contenders.insert(contenders.end(), others.begin(), others.end());
  if (contenders.empty()) return std::vector<Timing>();
  TimingOptions options = timing;
  options.copies = data.copies;
  auto timings = time_contenders(session, contenders, options);
  if (!timings) return timings.takeError();
  size_t next = 0;
  for (Entrant* entrant : timed) {
    entrant->us = (*timings)[next++].us;
    if (pdl) entrant->pdl_us = (*timings)[next++].us;
  }
  return std::vector<Timing>(timings->begin() + static_cast<std::ptrdiff_t>(next), timings->end());
}

}  // namespace catenary::tuner
