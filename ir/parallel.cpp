// SPDX-License-Identifier: Apache-2.0
#include "ir/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "ir/default_numerics.h"

namespace catenary {

void parallel_for(i64 count, int threads, llvm::function_ref<void(i64)> body) {
  i64 workers = threads > 0 ? threads : static_cast<i64>(std::thread::hardware_concurrency());
  workers = std::clamp<i64>(workers, 1, std::max<i64>(count, 1));
  std::atomic<i64> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto work = [&] {
    try {
      for (i64 i = next++; i < count; i = next++) body(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  others.reserve(static_cast<size_t>(workers - 1));
  for (i64 i = 1; i < workers; ++i) {
    try {
      others.emplace_back([&work] {
        const DefaultNumerics numerics;
        work();
      });
    } catch (const std::exception&) {  // no thread, or no memory for one
      break;
    }
  }
  work();
  for (std::thread& other : others) other.join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace catenary
