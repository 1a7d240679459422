// SPDX-License-Identifier: Apache-2.0
#include "adapters/program/program.h"

#include <algorithm>
#include <charconv>

namespace catenary::adapters {
namespace {

// Never destroyed: a framework's threads may run while the process ends.
struct Table {
  std::mutex mutex;
  std::map<int64_t, std::shared_ptr<Program>> programs;
};
Table& table() {
  static Table& made = *new Table;
  return made;
}

// The engine of all programs, with the defaults of the environment.
const ctn::Engine& engine() {
  static const ctn::Engine& made = *new ctn::Engine;
  return made;
}

// The dtype has 8 bits or more.
int64_t element_bytes(ctn::DType dtype) {
  switch (dtype) {
    case ctn::DType::bf16:
    case ctn::DType::f16:
      return 2;
    case ctn::DType::f32:
    case ctn::DType::i32:
      return 4;
    case ctn::DType::i8:
    case ctn::DType::e4m3:
    case ctn::DType::e5m2:
    case ctn::DType::i4:
    case ctn::DType::u4:
      break;
  }
  return 1;
}

}  // namespace

int64_t chain_key(const ctn::Chain& chain) {
  const std::string digits = ctn::digest(chain);
  uint64_t bits = 0;
  std::from_chars(digits.data(), digits.data() + 16, bits, 16);
  return static_cast<int64_t>(bits >> 1);
}

std::shared_ptr<Program> Program::find(int64_t key, std::string_view text) {
  if (std::shared_ptr<Program> found = known(key)) return found;
  std::shared_ptr<Program> program = of(ctn::Chain::parse(text));
  if (program->key() == key) return program;
  throw std::invalid_argument("the chain has the key " + std::to_string(program->key()) +
                              ", and the call names " + std::to_string(key) +
                              ": use one version of the library to make and to run it");
}

std::shared_ptr<Program> Program::known(int64_t key) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().programs.find(key);
  return found == table().programs.end() ? nullptr : found->second;
}

std::shared_ptr<Program> Program::of(ctn::Chain chain) {
  std::shared_ptr<Program> program(new Program(std::move(chain)));
  const std::lock_guard lock(table().mutex);
  return table().programs.try_emplace(program->key(), program).first->second;
}

Program::Program(ctn::Chain chain)
    : chain_(std::move(chain)), key_(chain_key(chain_)), operands_(ctn::operands(chain_)) {
  std::vector<int> number;  // of each operand among the tensors
  for (const ctn::Operand& operand : operands_.operands) {
    number.push_back(static_cast<int>(tensors_.size()));
    if (!operand.is_output && operand.role == CTN_SCALAR) {
      ++num_scalars_;
      continue;
    }
    num_outputs_ += operand.is_output;
    tensors_.push_back(operand);
    if (operand.in_place) tensors_.back().in_place = number[*operand.in_place];
  }
}

int64_t Program::bytes(size_t i, int64_t symbol) const {
  const ctn::Operand& tensor = tensors_[i];
  const bool nibbles = tensor.dtype == ctn::DType::i4 || tensor.dtype == ctn::DType::u4;
  if (tensor.packed || nibbles) return tensor.bytes;
  int64_t last = 0;
  for (size_t d = 0; d < tensor.dims.size(); ++d) {
    const int64_t size = tensor.dims[d] == ctn::symbol ? symbol : tensor.dims[d];
    if (size == 0) return 0;
    last += (size - 1) * tensor.strides[d];
  }
  return (last + 1) * element_bytes(tensor.dtype);
}

const ctn::Executable& Program::on_device(int device) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<const ctn::Executable>& found = executables_[device];
  if (!found) found = std::make_unique<ctn::Executable>(engine().prepare(chain_, device));
  return *found;
}

void Program::run_on_host(Host host, std::span<void* const> tensors,
                          const std::vector<float>& scalars, int64_t symbol) {
  if (host == Host::kSimulator) {
    ctn::check(ctn_device_use_simulator());
    run_in_simulator(tensors, {.scalars = scalars, .symbol = symbol});
    return;
  }
  ctn_reference_args args{};
  args.struct_size = sizeof args;
  args.tensors = tensors.data();
  args.num_tensors = tensors.size();
  args.scalars = scalars.data();
  args.num_scalars = scalars.size();
  args.symbol = symbol;
  ctn::check(ctn_reference_run(chain_.get(), &args));
}

void Program::run_in_simulator(std::span<void* const> tensors, const ctn::LaunchOptions& options) {
  const ctn::Executable& executable = on_device(0);
  std::vector<ctn::Buffer> copies;
  std::vector<const void*> addresses;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const std::optional<int> in_place = tensors_[i].in_place;
    copies.emplace_back(0, in_place ? 0 : static_cast<size_t>(bytes(i, options.symbol)));
    // An output with gaps keeps what the caller has between its elements.
    if (!in_place && tensors[i] != nullptr) copies.back().upload(tensors[i]);
    addresses.push_back(in_place ? addresses[*in_place] : copies.back().get());
  }
  const ctn::Buffer workspace(0, static_cast<size_t>(executable.workspace_bytes()));
  ctn::LaunchOptions launch = options;
  launch.workspace = workspace.get();
  const ctn::Stream stream(0);
  executable.launch(stream.get(), addresses, launch);
  stream.synchronize();
  for (size_t i = tensors_.size() - num_outputs_; i < tensors_.size(); ++i) {
    const size_t from = tensors_[i].in_place ? *tensors_[i].in_place : i;
    if (copies[from].bytes() > 0) copies[from].download(tensors[i]);
  }
}

}  // namespace catenary::adapters
