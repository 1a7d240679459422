// SPDX-License-Identifier: Apache-2.0
// Clusters: addresses in other CTAs' shared memory (PTX ISA 9.7.9.27, mapa), barrier.cluster
// (9.7.13.4) and asynchronous stores (9.7.9.12, st.async). The barrier of a cluster completes when
// every thread that has not exited has arrived.
#include <algorithm>
#include <cstring>

#include "simulator/runner/runner.h"

namespace catenary::sim {
namespace {

// All lanes of a warp take part: the templates use the .aligned forms.
std::bitset<128> whole(const Rendezvous& warp) {
  std::bitset<128> mask;
  for (u32 lane = 0; lane < warp.lanes; ++lane) mask.set(lane);
  return mask;
}

}  // namespace

u32 Runner::map_shared(u32 address, u32 rank, Site site) {
  const size_t ctas = self().cta->cluster->ctas.size();
  if (rank >= ctas) {
    fault(FaultKind::kOutOfBounds, site, "maps an address to CTA {} of a cluster of {}", rank,
          ctas);
  }
  if (address >> 24 != 0) {
    fault(FaultKind::kOperand, site, "maps address {:#x}, which is already mapped", address);
  }
  return address | (rank + 1) << 24;
}

void Runner::cluster_arrive(bool release, Site site) {
  preempt();
  Thread& thread = self();
  Cluster& cluster = *thread.cta->cluster;
  Rendezvous& warp = warp_of(thread);
  converge(warp, whole(warp), site, nullptr, [](Rendezvous&) {});
  const u32 n = thread.number;
  if (cluster.arrivals[n] != cluster.waits[n]) {
    fault(FaultKind::kBarrier, site,
          "arrives at the cluster barrier twice without barrier.cluster.wait between");
  }
  ++cluster.arrivals[n];
  ++cluster.arrived;
  if (release) cluster.open_phase.add(thread.clock);
  complete_cluster_barrier_if_due(cluster);
}

void Runner::complete_cluster_barrier_if_due(Cluster& cluster) {
  u32 live = 0;
  for (const Cta& cta : cluster.ctas) live += cta.live;
  // A thread may exit after its arrival, so that the counts alone do not decide: check each thread.
  if (cluster.arrived == 0 || cluster.arrived < live) return;
  for (const Cta& cta : cluster.ctas) {
    for (const Thread& thread : cta.threads) {
      if (thread.progress != Progress::kDone && cluster.arrivals[thread.number] == cluster.phase) {
        return;
      }
    }
  }
  cluster.arrived = 0;
  ++cluster.phase;
  cluster.last = cluster.open_phase.result();
  cluster.open_phase.clear();
  wake_all(cluster.waiting);
}

void Runner::cluster_wait(Site site) {
  preempt();
  Thread& thread = self();
  Cluster& cluster = *thread.cta->cluster;
  Rendezvous& warp = warp_of(thread);
  converge(warp, whole(warp), site, nullptr, [](Rendezvous&) {});
  const u32 n = thread.number;
  if (cluster.arrivals[n] == cluster.waits[n]) {
    fault(FaultKind::kBarrier, site,
          "waits at the cluster barrier without barrier.cluster.arrive before");
  }
  if (cluster.phase < cluster.arrivals[n]) {
    cluster.waiting.push_back(&thread);
    block(site, "the other threads of the cluster");
  }
  ++cluster.waits[n];
  thread.clock.acquire(cluster.last);
}

// PTX ISA 9.7.9.12: 4, 8 or 16 bytes, through the generic proxy.
void Runner::store_async(u32 to, const void* from, u32 bytes, u32 barrier, Site site) {
  preempt();
  if (bytes != 4 && bytes != 8 && bytes != 16) {
    fault(FaultKind::kOperand, site, "stores {} bytes: st.async takes 4, 8 or 16", bytes);
  }
  const SharedLocation location = shared_location(to, bytes, bytes, site);
  std::array<u8, 16> data = {};
  std::memcpy(data.data(), from, bytes);
  issue_transaction(
      location, bytes, find_mbarrier(barrier, false, site), false, site,
      [target = location.bytes, data, bytes] { std::memcpy(target, data.data(), bytes); });
}

}  // namespace catenary::sim
