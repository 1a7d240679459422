// SPDX-License-Identifier: Apache-2.0
// Chains of the process for adapters that hand over a chain as text: found by key, prepared once
// per device, run on device memory or on host memory. A client of the C ABI; knows no framework.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catenary/facts.hpp"

namespace catenary::adapters {

// How a chain runs on host memory.
enum class Host : int { kReference = 0, kSimulator = 1 };

// The first 63 bits of the chain's digest: Chain.key of the Python package.
int64_t chain_key(const ctn::Chain& chain);

class Program {
 public:
  // The program of a key; `text` is parsed if the process does not have it. Throws ctn::Error; also
  // if the text is of another key.
  static std::shared_ptr<Program> find(int64_t key, std::string_view text);
  static std::shared_ptr<Program> of(ctn::Chain chain);
  // Null: the process does not have it.
  static std::shared_ptr<Program> known(int64_t key);

  // All parameters in order, then the outputs, and the symbol.
  const ctn::Operands& operands() const { return operands_; }

  // The tensor parameters in order, then the outputs.
  const std::vector<ctn::Operand>& tensors() const { return tensors_; }
  size_t num_outputs() const { return num_outputs_; }
  size_t num_scalars() const { return num_scalars_; }
  int64_t key() const { return key_; }

  // Bytes of tensor `i` in memory where the symbol is `symbol`: from its first element to its last,
  // with the padding of a packed layout.
  int64_t bytes(size_t i, int64_t symbol) const;

  // Loaded on a device; compiles on the first call. Throws ctn::Error.
  const ctn::Executable& on_device(int device);

  // Runs on host addresses of tensors(). Throws ctn::Error.
  void run_on_host(Host host, std::span<void* const> tensors, const std::vector<float>& scalars,
                   int64_t symbol);

 private:
  explicit Program(ctn::Chain chain);
  void run_in_simulator(std::span<void* const> tensors, const ctn::LaunchOptions& options);

  ctn::Chain chain_;
  int64_t key_ = 0;
  ctn::Operands operands_;
  std::vector<ctn::Operand> tensors_;
  size_t num_outputs_ = 0;
  size_t num_scalars_ = 0;
  std::mutex mutex_;  // of executables_
  std::map<int, std::unique_ptr<const ctn::Executable>> executables_;
};

}  // namespace catenary::adapters
