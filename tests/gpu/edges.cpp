// SPDX-License-Identifier: Apache-2.0
// PDL between kernels. Each link (a chain of a family) runs as a graph of many launches with
// programmatic edges; its bytes must equal those of launches without PDL. A handwritten kernel
// between links triggers at once, stalls, and only then reads and writes: a link that does anything
// but read weights before its dependency wait gives other bytes. A control, with a kernel that
// waits too late in place of the link, shows how reliably this is found.
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "compiler/compile/host_compiler.h"
#include "compiler/compile/nvrtc.h"
#include "runtime/driver/simulated_launch.h"
#include "runtime/loaded_kernel.h"
#include "tests/gpu/bound_chain.h"
#include "tests/gpu/captured_graph.h"

namespace catenary::gpu_suite {
namespace {

constexpr int kLaunches = 100;
// About 100 us of an H200's clock. In the simulator the schedule is the stall.
constexpr i64 kStallCycles = 180'000;
constexpr unsigned kStallCtas = 4;
constexpr unsigned kStallThreads = 128;

// Copies `words` words. griddepcontrol.launch_dependents comes first: when all CTAs have executed
// it, the next kernel may start (PTX ISA 9.7.13.13). It executes the wait, so that a wait for this
// kernel is also one for all previous ones; if `hasty`, only after the copy.
constexpr const char* kStallSource =
    "#include \"ptx/global.cuh\"\n"
    "#include \"ptx/sync.cuh\"\n"
    "struct P { const unsigned* from; unsigned* to; long long words, cycles, hasty; };\n"
    "extern \"C\" __global__ void stall(const __grid_constant__ P p) {\n"
    "  catenary::griddepcontrol_launch_dependents();\n"
    "  if (!p.hasty) catenary::griddepcontrol_wait();\n"
    "#ifdef __CUDACC_RTC__\n"
    "  const long long start = clock64();\n"
    "  while (clock64() - start < p.cycles) {}\n"
    "#endif\n"
    "  const long long threads = gridDim.x * blockDim.x;\n"
    "  for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < p.words; i += threads) {\n"
    "    catenary::st_global_u32(p.to + i, catenary::ld_global_u32(p.from + i));\n"
    "  }\n"
    "  if (p.hasty) catenary::griddepcontrol_wait();\n"
    "}\n";
struct StallParameters {
  u64 from;
  u64 to;
  i64 words;
  i64 cycles;
  i64 hasty;
};

// A tensor of `bytes` bytes, as words, of the handwritten kernel.
cuda::SimulatedTensor tensor(const char* name, sim::RegionRole role, u64 begin, i64 bytes) {
  cuda::SimulatedTensor tensor;
  tensor.region.name = name;
  tensor.region.role = role;
  tensor.region.begin = begin;
  tensor.region.bytes = bytes;
  tensor.layout.dtype = DType::kI32;
  tensor.layout.shape = {Dim{bytes / 4, false}};
  tensor.layout.strides = {1};
  return tensor;
}

enum class Kind { kLink, kStall, kHasty };

// The handwritten kernel, compiled for the device.
class Stall {
 public:
  static Expected<CompileResult> compile(Suite& suite) {
    const CompileJob job{{"stall", "", kStallSource}, suite.target().arch, {}};
    if (suite.simulated()) {
      Expected<const HostCompiler*> host = HostCompiler::get();
      return host ? (*host)->compile(job) : Expected<CompileResult>(host.takeError());
    }
    Expected<const Nvrtc*> nvrtc = Nvrtc::get();
    return nvrtc ? (*nvrtc)->compile(job) : Expected<CompileResult>(nvrtc.takeError());
  }

  static Expected<Stall> load(Suite& suite) {
    Expected<CompileResult> compiled = compile(suite);
    if (!compiled) return compiled.takeError();
    auto loaded = LoadedKernel::load(suite.driver(), compiled->cubin, 0);
    if (!loaded) return loaded.takeError();
    return Stall(std::move(*loaded));
  }

  Error launch(Suite& suite, Kind kind, u64 from, u64 to, i64 bytes, bool overlap) const {
    const bool hasty = kind == Kind::kHasty;
    StallParameters parameters{from, to, bytes / 4, hasty ? 0 : kStallCycles, hasty};
    cuda::LaunchAttribute attributes[2] = {};
    unsigned count = 0;
    if (overlap) {
      attributes[count].id = cuda::kAttributeProgrammaticStreamSerialization;
      attributes[count++].value.programmatic_stream_serialization_allowed = 1;
    }
    cuda::SimulatedLaunch facts;
    if (suite.simulated()) {
      facts.parameter_bytes = sizeof parameters;
      facts.first_of_chain = true;
      facts.tensors.push_back(tensor("from", sim::RegionRole::kInput, from, bytes));
      facts.tensors.push_back(tensor("to", sim::RegionRole::kOutput, to, bytes));
      attributes[count].id = cuda::kAttributeSimulatedLaunch;
      attributes[count++].value.pointer = &facts;
    }
    const cuda::LaunchConfig config{kStallCtas,     1,          1,    kStallThreads, 1, 1, 0,
                                    suite.stream(), attributes, count};
    void* block[] = {&parameters};
    return suite.check(suite.api().launch_kernel_ex(&config, loaded_->function(), block, nullptr),
                       "launching the stalling kernel");
  }

 private:
  explicit Stall(std::shared_ptr<const LoadedKernel> loaded) : loaded_(std::move(loaded)) {}

  std::shared_ptr<const LoadedKernel> loaded_;
};

// One launch: which slot of the arena it reads, and which it writes.
struct Step {
  Kind kind = Kind::kLink;
  int from = 0;
  int to = 0;
};

// A sequence of launches over an arena of equal slots; the first `sources` hold data, the others
// poison.
struct Sequence {
  const char* name = "";
  int slots = 0;
  int sources = 1;
  std::vector<Step> steps;
};

// Each launch has its own output, which the next one reads.
Sequence own_outputs(int launches) {
  Sequence sequence{"own outputs", launches + 1, 1, {}};
  for (int i = 0; i < launches; ++i) sequence.steps.push_back({Kind::kLink, i, i + 1});
  return sequence;
}

// The same, but every other launch stalls before it writes the input of the next one.
Sequence stalled_producer(int launches) {
  Sequence sequence = own_outputs(launches);
  sequence.name = "a stalled producer";
  for (int i = 0; i < launches; i += 2) sequence.steps[i].kind = Kind::kStall;
  return sequence;
}

// Two slots: each launch overwrites the input of the previous one.
Sequence ping_pong(int launches) {
  Sequence sequence{"ping-pong", 2, 2, {}};
  for (int i = 0; i < launches; ++i) sequence.steps.push_back({Kind::kLink, i % 2, 1 - i % 2});
  return sequence;
}

// A stalled producer whose successor waits too late.
Sequence control(int launches) {
  Sequence sequence = stalled_producer(launches);
  sequence.name = "a control";
  for (int i = 1; i < launches; i += 2) sequence.steps[i].kind = Kind::kHasty;
  return sequence;
}

// A stalled reader of slot 0, which the next launch overwrites: only the dependency wait orders the
// two.
Sequence stalled_reader(int launches) {
  const int pairs = launches / 2;
  Sequence sequence{"a stalled reader", 1 + 2 * pairs, 1 + pairs, {}};
  for (int i = 0; i < pairs; ++i) {
    sequence.steps.push_back({Kind::kStall, 0, 1 + pairs + i});
    sequence.steps.push_back({Kind::kLink, 1 + i, 0});
  }
  return sequence;
}

// A chain whose output may be its next input.
struct Link {
  const char* name;
  std::string chain;
  PlanOptions plan;
};

std::vector<Link> links(bool simulated) {
  const i64 w = simulated ? 128 : 1024;
  const std::string scale = simulated ? "0.08" : "0.03";  // keeps sums over K = w below 1
  const auto linear = [&](i64 m, const char* extra, const std::string& body) {
    return fmt::format(
        "chain link(input x: bf16[{0}, {1}], weight w: bf16[{1}, {1}]{2}) {{\n{3}"
        "  return y: bf16\n}}\n",
        m, w, extra, body);
  };
  const auto alone = [&](i64 m, const char* body) {
    return fmt::format("chain link(input x: bf16[{}, {}]) {{\n{}  return y: bf16\n}}\n", m, w,
                       body);
  };
  const std::string product = "  h = contract \"mk,nk->mn\"(x, w)\n";
  const std::string tanh = product + "  y = tanh(mul(h, " + scale + "))\n";
  const std::string bias = fmt::format(", weight b: bf16[{}]", w);
  const std::string gated = fmt::format(", weight u: bf16[{0}, {0}], weight d: bf16[{0}, {0}]", w);
  std::vector<Link> links = {
      {"linear, M = 1", linear(1, "", tanh), {}},
      {"linear with bias and SiLU, M = 16",
       linear(16, bias.c_str(), product + "  y = silu(add(mul(h, " + scale + "), b))\n"),
       {}},
      {"linear, M = 64", linear(64, "", tanh), {}},
      {"linear, split-K, M = 8", linear(8, "", tanh), {}},
      {"gated MLP, M = 7",
       linear(7, gated.c_str(),
              product + "  v = contract \"mk,nk->mn\"(x, u)\n  a = cast(tanh(mul(mul(h, v), " +
                  scale + ")), bf16)\n  z = contract \"mk,nk->mn\"(a, d)\n  y = tanh(mul(z, " +
                  scale + "))\n"),
       {}},
      {"pointwise, M = 13", alone(13, "  p = tanh(x)\n  y = add(mul(p, 0.5), 0.25)\n"), {}},
      {"column sums, M = 48",
       alone(48, "  s = sum \"mn->n\"(x)\n  y = tanh(add(x, mul(s, 0.1)))\n"),
       {}}};
  links[3].plan.split_k = 4;
  return links;
}

// Device memory for the sequences of one link.
class Runner {
 public:
  Runner(Suite& suite, const Stall& stall, BoundChain& chain)
      : suite_(suite), stall_(stall), chain_(chain), slot_bytes_(chain.tensor_bytes(0)) {}

  Error prepare(const Sequence& sequence);
  // The arena's bytes after eager launches without PDL.
  Expected<std::vector<u8>> plain(const Sequence& sequence);
  // `replays` of a graph with programmatic edges must give `expected`.
  Error replay(const Sequence& sequence, int replays, const std::vector<u8>& expected);

 private:
  u64 slot(int i) const { return arena_.get() + static_cast<u64>(i * slot_bytes_); }
  Error reset();
  Error launch(const Sequence& sequence, bool overlap);
  Expected<std::vector<u8>> read();

  Suite& suite_;
  const Stall& stall_;
  BoundChain& chain_;
  i64 slot_bytes_;
  cuda::DeviceBuffer arena_, pristine_;
};

Error Runner::prepare(const Sequence& sequence) {
  const i64 bytes = sequence.slots * slot_bytes_;
  for (cuda::DeviceBuffer* buffer : {&arena_, &pristine_}) {
    Expected<cuda::DeviceBuffer> made = cuda::DeviceBuffer::allocate(bytes);
    if (!made) return made.takeError();
    *buffer = std::move(*made);
  }
  std::vector<std::byte> start(static_cast<size_t>(bytes), std::byte{0xff});
  TensorType type;
  type.dtype = DType::kBF16;
  type.shape = {Dim{sequence.sources * slot_bytes_ / 2, false}};
  type.strides = {1};
  const auto data = static_cast<size_t>(sequence.sources * slot_bytes_);
  fill_tensor(type, llvm::MutableArrayRef(start.data(), data), Fill{FillKind::kNormal, 11});
  if (Error error = pristine_.upload(start.data(), bytes)) return error;
  return suite_.check(suite_.api().ctx_synchronize(), "waiting for uploads");
}

Error Runner::reset() {
  return suite_.check(
      suite_.api().memcpy_dtod_async(arena_.get(), pristine_.get(),
                                     static_cast<size_t>(arena_.bytes()), suite_.stream()),
      "resetting the arena");
}

Error Runner::launch(const Sequence& sequence, bool overlap) {
  bool first = true;
  for (const Step& step : sequence.steps) {
    const bool overlaps = overlap && !first;
    first = false;
    if (step.kind != Kind::kLink) {
      if (Error error = stall_.launch(suite_, step.kind, slot(step.from), slot(step.to),
                                      slot_bytes_, overlaps)) {
        return error;
      }
      continue;
    }
    chain_.tensors()[0] = reinterpret_cast<void*>(slot(step.from));
    chain_.tensors()[chain_.first_output()] = reinterpret_cast<void*>(slot(step.to));
    LaunchArguments arguments = chain_.arguments(suite_.stream());
    arguments.allow_pdl = overlaps;
    arguments.disable_pdl = !overlap;
    if (Error error = chain_.executable().launch(arguments)) return error;
  }
  return Error::success();
}

Expected<std::vector<u8>> Runner::read() {
  if (Error error = suite_.check(suite_.api().stream_synchronize(suite_.stream()), "waiting")) {
    return error;
  }
  std::vector<u8> bytes(static_cast<size_t>(arena_.bytes()));
  if (Error error = arena_.download(bytes.data(), arena_.bytes())) return error;
  return bytes;
}

Expected<std::vector<u8>> Runner::plain(const Sequence& sequence) {
  if (Error error = suite_.reschedule()) return error;
  if (Error error = reset()) return error;
  if (Error error = launch(sequence, false)) return error;
  return read();
}

Error Runner::replay(const Sequence& sequence, int replays, const std::vector<u8>& expected) {
  CapturedGraph graph(suite_);
  if (Error error = graph.capture([&] { return launch(sequence, true); })) return error;
  for (int replay = 0; replay < replays; ++replay) {
    if (Error error = reset()) return error;
    if (Error error = graph.launch()) return error;
    Expected<std::vector<u8>> got = read();
    if (!got) return got.takeError();
    if (*got == expected) continue;
    const auto at = std::mismatch(got->begin(), got->end(), expected.begin()).first - got->begin();
    return make_error(ErrorCode::kMismatch,
                      "replay {} differs from launches without PDL first in slot {}, byte {}",
                      replay, at / slot_bytes_, at % slot_bytes_);
  }
  return Error::success();
}

// Poison that is left would make two runs equal that did nothing.
Error check_written(const Sequence& sequence, const std::vector<u8>& bytes, i64 slot_bytes) {
  for (const Step& step : sequence.steps) {
    const auto* begin = bytes.data() + step.to * slot_bytes;
    for (i64 i = 0; i < slot_bytes / 2; ++i) {
      u16 element = 0;
      std::memcpy(&element, begin + 2 * i, 2);
      if (element == 0xffff) {
        return make_error(ErrorCode::kMismatch,
                          "launches without PDL left element {} of slot {} unwritten", i, step.to);
      }
    }
  }
  return Error::success();
}

Error check_link(Suite& suite, const Stall& stall, const Link& link,
                 const std::vector<Sequence>& sequences, int replays) {
  auto chain = BoundChain::make(suite, link.chain, 0, FillKind::kNormal, 5, link.plan);
  if (!chain) return chain.takeError();
  for (const Sequence& sequence : sequences) {
    Runner runner(suite, stall, *chain);
    const auto problem = [&](Error error) {
      const ErrorReport report = take_report(std::move(error));
      return make_error(report.code, "{}, {}: {}", link.name, sequence.name, report.message);
    };
    if (Error error = runner.prepare(sequence)) return problem(std::move(error));
    Expected<std::vector<u8>> expected = runner.plain(sequence);
    if (!expected) return problem(expected.takeError());
    if (Error error = check_written(sequence, *expected, chain->tensor_bytes(0))) {
      return problem(std::move(error));
    }
    if (Error error = runner.replay(sequence, replays, *expected)) return problem(std::move(error));
  }
  return Error::success();
}

// A fault in the simulator abandons fibers with the memory that their frames own
// (simulator/DESIGN.md): not a leak while this object exists.
struct FaultsExpected {
#if defined(__SANITIZE_ADDRESS__)
  FaultsExpected() { __lsan_disable(); }
  FaultsExpected(const FaultsExpected&) = delete;
  FaultsExpected& operator=(const FaultsExpected&) = delete;
  ~FaultsExpected() { __lsan_enable(); }
#endif
};

// The control: in the simulator it must be a named fault; on a device its bytes differ if the
// kernels overlapped, which is only reported, since CUDA does not guarantee it.
Error check_control(Suite& suite, const Stall& stall, const Link& link, int launches) {
  constexpr int kReplays = 20;
  auto chain = BoundChain::make(suite, link.chain, 0, FillKind::kNormal, 5, link.plan);
  if (!chain) return chain.takeError();
  const Sequence correct = stalled_producer(launches);
  Sequence plain = correct;
  for (Step& step : plain.steps) step.kind = Kind::kStall;
  Runner runner(suite, stall, *chain);
  if (Error error = runner.prepare(correct)) return error;
  Expected<std::vector<u8>> expected = runner.plain(plain);
  if (!expected) return expected.takeError();
  int seen = 0;
  ErrorReport report;
  [[maybe_unused]] const FaultsExpected scope;
  for (int i = 0; i < kReplays; ++i) {
    Error error = runner.replay(control(launches), 1, *expected);
    if (!error) continue;
    report = take_report(std::move(error));
    const bool named = report.code == ErrorCode::kSimulatorFault &&
                       report.message.find("[before_dependency_wait") != std::string::npos;
    if (suite.simulated() ? !named : report.code != ErrorCode::kMismatch) {
      return make_error_text(report.code, report.message);
    }
    ++seen;
  }
  suite.progress(fmt::format("edges: {} of {} replays of a control that waits too late are found",
                             seen, kReplays),
                 true);
  if (!suite.simulated() || seen == kReplays) return Error::success();
  return make_error(ErrorCode::kMismatch, "a kernel that waits too late passed in the simulator");
}

}  // namespace

Error run_edges(Suite& suite) {
  const std::vector<Link> all = links(suite.simulated());
  if (suite.options().rehearse) {
    // Without a device, compile the handwritten kernel and plan the chains.
    Expected<CompileResult> compiled = Stall::compile(suite);
    if (!compiled) return compiled.takeError();
    for (const Link& link : all) {
      auto chain = BoundChain::make(suite, link.chain, 0, FillKind::kNormal, 5, link.plan);
      if (!chain) return chain.takeError();
    }
    return Error::success();
  }
  // The simulator runs short sequences under several schedules, and the full length once.
  const int launches = suite.simulated() ? 8 : kLaunches;
  const int replays = suite.simulated() ? 3 : 200;
  Expected<Stall> stall = Stall::load(suite);
  if (!stall) return stall.takeError();
  if (Error error = check_control(suite, *stall, all.front(), launches)) return error;
  if (suite.simulated()) {
    const std::vector<Sequence> whole = {own_outputs(kLaunches), stalled_producer(kLaunches)};
    if (Error error = check_link(suite, *stall, all.front(), whole, 1)) return error;
  }
  const std::vector<Sequence> sequences = {own_outputs(launches), stalled_producer(launches),
                                           ping_pong(launches), stalled_reader(launches)};
  for (const Link& link : all) {
    if (Error error = check_link(suite, *stall, link, sequences, replays)) return error;
    suite.progress(
        fmt::format("edges: {}: {} launches, {} replays of {} sequences equal to those without PDL",
                    link.name, launches, replays, sequences.size()),
        true);
  }
  return Error::success();
}

}  // namespace catenary::gpu_suite
