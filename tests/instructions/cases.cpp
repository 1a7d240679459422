// SPDX-License-Identifier: Apache-2.0
#include "tests/instructions/cases.h"

#include <cmath>

#include "compiler/compile/templates.h"
#include "shared/params.h"
#include "tests/instructions/bytes.h"

namespace catenary {

// The .cu files of this folder (cmake/Embed.cmake).
llvm::ArrayRef<EmbeddedTemplate> embedded_instructions();

namespace instructions {

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> all;
    add_memory_cases(all);
    add_number_cases(all);
    add_matrix_cases(all);
    add_order_cases(all);
    add_bulk_cases(all);
    add_tma_cases(all);
    add_wgmma_cases(all);
    add_gemm_cases(all);
    add_unmapped_cases(all);  // a device that faults is lost for the rest
    return all;
  }();
  return cases;
}

KernelSource source_of(const Case& from) {
  KernelSource source;
  source.symbol = from.kernel;
  for (const EmbeddedTemplate& file : embedded_instructions()) {
    if (from.file == file.name) source.body = file.text;
  }
  return source;
}

std::vector<std::byte> parameters(const Case& from, const std::vector<TensorMap>& maps,
                                  const std::vector<u64>& addresses) {
  const size_t begin = maps.size() * sizeof(TensorMap);
  size_t bytes = begin + params_bytes(static_cast<i64>(addresses.size()), 0);
  // A struct with maps has their alignment.
  if (!maps.empty())
    bytes = (bytes + alignof(TensorMap) - 1) / alignof(TensorMap) * alignof(TensorMap);
  std::vector<std::byte> block(bytes);
  std::memcpy(block.data(), maps.data(), begin);
  std::memcpy(block.data() + begin, addresses.data(), 8 * addresses.size());
  std::memcpy(block.data() + begin + 8 * addresses.size(), &from.symbol, sizeof from.symbol);
  return block;
}

namespace {

std::string difference_of_numbers(const Case& from, const std::vector<u8>& output) {
  for (size_t i = 0; i < from.approximate.size(); ++i) {
    const Approximate& want = from.approximate[i];
    const float got = get<float>(output, 4 * i);
    if (static_cast<double>(got) == want.value) continue;  // infinities too
    if (std::abs(got - want.value) <= want.error) continue;
    return fmt::format("number {} is {}, expected {} with an error up to {}", i, got, want.value,
                       want.error);
  }
  return "";
}

}  // namespace

std::string difference(const Case& from, const std::vector<u8>& output) {
  if (!from.approximate.empty()) return difference_of_numbers(from, output);
  if (output == from.expected) return "";
  if (output.size() != from.expected.size()) {
    return fmt::format("the output has {} bytes, {} are expected", output.size(),
                       from.expected.size());
  }
  size_t first = output.size(), count = 0;
  for (size_t i = output.size(); i-- > 0;) {
    if (output[i] == from.expected[i]) continue;
    first = i;
    ++count;
  }
  const size_t word = first / 4 * 4;
  if (word + 4 > output.size()) return fmt::format("byte {} of the output differs", first);
  return fmt::format(
      "{} of {} bytes differ, the first at {}: the word is {:#010x}, expected {:#010x}", count,
      output.size(), first, get<u32>(output, word), get<u32>(from.expected, word));
}

}  // namespace instructions
}  // namespace catenary
