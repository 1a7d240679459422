// SPDX-License-Identifier: Apache-2.0
// A driver table without a GPU: answers like a driver with the devices that a test sets, and
// records its calls. One state per process; fake_api() resets it.
#pragma once

#include <string>
#include <vector>

#include "runtime/driver/api.h"

namespace catenary::testing {

struct FakeLaunch {
  bool context_current = false;
  std::string kernel;
  unsigned grid = 0;
  unsigned block = 0;
  unsigned smem = 0;
  cuda::Stream stream = nullptr;
  bool pdl = false;
  unsigned cluster = 1;
  std::vector<unsigned char> image;  // the first image_bytes of the parameter struct
};

struct FakeDriver {
  // Its answers.
  int devices = 2;
  int version = 13000;
  int capability = 90;
  int sm_count = 132;
  int smem_per_cta = 227 * 1024;
  std::string name = "NVIDIA H200";
  int capture_status = 0;
  cuda::Stream capturing_stream = nullptr;
  cuda::Result init_result = 0;
  cuda::Result capture_result = 0;
  cuda::Result alloc_result = 0;
  cuda::Result load_result = 0;
  cuda::Result get_kernel_result = 0;
  cuda::Result launch_result = 0;
  cuda::Result clusters_result = 0;
  int clusters = 66;     // that run at once
  int fail_launch = -1;  // index of the launch that returns launch_result; -1: none
  size_t image_bytes = 64;

  // Its calls.
  std::vector<std::string> calls;  // calls other than launches: name and arguments
  std::vector<FakeLaunch> launches;
  int pushed = 0;        // contexts pushed and not popped
  int retained = 0;      // primary contexts
  int capture_mode = 0;  // of the thread
  size_t allocated = 0;  // device buffers alive
  bool loaded_relaxed = true;
};

FakeDriver& fake();

// Resets fake() and returns a full table over it.
cuda::Api fake_api();

}  // namespace catenary::testing
