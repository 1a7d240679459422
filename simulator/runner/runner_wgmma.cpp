// SPDX-License-Identifier: Apache-2.0
// wgmma and its fence, commit and wait (PTX ISA 9.7.15.5 to 9.7.15.7), executed by the four warps
// of a warpgroup together. The asynchronous proxy reads shared operands at any moment before the
// wait; the warpgroup's first thread owns the operation. Accumulators are undefined from the issue
// to the wait for the last wgmma on them; then their values are put into the registers.
#include <algorithm>
#include <bit>

#include "simulator/model/matrix.h"
#include "simulator/runner/runner.h"

namespace catenary::sim {
namespace {

constexpr u32 kThreads = 128;
constexpr u32 kRows = 64;

// The arguments of one thread of a wgmma.
struct WgmmaLane {
  float* d;
  const WgmmaOperands* operands;
};

const WgmmaLane& lane_of(const Rendezvous& group, u32 thread) {
  return *static_cast<const WgmmaLane*>(group.payload[thread]);
}

// A wgmma in flight: all that its completion needs, taken at the issue.
struct IssuedWgmma {
  Number number;
  bool accumulate;
  std::vector<double> a_values;  // from registers; empty: A is in shared memory
  MatrixDescriptor a, b;
  SharedTile a_tile, b_tile;
  const u8* smem;
  u32 window;
  std::shared_ptr<Accumulator> d;
};

void run_wgmma(const IssuedWgmma& p) {
  const u32 n = p.d->n;
  const u32 k = mma_k(p.number);
  std::vector<double> a, b(k * n);
  if (p.a_values.empty()) {
    a.resize(kRows * k);
    read_operand_tile(p.a, p.a_tile, p.number, p.smem, p.window, a.data(), k, 1);
  }
  read_operand_tile(p.b, p.b_tile, p.number, p.smem, p.window, b.data(), 1, n);
  multiply(p.number, p.a_values.empty() ? a.data() : p.a_values.data(), b.data(),
           p.d->values.data(), kRows, n, k, p.accumulate);
}

// Converges the threads of a warpgroup. Faults if other lanes of the warp wait in an instruction of
// the warp.
void converge_warpgroup(Runner& runner, Site site, void* payload,
                        llvm::function_ref<void(Rendezvous&)> act) {
  Thread& thread = runner.self();
  if (thread.index / kThreads >= thread.cta->warpgroups.size()) {
    runner.fault(FaultKind::kDivergence, site,
                 "executes {} outside a whole warpgroup: the CTA has {} threads", site.op,
                 thread.cta->threads.size());
  }
  const Rendezvous& warp = runner.warp_of(thread);
  if (warp.open && warp.mask.test(thread.index % 32)) {
    runner.fault(FaultKind::kDivergence, site,
                 "executes {} while other lanes of its warp wait for it in {} at {}:{}", site.op,
                 warp.site.op, warp.site.file, warp.site.line);
  }
  runner.converge(runner.warpgroup_of(thread), std::bitset<128>().set(), site, payload, act);
}

void check_operands(Runner& runner, const WgmmaOperands& o, Site site) {
  if (!is_operand(o.number) && !(is_fp8(o.number) && o.a_registers == nullptr)) {
    runner.fault(FaultKind::kOperand, site,
                 "multiplies numbers that are not bf16, f16, tf32, or fp8 from shared memory");
  }
  if (o.n < 8 || o.n > 256 || o.n % 8 != 0) {
    runner.fault(FaultKind::kOperand, site,
                 "has {} columns: multiples of 8 from 8 to 256 are allowed", o.n);
  }
  if (operand_bytes(o.number) != 2 && (o.trans_a || o.trans_b)) {
    runner.fault(FaultKind::kOperand, site,
                 "transposes {}, which is {}: only 16-bit operands can be MN-major",
                 o.trans_a ? "A" : "B", o.number == Number::kTF32 ? "tf32" : "fp8");
  }
  if (o.a_registers != nullptr && o.trans_a) {
    runner.fault(FaultKind::kOperand, site, "transposes A, which is in registers");
  }
}

void check_uniform(Runner& runner, const Rendezvous& group, Site site) {
  const WgmmaOperands& o = *lane_of(group, 0).operands;
  for (u32 t = 1; t < kThreads; ++t) {
    const WgmmaOperands& other = *lane_of(group, t).operands;
    const char* differs = nullptr;
    if (other.a_descriptor != o.a_descriptor && o.a_registers == nullptr)
      differs = "descriptor of A";
    if (other.b_descriptor != o.b_descriptor) differs = "descriptor of B";
    if (other.scale_d != o.scale_d) differs = "scale-d";
    if (other.number != o.number || other.n != o.n || other.trans_a != o.trans_a ||
        other.trans_b != o.trans_b ||
        (other.a_registers == nullptr) != (o.a_registers == nullptr)) {
      differs = "form of the instruction";
    }
    if (differs == nullptr) continue;
    runner.fault(FaultKind::kOperand, site,
                 "has another {} in thread {} of the warpgroup than in thread 0", differs, t);
  }
}

// Faults if ldmatrix has loaded A after the fence. It compares values: the registers of all threads
// must match and not all be equal, so that equal data in other registers is no fault.
void check_a_fenced(Runner& runner, const WarpgroupState& state, const Rendezvous& group,
                    Site site) {
  bool all_loaded = true, constant = true;
  const u32 value = lane_of(group, 0).operands->a_registers[0];
  for (u32 t = 0; t < kThreads && all_loaded; ++t) {
    const u32* a = lane_of(group, t).operands->a_registers;
    for (u32 i = 0; i < 4; ++i) constant &= a[i] == value;
    const auto& loaded = state.loaded[t];
    all_loaded = std::any_of(loaded.begin(), loaded.end(),
                             [&](const auto& r) { return std::equal(r.begin(), r.end(), a); });
  }
  if (all_loaded && !constant) {
    runner.fault(FaultKind::kAccumulator, site,
                 "reads A from registers that ldmatrix wrote after the last wgmma_fence");
  }
}

// The accumulator in flight that this wgmma adds to, or null.
std::shared_ptr<Accumulator> find_accumulator(Runner& runner, const WarpgroupState& state,
                                              const Rendezvous& group, u32 n, Site site) {
  for (const auto& accumulator : state.in_flight) {
    bool same = accumulator->n == n, overlaps = false;
    for (u32 t = 0; t < kThreads; ++t) {
      const float* d = lane_of(group, t).d;
      const float* other = accumulator->registers[t];
      same &= d == other;
      overlaps |= d < other + accumulator->n / 2 && other < d + n / 2;
    }
    if (same) return accumulator;
    if (!overlaps) continue;
    runner.fault(FaultKind::kAccumulator, site,
                 "has an accumulator of {} columns in registers of the wgmma of {} columns at "
                 "{}:{}, which has not been waited for",
                 n, accumulator->n, accumulator->site.file, accumulator->site.line);
  }
  return nullptr;
}

std::shared_ptr<Accumulator> start_accumulator(Runner& runner, WarpgroupState& state,
                                               const Rendezvous& group, const WgmmaOperands& o,
                                               Site site) {
  auto accumulator = std::make_shared<Accumulator>();
  accumulator->n = o.n;
  accumulator->site = site;
  accumulator->values.resize(kRows * o.n);
  for (u32 t = 0; t < kThreads; ++t) {
    float* d = lane_of(group, t).d;
    accumulator->registers[t] = d;
    for (u32 i = 0; i < o.n / 2; ++i) {
      if (o.scale_d) {
        runner.use_register(std::bit_cast<u32>(d[i]), site);
        const Element e = wgmma_d_element(t, i);
        accumulator->values[e.row * o.n + e.column] = d[i];
      }
      d[i] = std::bit_cast<float>(kAccumulatorInFlight);
    }
  }
  state.in_flight.push_back(accumulator);
  return accumulator;
}

// Records the read of chunks by the warp of `thread`. The writes must be ordered before each of the
// four warps.
void read_chunks(Runner& runner, Thread& first, Thread& thread, llvm::ArrayRef<u32> chunks,
                 Site site) {
  std::vector<u32> sorted(chunks.begin(), chunks.end());
  std::sort(sorted.begin(), sorted.end());
  Cta& cta = *first.cta;
  const u32 component = cta.cluster->components.wgmma(first.number);
  for (size_t i = 0; i < sorted.size();) {
    size_t end = i + 1;
    while (end < sorted.size() && sorted[end] - sorted[end - 1] <= 16) ++end;
    const u32 bytes = sorted[end - 1] + 16 - sorted[i];
    const u32 offset = sorted[i] - runner.dynamic_smem();
    runner.shared_read(thread, {&cta, offset, cta.smem.data() + offset}, bytes, component,
                       first.wgmma.open, true, site);
    i = end;
  }
}

MatrixDescriptor read_descriptor(Runner& runner, u64 bits, const SharedTile& tile, const Cta& cta,
                                 const char* name, Site site) {
  const auto refuse = [&](Error error) {
    runner.fault(FaultKind::kDescriptor, site, "{} ({})", take_report(std::move(error)).message,
                 name);
  };
  Expected<MatrixDescriptor> descriptor = decode_descriptor(bits);
  if (!descriptor) {
    refuse(descriptor.takeError());
    return {};
  }
  const u32 begin = runner.dynamic_smem();
  const u32 end = begin + static_cast<u32>(cta.smem.size());
  if (Error error = check_descriptor(*descriptor, tile, begin, end)) refuse(std::move(error));
  return *descriptor;
}

// Runs on the last thread that arrives.
void issue_wgmma(Runner& runner, const Rendezvous& group, Site site) {
  const WgmmaOperands& o = *lane_of(group, 0).operands;
  Cta& cta = *runner.self().cta;
  Thread& first = cta.threads[group.first];
  check_uniform(runner, group, site);
  const u32 bytes = operand_bytes(o.number);
  IssuedWgmma wgmma{o.number,
                    o.scale_d,
                    {},
                    {},
                    {},
                    {kRows, bytes, o.trans_a},
                    {o.n, bytes, o.trans_b},
                    cta.smem.data(),
                    runner.dynamic_smem(),
                    nullptr};
  WarpgroupState* state = first.warpgroup.get();
  if (state != nullptr) wgmma.d = find_accumulator(runner, *state, group, o.n, site);
  if (wgmma.d == nullptr && (state == nullptr || !state->fenced)) {
    runner.fault(FaultKind::kAccumulator, site,
                 "starts to accumulate in registers with no wgmma_fence since the last wgmma_wait");
  }
  wgmma.b = read_descriptor(runner, o.b_descriptor, wgmma.b_tile, cta, "B", site);
  const std::vector<u32> b_chunks = chunk_addresses(wgmma.b, wgmma.b_tile);
  std::vector<u32> a_chunks;
  if (o.a_registers != nullptr) {
    check_a_fenced(runner, *state, group, site);
    std::array<const u32*, kThreads> registers;
    for (u32 t = 0; t < kThreads; ++t) registers[t] = lane_of(group, t).operands->a_registers;
    wgmma.a_values = wgmma_a_values(o.number, registers);
  } else {
    wgmma.a = read_descriptor(runner, o.a_descriptor, wgmma.a_tile, cta, "A", site);
    a_chunks = chunk_addresses(wgmma.a, wgmma.a_tile);
  }
  const size_t quarter = a_chunks.size() / 4;
  for (u32 warp = 0; warp < 4; ++warp) {
    Thread& thread = cta.threads[group.first + 32 * warp];
    read_chunks(runner, first, thread, llvm::ArrayRef(a_chunks).slice(warp * quarter, quarter),
                site);
    read_chunks(runner, first, thread, b_chunks, site);
  }
  if (wgmma.d == nullptr) wgmma.d = start_accumulator(runner, *state, group, o, site);
  wgmma.d->group = first.wgmma.open;
  for (u32 t = 0; t < kThreads; ++t) cta.threads[group.first + t].wgmma.add();
  runner.issue({Operation::Kind::kWgmma, &first, first.wgmma.open, nullptr, site,
                [wgmma = std::move(wgmma)] { run_wgmma(wgmma); }});
}

// Puts the values of accumulators whose last wgmma is in `group` or before into their registers.
void fill_registers(Runner& runner, WarpgroupState& state, const Rendezvous& rendezvous, Cta& cta,
                    u32 group, Site site) {
  for (const auto& accumulator : state.in_flight) {
    if (accumulator->group > group) continue;
    state.fenced = false;
    for (u32 t = 0; t < kThreads; ++t) {
      float* d = accumulator->registers[t];
      for (u32 i = 0; i < accumulator->n / 2; ++i) {
        if (std::bit_cast<u32>(d[i]) != kAccumulatorInFlight) {
          runner.fault(FaultKind::kAccumulator, site,
                       "waits for the wgmma at {}:{}, whose accumulator register {} thread {} has "
                       "written since",
                       accumulator->site.file, accumulator->site.line, i,
                       cta.threads[rendezvous.first + t].index);
        }
        const Element e = wgmma_d_element(t, i);
        d[i] = accumulator->values[e.row * accumulator->n + e.column];
      }
    }
  }
  std::erase_if(state.in_flight, [&](const auto& a) { return a->group <= group; });
}

}  // namespace

void Runner::wgmma_fence(Site site) {
  Cta& cta = *self().cta;
  converge_warpgroup(*this, site, nullptr, [&](Rendezvous& group) {
    std::unique_ptr<WarpgroupState>& state = cta.threads[group.first].warpgroup;
    if (state == nullptr) state = std::make_unique<WarpgroupState>();
    state->fenced = true;
    for (auto& loaded : state->loaded) loaded.clear();
  });
}

void Runner::wgmma(float* d, const WgmmaOperands& operands, Site site) {
  preempt();
  check_operands(*this, operands, site);
  for (u32 i = 0; operands.a_registers != nullptr && i < 4; ++i) {
    use_register(operands.a_registers[i], site);
  }
  WgmmaLane mine{d, &operands};
  converge_warpgroup(*this, site, &mine,
                     [&](Rendezvous& group) { issue_wgmma(*this, group, site); });
}

void Runner::wgmma_commit(Site site) {
  Cta& cta = *self().cta;
  converge_warpgroup(*this, site, nullptr, [&](Rendezvous& group) {
    for (u32 t = 0; t < kThreads; ++t) ++cta.threads[group.first + t].wgmma.open;
  });
}

void Runner::wgmma_wait(u32 pending, Site site) {
  preempt();
  Cta& cta = *self().cta;
  converge_warpgroup(*this, site, nullptr, [&](Rendezvous& rendezvous) {
    Thread& first = cta.threads[rendezvous.first];
    const u32 committed = first.wgmma.open - 1;
    if (committed <= pending + first.wgmma.done) return;
    const u32 group = committed - pending;
    complete_all(first, [&](const Operation& operation) {
      return operation.kind == Operation::Kind::kWgmma && operation.group <= group;
    });
    if (first.warpgroup != nullptr) {
      fill_registers(*this, *first.warpgroup, rendezvous, cta, group, site);
    }
    // All threads of the warpgroup know that its wgmmas have read their operands.
    auto stamp = std::make_shared<Stamp>();
    const u32 component = cta.cluster->components.wgmma(first.number);
    stamp->seen.resize(component + 1);
    stamp->seen[component] = group;
    for (u32 t = 0; t < kThreads; ++t) {
      Thread& thread = cta.threads[rendezvous.first + t];
      thread.wgmma.done = group;
      if (t != 0) thread.clock.acquire(stamp);
    }
    first.clock.finish_wgmma(group);
  });
}

}  // namespace catenary::sim
