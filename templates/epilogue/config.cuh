// SPDX-License-Identifier: Apache-2.0
// What the epilogues on wgmma accumulators know of a kernel: a kernel derives it from its own
// config.
#pragma once

#include "shared/config.h"

namespace catenary {

struct EpilogueConfig {
  i32 num_accumulators = 1;       // 2: dual GEMM
  i32 block_n = 128;              // columns of the tile
  i32 subtile_n = 64;             // register epilogue: columns of each accumulator in a subtile
  i32 staging_bytes = 0;          // of a warp
  bool stores_pairs = false;      // register epilogue: two subtiles are stored at a time
  i32 matrices = 0;               // register epilogue: operands that vary along both M and N
  i32 vec = 8;                    // staged epilogue: columns of a vector
  i32 column_sums = 0;            // staged epilogue: stores that are sums of kSummedRows rows
  i32 reduced_columns = 1;        // register epilogue: of a block of row reductions; 1: none
  bool m_grouped = false;         // a tile may hold rows of the next group
  bool whole_subtiles_n = false;  // register epilogue: no subtile ends past N
  bool odd_n = false;             // register epilogue: the last pair of columns is one column
  bool scarce_registers = false;  // register epilogue: more than 160 are accumulators
  bool short_mainloop = false;    // too few k-tiles to hide a long epilogue of the other warpgroup
  i32 accumulator_registers = 0;  // of a thread
  i32 max_registers = 160;        // for accumulators and prefetched columns
  i32 split_k = 1;
  i32 batch_rank = 0;
};

// The reduction of cluster split-K. Offsets are bytes from the start of dynamic shared memory.
struct ClusterSplitKConfig {
  i32 num_accumulators = 1;
  i32 block_n = 64;
  i32 vec = 4;
  i32 threads = 256;
  i32 cluster_k = 1;
  i32 a_rows = 64;                // rows of the tile that have accumulators
  i32 reduce_rows = 64;           // that one CTA reduces
  bool row_squares = false;       // a row has one more sum, of the squares of the row of A
  i32 row_bytes = 0;              // of a slot
  i32 slot_bytes = 0;             // the partials of one CTA for another one
  i32 slots_offset = 0;           // of the other CTAs' slots
  i32 barrier_offset = 0;         // the partials barrier
  i32 accumulator_registers = 0;  // of a thread
  i32 max_registers = 64;         // for accumulators and prefetched weights
  Extent n = {};
  i32 split_k = 1;
  i32 batch_rank = 0;
};

}  // namespace catenary
