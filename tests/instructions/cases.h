// SPDX-License-Identifier: Apache-2.0
// Launches of the kernels in this folder, which together execute every wrapper of templates/ptx,
// with the expected contents of memory. Expectations are plain C++ from the text of the PTX ISA,
// independent of the simulator and the host shims. A case runs in the simulator (simulate.h) and on
// a device (tests/gpu/instructions.cpp).
#pragma once

#include <string>
#include <vector>

#include "compiler/emit/source.h"
#include "simulator/model/tensor_map.h"
#include "simulator/simulator.h"

namespace catenary::instructions {

// Global memory that the kernel gets a pointer to. `bytes`: its contents before the first launch.
struct Buffer {
  std::string name;
  sim::RegionRole role = sim::RegionRole::kInput;
  std::vector<u8> bytes;
};

// A tensor map over the start of a buffer; spec.base is set when the buffer's address is known.
struct Map {
  size_t buffer = 0;
  TensorMapSpec spec;
};

// An f32 of the output with an absolute error bound.
struct Approximate {
  double value;
  double error;
};

struct Case {
  std::string name;    // "mma.sync, f16"
  std::string file;    // "mma.cu"
  std::string kernel;  // "mma_accumulate"
  u32 ctas = 1;
  u32 threads = 32;
  u32 smem_bytes = 0;
  u32 cluster_ctas = 1;
  u32 launches = 1;  // in sequence, with PDL
  i64 symbol = 0;
  std::vector<Map> maps = {};
  std::vector<Buffer> buffers = {};           // the last one is the output
  std::vector<u8> expected = {};              // the output's bytes after the last launch
  std::vector<Approximate> approximate = {};  // instead, where not empty
};

// All cases, in the order of their files. Names are unique.
const std::vector<Case>& all_cases();

// The kernel's file as a source to compile; the text is embedded in the program.
KernelSource source_of(const Case& from);

// The kernel's parameter: maps, then Params over the buffers' addresses.
std::vector<std::byte> parameters(const Case& from, const std::vector<TensorMap>& maps,
                                  const std::vector<u64>& addresses);

// The first difference of an output from the expectation, in one sentence; "" if there is none.
std::string difference(const Case& from, const std::vector<u8>& output);

// The cases of a few files each (cases_*.cpp).
void add_memory_cases(std::vector<Case>& cases);
void add_number_cases(std::vector<Case>& cases);
void add_matrix_cases(std::vector<Case>& cases);
void add_order_cases(std::vector<Case>& cases);
void add_bulk_cases(std::vector<Case>& cases);
void add_tma_cases(std::vector<Case>& cases);
void add_wgmma_cases(std::vector<Case>& cases);
void add_gemm_cases(std::vector<Case>& cases);
void add_unmapped_cases(std::vector<Case>& cases);

}  // namespace catenary::instructions
