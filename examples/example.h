// SPDX-License-Identifier: Apache-2.0
// What the programs share: test data, a count of wrong elements, the short form of a plan, the
// choice of sizes, the comparison of a built chain with its .chain file. Uses only the public
// headers.
#pragma once

#include <bit>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "catenary/catenary.hpp"

namespace example {

enum class Bf16 : std::uint16_t {};

inline double number(float value) { return value; }
inline double number(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

// Rounds to nearest, ties to even; `value` is finite.
inline Bf16 to_bf16(double value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<Bf16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline double dot(const Bf16* a, const Bf16* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += number(a[i]) * number(b[i]);
  return sum;
}

inline double silu(double x) { return x / (1 + std::exp(-x)); }

// `count` numbers in [-scale, scale], the same on every machine.
template <typename T>
std::vector<T> random_numbers(std::int64_t count, double scale, std::uint32_t seed) {
  std::vector<T> numbers(count);
  for (T& number : numbers) {
    seed = seed * 1664525u + 1013904223u;
    const double value = scale * (static_cast<std::int32_t>(seed) * 0x1p-31);
    if constexpr (std::is_same_v<T, Bf16>) {
      number = to_bf16(value);
    } else {
      number = static_cast<T>(value);
    }
  }
  return numbers;
}

// Counts elements whose error exceeds one rounding to bf16 plus the error of a long f32 sum; prints
// the first five.
class Check {
 public:
  void near(const char* what, std::int64_t index, double got, double expected) {
    within(what, index, got, expected, 0x1p-7 * std::fabs(expected) + 1e-3);
  }
  // The same with an error of the caller's.
  void within(const char* what, std::int64_t index, double got, double expected, double error) {
    ++compared_;
    if (std::fabs(got - expected) <= error) return;
    if (++wrong_ <= 5) {
      std::printf("%s, element %lld: got %g, expected %g\n", what, static_cast<long long>(index),
                  got, expected);
    }
  }
  template <typename T>
  void all_near(const char* what, const std::vector<T>& got, std::int64_t from,
                const std::vector<T>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      near(what, static_cast<std::int64_t>(i), number(got[from + i]), number(expected[i]));
    }
  }
  // Prints the counts and returns the exit code.
  int result() const {
    std::printf("%lld elements compared, %lld wrong\n", static_cast<long long>(compared_),
                static_cast<long long>(wrong_));
    return wrong_ == 0 && compared_ > 0 ? 0 : 1;
  }

 private:
  std::int64_t compared_ = 0;
  std::int64_t wrong_ = 0;
};

// Chain text with its values renamed to v0, v1, ... in order.
inline std::string with_numbered_names(const std::string& text) {
  std::map<std::string, std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find(" = ");
    if (equals != std::string::npos) {
      names.emplace(line.substr(2, equals - 2), "v" + std::to_string(names.size()));
    }
  }
  std::string out, word;
  for (char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
      continue;
    }
    const auto known = names.find(word);
    out += (known == names.end() ? word : known->second) + c;
    word.clear();
  }
  return out;
}

// Throws unless `chain` equals the chain in examples/`file`, except for the names of values.
inline void require_same(const ctn::Chain& chain, const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(std::string(EXAMPLES_DIR) + "/" + file).rdbuf();
  const std::string written = ctn::Chain::parse(text.str()).text();
  if (with_numbered_names(written) == with_numbered_names(chain.text())) return;
  throw std::runtime_error("the chain that this program builds differs from " + file + ":\n" +
                           chain.text() + written);
}

// Prints the plan without slots, alternatives and totals.
inline void print_plan(const ctn::Compiled& compiled) {
  std::istringstream lines(compiled.explain());
  bool shown = false;
  for (std::string line; std::getline(lines, line) && line.compare(0, 6, "totals") != 0;) {
    const bool continued = line.starts_with("     ");
    if (!continued) {
      shown = false;
      for (const char* start : {"bucket", "kernel ", "  why", "  config", "  predicted"}) {
        shown = shown || line.starts_with(start);
      }
    }
    if (shown) std::printf("%s\n", line.c_str());
  }
}

// The simulator is a device too, for small sizes.
inline bool simulated() {
  const char* device = std::getenv("CATENARY_DEVICE");
  return device != nullptr && std::string_view(device) == "sim";
}
inline bool has_device() { return ctn::device_count() > 0; }

// The sizes to run: `full` on a GPU, else `small`.
template <typename Sizes>
Sizes choose_sizes(const Sizes& full, const Sizes& small) {
  return has_device() && !simulated() ? full : small;
}

// Without a device: compiles for architectures that have kernels for the chain, as a check that it
// works. Returns the exit code.
inline int compile_only(const ctn::Engine& engine, const ctn::Chain& chain, const Check& check,
                        std::initializer_list<const char*> archs = {"sm_80", "sm_90a"}) {
  std::printf(
      "no GPU: compiled only, and evaluated by the reference;\n"
      "CATENARY_DEVICE=sim runs the kernels in the simulator\n");
  for (const char* arch : archs) {
    const ctn::Compiled compiled = engine.compile(chain, arch);
    for (const ctn::Kernel& kernel : compiled.kernels()) {
      std::printf("%s: %s, %zu bytes, %d registers\n", arch, kernel.name.c_str(),
                  kernel.cubin.size(), kernel.registers);
    }
    if (std::string(arch) == "sm_90a") print_plan(compiled);
  }
  return check.result();
}

// After a run: prints where it was. Returns the exit code.
inline int finish(const Check& check) {
  std::printf("ran %s\n", simulated() ? "in the simulator" : "on the GPU");
  return check.result();
}

// Runs the program. An error is printed; its exit code is 3.
template <typename Program>
int run(const Program& program) {
  try {
    return program();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 3;
  }
}

}  // namespace example
