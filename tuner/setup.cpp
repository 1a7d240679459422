// SPDX-License-Identifier: Apache-2.0
#include "tuner/setup.h"

#include "ir/text/text.h"

namespace catenary::tuner {
namespace {

// The part of the device's memory that one chain may take.
constexpr double kMemoryPart = 0.6;

}  // namespace

Expected<VerifiedChain> verified_chain(const std::string& text) {
  Expected<Chain> chain = parse(text);
  if (!chain) return chain.takeError();
  return verify(std::move(*chain));
}

Expected<ChainSetup> set_up_chain(const Session& session, RandomPool& pool, VerifiedChain chain,
                                  const SetupOptions& options) {
  const i64 memory = session.info().memory_bytes;
  const i64 budget = static_cast<i64>(kMemoryPart * static_cast<double>(memory));
  int copies = options.copies;
  if (copies == 0) {
    copies = rotation_copies(input_bytes(chain), set_bytes(chain), session.info().target.l2_bytes,
                             budget);
  }
  if (copies * set_bytes(chain) > budget) {
    return make_error(
        ErrorCode::kOutOfMemory,
        "chain '{}' needs {} MiB of device memory, and {} has {}: use a larger device",
        chain.chain().name, copies * set_bytes(chain) >> 20, session.info().name, memory >> 20);
  }
  Expected<Tensors> tensors = make_tensors(session, pool, chain, options.ends, copies);
  if (!tensors) return tensors.takeError();
  auto samples = sample_reference(chain, *tensors, options.samples, options.seed);
  if (!samples) return samples.takeError();
  return ChainSetup{std::move(chain), copies, std::move(*tensors), std::move(*samples)};
}

}  // namespace catenary::tuner
