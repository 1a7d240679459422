// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sim_chain.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "compiler/emit/emit.h"
#include "ir/reference/compare.h"
#include "ir/text/text.h"
#include "runtime/executable.h"
#include "simulator/model/tensor_map.h"
#include "tests/support/prefer_family.h"

namespace catenary::testing {
namespace {

// Row-major index -> offset in elements.
i64 element_offset(const TensorType& type, i64 index) {
  i64 offset = 0;
  for (int d = type.rank() - 1; d >= 0; --d) {
    offset += index % type.shape[d].size * type.strides[d];
    index /= type.shape[d].size;
  }
  return offset;
}

// The kernel, compiled once by the process's compiler: many cases differ only in data or schedules.
// A compiler over other headers compiles every time.
Expected<std::shared_ptr<const sim::Object>> compiled_object(const HostCompiler& compiler,
                                                             const CompileJob& job) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const sim::Object>> known;
  bool keep = false;
  if (auto shared = HostCompiler::get()) {
    keep = *shared == &compiler;
  } else {
    llvm::consumeError(shared.takeError());
  }
  const std::string key = job.arch + "\n" + job.source.symbol + "\n" + job.source.body;
  if (keep) {
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(key); it != known.end()) return it->second;
  }
  auto compiled = compiler.compile(job);
  if (!compiled) return compiled.takeError();
  auto object = sim::Object::load(compiled->cubin.image);
  if (object && keep) {
    const std::lock_guard lock(mutex);
    known.emplace(key, *object);
  }
  return object;
}

}  // namespace

SimulatedOutcome outcome_of(Error error) {
  const ErrorReport report = take_report(std::move(error));
  if (report.code == ErrorCode::kOk) return {};
  if (report.code != ErrorCode::kSimulatorFault) {
    return {error_code_name(report.code), report.message};
  }
  // "... [race: the rule; seed 3]"
  const size_t begin = report.message.rfind(" [");
  if (begin == std::string::npos) return {"unnamed", report.message};
  const size_t end = report.message.find(':', begin);
  return {report.message.substr(begin + 2, end - begin - 2), report.message};
}

// Device memory of one run. Addresses are 0 where a tensor has no bytes.
struct SimulatedChain::Buffers {
  struct Tensor {
    u64 begin = 0;
    i64 bytes = 0;
  };
  std::vector<Tensor> parameters;  // scalars have none
  std::vector<Tensor> outputs;
  Tensor workspace;
};

Expected<SimulatedChain> SimulatedChain::make(const std::string& text,
                                              SimulatedChainOptions options) {
  Expected<Chain> parsed = parse(text);
  if (!parsed) return parsed.takeError();
  Expected<VerifiedChain> verified = verify(std::move(*parsed));
  if (!verified) return verified.takeError();
  SimulatedChain chain(std::move(*verified), std::move(options));
  if (Error error = chain.compile()) return error;
  if (Error error = chain.fill()) return error;
  return chain;
}

Error SimulatedChain::compile() {
  Expected<Target> target = find_target(options_.target);
  if (!target) return target.takeError();
  if (options_.sm_count != 0) target->sm_count = options_.sm_count;
  if (!options_.family.empty()) {
    options_.plan = prefer_family(chain_, *target, options_.family, options_.plan);
  }
  Expected<Plan> plan = make_plan(chain_, *target, options_.plan);
  if (!plan) return plan.takeError();
  plan_ = std::move(*plan);
  bucket_ = find_bucket(plan_, options_.symbol);
  if (bucket_ < 0) {
    return make_error(ErrorCode::kInvalidArgument, "{} is no size of chain '{}'", options_.symbol,
                      chain_.chain().name);
  }
  if (options_.compiler == nullptr) {
    Expected<const HostCompiler*> found = HostCompiler::get();
    if (!found) return found.takeError();
    options_.compiler = *found;
  }
  for (const KernelPlan& kernel : plan_.buckets[bucket_].kernels) {
    auto object =
        compiled_object(*options_.compiler, {emit(chain_, plan_, kernel), plan_.target.arch, {}});
    if (!object) return object.takeError();
    objects_.push_back(std::move(*object));
  }
  return Error::success();
}

void SimulatedChain::plant_nan(i64 ragged_size) {
  for (size_t p = 0; p < chain_.parameters().size(); ++p) {
    const TensorType type = with_symbol(chain_.info(chain_.parameters()[p]).type, options_.symbol);
    if (type.dtype == DType::kI32 || type.rank() == 0 || type.shape[0].size != ragged_size)
      continue;
    const i64 row = type.strides[0] * dtype_bytes(type.dtype);
    const i64 bytes = static_cast<i64>(data_.buffers[p].size());
    for (const auto& [begin, end] : options_.nan_rows) {
      const i64 from = std::min(begin * row, bytes);
      // 0xff bytes are a NaN in every format.
      std::memset(data_.buffers[p].data() + from, 0xff,
                  static_cast<size_t>(std::min(end * row, bytes) - from));
    }
  }
}

Error SimulatedChain::fill() {
  data_ = fill_chain(chain_, options_.symbol, options_.fill, options_.data_seed);
  for (size_t p = 0; p < chain_.parameters().size(); ++p) {
    const auto size = ragged_size(chain_, chain_.parameters()[p], options_.symbol);
    if (!size) continue;
    plant_nan(*size);
    auto* seen = reinterpret_cast<i32*>(data_.buffers[p].data());
    std::vector<i32>& ends = ends_[p];
    ends.assign(seen, seen + data_.buffers[p].size() / sizeof(i32));
    if (options_.ends.size() != ends.size()) continue;
    ends = options_.ends;
    i32 last = 0;
    for (size_t g = 0; g < ends.size(); ++g) {
      last = std::clamp(ends[g], last, std::max(last, static_cast<i32>(*size)));
      seen[g] = last;
    }
  }
  Expected<Reference> reference = Reference::create(chain_, data_.inputs);
  if (!reference) return reference.takeError();
  expected_ = reference->evaluate(/*threads=*/1);
  return Error::success();
}

Error SimulatedChain::set_ends(std::vector<i32> ends) {
  options_.ends = std::move(ends);
  return fill();
}

sim::Region SimulatedChain::region(const SlotBinding& slot, const Buffers& buffers) const {
  if (slot.kind == SlotBinding::Kind::kWorkspace) {
    return {"workspace", sim::RegionRole::kWorkspace, buffers.workspace.begin,
            buffers.workspace.bytes};
  }
  const bool output = slot.kind == SlotBinding::Kind::kOutput;
  const Buffers::Tensor& tensor =
      output ? buffers.outputs[slot.index] : buffers.parameters[slot.index];
  const Role role = output ? Role::kInput : chain_.value(chain_.parameters()[slot.index]).role;
  const bool weight = role == Role::kWeight && !options_.weights_as_inputs;
  return {slot.name,
          output   ? sim::RegionRole::kOutput
          : weight ? sim::RegionRole::kWeight
                   : sim::RegionRole::kInput,
          tensor.begin, tensor.bytes};
}

sim::Launch SimulatedChain::launch(size_t number, const Buffers& buffers, u64 seed) const {
  const PlanBucket& bucket = plan_.buckets[bucket_];
  const KernelPlan& plan = bucket.kernels[number];
  sim::Launch launch;
  launch.object = objects_[number];
  launch.kernel = plan.symbol;
  launch.ctas = static_cast<u32>(plan.grid.ctas(options_.symbol));
  launch.threads = static_cast<u32>(plan.threads);
  launch.smem_bytes = static_cast<u32>(plan.smem_bytes);
  launch.overlap = number > 0 && bucket.pdl[number];
  launch.cluster_ctas = static_cast<u32>(plan.cluster);
  // Params of templates/shared/params.h: maps, pointers, the symbol, the PDL flag, scalars.
  const size_t pointers = std::max<size_t>(plan.slots.size(), 1);
  const auto scalars = static_cast<i64>(plan.scalars.size());
  launch.parameters.resize(static_cast<size_t>(
      params_bytes(static_cast<i64>(pointers), scalars, static_cast<i64>(plan.maps.size()))));
  for (size_t i = 0; i < plan.maps.size(); ++i) {
    const SlotBinding& slot = plan.slots[plan.maps[i].slot];
    const u64 base = region(slot, buffers).begin + static_cast<u64>(slot.workspace_offset);
    const auto spec = bind_map(plan.maps[i]).at(base, options_.symbol);
    if (!spec) continue;
    const TensorMap map = sim::encode_tensor_map(*spec);
    std::memcpy(launch.parameters.data() + i * sizeof map, &map, sizeof map);
  }
  std::byte* to = launch.parameters.data() + plan.maps.size() * sizeof(TensorMap);
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    sim::Region from = region(plan.slots[i], buffers);
    const u64 address = from.begin + static_cast<u64>(plan.slots[i].workspace_offset);
    std::memcpy(to + 8 * i, &address, 8);
    if (from.bytes > 0) launch.regions.push_back(std::move(from));
  }
  std::memcpy(to + 8 * pointers, &options_.symbol, 8);
  const u32 pdl = number > 0 ? launch.overlap : seed % 2;
  std::memcpy(to + 8 * pointers + 8, &pdl, 4);
  for (size_t i = 0; i < plan.scalars.size(); ++i) {
    std::memcpy(to + 8 * pointers + 12 + 4 * i, data_.buffers[plan.scalars[i]].data(), 4);
  }
  return launch;
}

SimulatedOutcome SimulatedChain::check_output(int i, const Buffers& buffers,
                                              sim::Memory& memory) const {
  const TensorType type = with_symbol(chain_.output_type(i), options_.symbol);
  const Buffers::Tensor& tensor = buffers.outputs[i];
  if (tensor.bytes == 0) return {};
  const std::string& name = chain_.value(chain_.chain().outputs[i].value).name;
  const auto* data = reinterpret_cast<const std::byte*>(tensor.begin);
  const sim::Allocation& allocation = *memory.find(data, tensor.bytes);
  for (i64 e = 0; e < num_elements(type); ++e) {
    const i64 at = element_offset(type, e) * dtype_bytes(type.dtype);
    if (!allocation.written[static_cast<size_t>(at / sim::kGranule)]) {
      return {"unwritten_output",
              fmt::format("Element {} of '{}' was not written by any kernel", e, name)};
    }
  }
  const bool exact = options_.fill == FillKind::kExactInteger && chain_is_exact(chain_);
  const CompareResult result =
      compare(type, data, expected_[i], exact ? CompareMode::kExact : CompareMode::kInterval);
  if (result.ok()) return {};
  return {"mismatch", fmt::format("'{}' has {}", name, to_string(result))};
}

// The position of the parameter whose memory output `i` takes, if it does.
std::optional<int> SimulatedChain::memory_of_output(int i) const {
  for (const auto& [output, position] : options_.aliases) {
    if (output == i) return position;
  }
  const ValueId input = chain_.chain().outputs[i].in_place;
  if (input < 0) return std::nullopt;
  return static_cast<int>(llvm::find(chain_.parameters(), input) - chain_.parameters().begin());
}

SimulatedOutcome SimulatedChain::run(u64 seed) const {
  sim::Memory memory;
  Buffers buffers;
  const auto allocate = [&](i64 bytes, const void* from) -> Buffers::Tensor {
    if (bytes == 0) return {};
    void* address = memory.allocate(bytes);
    if (from != nullptr) {
      std::memcpy(address, from, static_cast<size_t>(bytes));
      memory.mark(address, bytes, true);
    }
    return {reinterpret_cast<u64>(address), bytes};
  };
  for (size_t p = 0; p < chain_.parameters().size(); ++p) {
    const ValueId id = chain_.parameters()[p];
    if (chain_.value(id).role == Role::kScalar) {
      buffers.parameters.emplace_back();
      continue;
    }
    const auto ends = ends_.find(p);
    const void* from = ends != ends_.end() ? static_cast<const void*>(ends->second.data())
                                           : data_.buffers[p].data();
    buffers.parameters.push_back(
        allocate(span_bytes(with_symbol(chain_.info(id).type, options_.symbol)), from));
  }
  const int outputs = static_cast<int>(chain_.chain().outputs.size());
  for (int i = 0; i < outputs; ++i) {
    if (const auto position = memory_of_output(i)) {
      buffers.outputs.push_back(buffers.parameters[*position]);
      continue;
    }
    buffers.outputs.push_back(
        allocate(span_bytes(with_symbol(chain_.output_type(i), options_.symbol)), nullptr));
  }
  buffers.workspace = allocate(plan_.workspace_bytes, nullptr);

  std::vector<sim::Launch> launches;
  for (size_t k = 0; k < objects_.size(); ++k) {
    launches.push_back(launch(k, buffers, seed));
    if (launches.back().ctas == 0) launches.pop_back();
  }
  sim::SimulatorOptions options;
  options.seed = seed;
  if (Error error = sim::simulate(memory, launches, options)) return outcome_of(std::move(error));
  for (int i = 0; i < outputs; ++i) {
    SimulatedOutcome outcome = check_output(i, buffers, memory);
    if (!outcome.name.empty()) return outcome;
  }
  return {};
}

}  // namespace catenary::testing
