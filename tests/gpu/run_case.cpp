// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/run_case.h"

#include <algorithm>
#include <cstring>

#include "ir/random/random.h"
#include "ir/reference/compare.h"

namespace catenary::gpu_suite {
namespace {

i64 count_vacuous(const std::vector<Interval>& expected) {
  return std::count_if(expected.begin(), expected.end(), [](const Interval& interval) {
    return !(interval.error < std::numeric_limits<double>::infinity());
  });
}

}  // namespace

std::string run_name(const PreparedRun& run) {
  return fmt::format("{} data, symbol {}, data seed {}", fill_text(run.kind), run.symbol, run.seed);
}

void Runner::note(CaseResult& result, const PreparedRun& run, const std::string& what) const {
  result.passed = false;
  if (result.problems.size() >= 4) return;
  const std::string schedule =
      suite_.simulated() ? fmt::format(", schedule {}", schedule_) : std::string();
  result.problems.push_back(fmt::format("{}{}: {}", run_name(run), schedule, what));
}

Error Runner::reserve(i64 bytes) {
  if (base_ != 0 && memory_.bytes() >= bytes + kBlockAlign) return Error::success();
  memory_ = cuda::DeviceBuffer();
  base_ = 0;
  // The simulator tracks every byte: no spare memory.
  const i64 spare = suite_.simulated() ? bytes : std::max<i64>(2 * bytes, i64{16} << 20);
  const i64 wanted = spare + kBlockAlign;
  Expected<cuda::DeviceBuffer> buffer = cuda::DeviceBuffer::allocate(wanted);
  if (!buffer) return buffer.takeError();
  memory_ = std::move(*buffer);
  base_ = static_cast<cuda::DevicePtr>(ceil_div(static_cast<i64>(memory_.get()), kBlockAlign) *
                                       kBlockAlign);
  return Error::success();
}

// The stand-in for a launch: writes the reference's outputs, with the injected fault.
void Runner::stand_in(const PreparedRun& run) {
  const std::string& fault = suite_.options().inject;
  size_t output = 0;
  for (const Region& region : run.image.regions) {
    if (!region.output) continue;
    const auto& expected = run.expected[output++];
    auto* data = reinterpret_cast<void*>(base_ + region.offset);
    for_each_element(region.type, [&](i64 e, i64 offset) {
      const bool last = e + 1 == static_cast<i64>(expected.size());
      const double value = expected[static_cast<size_t>(e)].value;
      if (!last || fault != "missing") {
        const bool wrong = last && fault == "wrong";
        store_element(region.type.dtype, data, offset, wrong ? value * 1.25 + 8 : value);
      }
      if (last && fault == "beyond") store_element(region.type.dtype, data, offset + 1, value);
    });
  }
}

Expected<std::vector<u8>> launch_image(const LaunchTarget& target, const PreparedRun& run,
                                       const Executable& executable, const std::vector<u8>& before,
                                       llvm::function_ref<void()> stand_in) {
  const cuda::Api& api = target.driver.api();
  const auto check = [&](cuda::Result result, const char* what) {
    return result == cuda::kSuccess ? Error::success() : target.driver.error(result, what);
  };
  if (Error error =
          check(api.memcpy_htod_async(target.base, before.data(), before.size(), target.stream),
                "copying a block"))
    return error;
  std::vector<void*> tensors;
  LaunchArguments arguments;
  for (const Region& region : run.image.regions) {
    void* address = reinterpret_cast<void*>(target.base + region.offset);
    if (region.workspace) {
      arguments.workspace = address;
    } else {
      tensors.push_back(address);
    }
  }
  arguments.tensors = tensors;
  arguments.scalars = run.image.scalars;
  arguments.symbol = run.symbol;
  arguments.stream = target.stream;
  if (Error error = executable.launch(arguments)) return error;
  stand_in();
  std::vector<u8> after(before.size());
  if (Error error =
          check(api.memcpy_dtoh_async(after.data(), target.base, after.size(), target.stream),
                "reading a block"))
    return error;
  if (Error error = check(api.stream_synchronize(target.stream), "waiting for a launch"))
    return error;
  return after;
}

Expected<std::vector<u8>> Runner::launch(const PreparedRun& run, const Executable& executable,
                                         const std::vector<u8>& before) {
  if (Error error = reserve(run.image.bytes)) return error;
  schedule_ = mix64(schedule_ + 1);
  if (Error error = suite_.schedule(schedule_)) return error;
  return launch_image({suite_.driver(), suite_.stream(), base_}, run, executable, before, [&] {
    if (suite_.options().rehearse) stand_in(run);
  });
}

void Runner::compare_outputs(const PreparedRun& run, const std::vector<u8>& after,
                             CaseResult& result) {
  size_t output = 0;
  for (const Region& region : run.image.regions) {
    if (!region.output) continue;
    const auto& expected = run.expected[output++];
    const CompareMode mode = run.exact ? CompareMode::kExact : CompareMode::kInterval;
    const CompareResult compared =
        compare(region.type, after.data() + region.offset, expected, mode);
    result.elements += compared.checked;
    result.vacuous += count_vacuous(expected);
    if (run.kind != FillKind::kExactInteger) {
      result.worst_error_ratio = std::max(result.worst_error_ratio, compared.worst_ratio);
    }
    if (compared.ok()) continue;
    const bool zeros_only =
        run.exact && compare(region.type, after.data() + region.offset, expected).ok();
    note(result, run,
         fmt::format("{} {}{}: {}", region.name, to_string(region.type),
                     zeros_only  ? " (signs of zero only)"
                     : run.exact ? " (bitwise)"
                                 : "",
                     to_string(compared)));
  }
}

Error Runner::run_all(const PreparedRun& run, const Executable& executable, CaseResult& result) {
  const MemoryImage& image = run.image;
  Expected<std::vector<u8>> a = launch(run, executable, image.run_a);
  if (!a) return a.takeError();
  if (const std::string damage = find_damage(image, image.run_a, *a); !damage.empty()) {
    note(result, run, damage);
  }
  compare_outputs(run, *a, result);
  Expected<std::vector<u8>> b = launch(run, executable, image.run_b);
  if (!b) return b.takeError();
  if (const std::string damage = find_damage(image, image.run_b, *b); !damage.empty()) {
    note(result, run, "run B " + damage);
  }
  if (const std::string text = find_difference(image, *a, *b, true); !text.empty()) {
    note(result, run,
         "another poison (0x3f) and other surrounding bytes (1e30) change the result, " + text);
  }
  if (suite_.options().against_simulator) result.after.push_back(*a);
  result.launches += 2;
  const int repeats = suite_.simulated() ? 1 : suite_.options().repeats;
  for (int again = 0; again < repeats; ++again) {
    Expected<std::vector<u8>> more = launch(run, executable, image.run_a);
    if (!more) return more.takeError();
    ++result.launches;
    if (const std::string text = find_difference(image, *a, *more, false); !text.empty()) {
      note(result, run, fmt::format("launch {} of the same data {}", again + 2, text));
    }
  }
  return Error::success();
}

CaseResult Runner::run(const PreparedCase& prepared) {
  CaseResult result;
  const auto broken = [&](Error error, const std::string& where) {
    const ErrorReport report = take_report(std::move(error));
    result.passed = false;
    result.lost_context |= report.code == ErrorCode::kContextPoisoned;
    result.problems.push_back(
        fmt::format("{}{}: {}", where, error_code_name(report.code), report.message));
  };
  Engine engine(suite_.engine_options(prepared.options));
  auto executable = engine.load(prepared.compiled, 0, suite_.stream());
  if (!executable) {
    broken(executable.takeError(), "load: ");
    return result;
  }
  schedule_ = prepared.from.seed;
  for (const PreparedRun& run : prepared.runs) {
    if (Error error = run_all(run, **executable, result)) {
      broken(std::move(error), run_name(run) + ": ");
      break;
    }
  }
  return result;
}

}  // namespace catenary::gpu_suite
