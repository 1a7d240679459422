// SPDX-License-Identifier: Apache-2.0
// Entry points of libFuzzer, over the targets of the seeded tests: one program per target, which
// CATENARY_FUZZ_TARGET chooses. Usage: tests/fuzz/README.md.
#include "tests/fuzz/c_api_target.h"
#include "tests/fuzz/file_targets.h"
#include "tests/fuzz/pack_target.h"
#include "tests/fuzz/text_target.h"

namespace {

using namespace catenary;

[[maybe_unused]] void text(const u8* data, size_t size) {
  static const auto targets = all_targets();
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  fuzz::run_text(bytes, size % 8 == 0 ? &targets[size / 8 % targets.size()] : nullptr);
}
[[maybe_unused]] void npy(const u8* data, size_t size) {
  fuzz::run_npy({reinterpret_cast<const char*>(data), size});
}
// With digests that are right, so that the fuzzer gets past them.
[[maybe_unused]] void cache_entry(const u8* data, size_t size) {
  fuzz::run_cache_entry(fuzz::entry_with_digest({reinterpret_cast<const char*>(data), size}));
}
[[maybe_unused]] void tuning_record(const u8* data, size_t size) {
  fuzz::run_tuning_record(fuzz::record_with_digest({reinterpret_cast<const char*>(data), size}));
}
[[maybe_unused]] void pack(const u8* data, size_t size) {
  fuzz::run_pack(fuzz::sealed({data, data + size}));
}
[[maybe_unused]] void pack_entry(const u8* data, size_t size) {
  fuzz::run_pack_entry({data, data + size});
}
[[maybe_unused]] void trace_line(const u8* data, size_t size) {
  fuzz::run_trace_line({reinterpret_cast<const char*>(data), size});
}
[[maybe_unused]] void c_api(const u8* data, size_t size) {
  fuzz::Calls(fuzz::Bytes(data, size)).run();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  CATENARY_FUZZ_TARGET(data, size);
  return 0;
}
