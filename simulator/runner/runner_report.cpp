// SPDX-License-Identifier: Apache-2.0
// The messages of a fault (which thread broke which rule, where, and in conflict with which access)
// and of a deadlock (which threads wait for what).
#include <map>

#include "simulator/runner/runner.h"

namespace catenary::sim {

std::string Runner::name_of(const Thread& thread) {
  return fmt::format("CTA {}, thread {} (warp {}, lane {})", thread.cta->index, thread.index,
                     thread.index / 32, thread.index % 32);
}

std::string Runner::describe(const Cluster& cluster, u32 component, u32 site) const {
  const Components& components = cluster.components;
  const Site& at = sites_[site];
  std::string who = "an asynchronous transaction";
  if (!components.is_mbarrier(component)) {
    const u32 number = components.owner(component);
    const u32 threads = cluster.grid->launch->threads;
    who = fmt::format("CTA {}, thread {}",
                      cluster.index * cluster.grid->launch->cluster_ctas + number / threads,
                      number % threads);
  }
  return fmt::format("{} ({} at {}:{})", who, at.op, at.file, at.line);
}

u32 Runner::site_number(Site site) {
  const u64 key = reinterpret_cast<u64>(site.file) * 31 + reinterpret_cast<u64>(site.op) * 17 +
                  (u64{site.line} << 44);
  RecentSite& recent = recent_sites_[(key ^ site.line) % recent_sites_.size()];
  if (recent.site.line == site.line && recent.site.op == site.op && recent.site.file == site.file &&
      recent.number != 0) {
    return recent.number;
  }
  const auto [it, fresh] = site_numbers_.try_emplace(key, static_cast<u32>(sites_.size()));
  if (fresh) sites_.push_back(site);
  recent = {site, it->second};
  return it->second;
}

void Runner::fault_text(FaultKind kind, Site site, std::string sentence) {
  if (!faulted_) {
    faulted_ = true;
    const Thread& thread = completing_ != nullptr ? *completing_ : *running_;
    const std::string who =
        fmt::format("kernel {}, {}{}", thread.cta->cluster->grid->launch->kernel,
                    completing_ != nullptr ? "an operation of " : "", name_of(thread));
    std::string where =
        site.line == 0 ? "" : fmt::format(" at {}:{} ({})", site.file, site.line, site.op);
    message_ = fmt::format("{}{} {} [{}: {}; seed {}]", who, where, sentence, fault_name(kind),
                           fault_rule(kind), options_.seed);
  }
  if (running_ == nullptr) return;
  sentence = std::string();  // frees it: this frame is never unwound
  running_->fiber.leave();
}

// No thread can run and no operation is in flight: names the first waiting thread of each kind.
void Runner::report_deadlock() {
  struct Waiting {
    const Thread* first = nullptr;
    u32 count = 0;
  };
  std::map<std::string, Waiting> all;
  u32 total = 0;
  for (const Grid& grid : grids_) {
    for (const auto& cluster : grid.clusters) {
      for (Cta& cta : cluster->ctas) {
        describe_waits(cta);
        for (const Thread& thread : cta.threads) {
          if (thread.progress != Progress::kBlocked) continue;
          ++total;
          Waiting& w =
              all[fmt::format("{} at {}:{} for {}", thread.waits_at.op, thread.waits_at.file,
                              thread.waits_at.line, thread.waits_for)];
          if (w.first == nullptr) w.first = &thread;
          ++w.count;
        }
      }
    }
  }
  std::string text = fmt::format("no thread can proceed; {} wait", total);
  size_t shown = 0;
  for (const auto& [what, w] : all) {
    if (++shown > 4) break;
    text += fmt::format("; kernel {}, {}{} in {}", w.first->cta->cluster->grid->launch->kernel,
                        name_of(*w.first),
                        w.count > 1 ? fmt::format(" and {} more", w.count - 1) : "", what);
  }
  faulted_ = true;
  message_ = fmt::format("{} [{}: {}; seed {}]", text, fault_name(FaultKind::kDeadlock),
                         fault_rule(FaultKind::kDeadlock), options_.seed);
}

}  // namespace catenary::sim
