// SPDX-License-Identifier: Apache-2.0
// Operands of the register epilogue that vary along both M and N: 16-bit elements in rows of
// 16-byte vectors. Each warp copies those of a subtile to shared memory by cp.async, two subtiles
// ahead of their use, and reads them by ldmatrix: as pairs of columns in the layout of the
// accumulators.
//
//   buffers   of a warp: two of each operand, which subtiles take in turn; each holds 16 rows, in
//             chunks as subtile_chunk places them
//
// cp.async and not loads into registers: ptxas waits for all loads of a loop at once, the newest
// ones too (RESULTS train-3). A warp has buffers of its own, ordered by its barriers.
#pragma once

#include "epilogue/config.cuh"
#include "epilogue/operand.cuh"
#include "epilogue/staging.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/mma.cuh"
#include "ptx/sync.cuh"

namespace catenary {

template <const EpilogueConfig& kConfig, class Epilogue>
struct MatrixOperands {
  static constexpr int kCount = Epilogue::kMatrixCount;
  static_assert(kCount == kConfig.matrices, "shared memory is planned for them");
  static constexpr u32 kChunks = kConfig.subtile_n / 8;  // in a row
  static constexpr u32 kRowsPerPass = 32 / kChunks;
  static constexpr u32 kBytes = 16 * kConfig.subtile_n * 2;  // of one operand's subtile

  // The operands of 16 columns, a pair of columns in each word.
  struct Chunks {
    u32 word[kCount > 0 ? kCount : 1][2][2];  // [8 columns][row g, row g + 8]

    CATENARY_DEVICE typename Epilogue::Matrices pair(u32 chunk, u32 half) const {
      if constexpr (kCount == 0) {
        return {};
      } else {
        struct Words {
          u32 word[kCount];
        } pairs;
#pragma unroll
        for (int i = 0; i < kCount; ++i) pairs.word[i] = word[i][chunk][half];
        return __builtin_bit_cast(typename Epilogue::Matrices, pairs);
      }
    }
  };

  // Starts the copies of subtile number `subtile`, 16 rows from m on and kConfig.subtile_n columns
  // from n on; rows from m_end and columns from n_end on become zeros. One group of cp.async.
  template <class P>
  static CATENARY_DEVICE void request(const P& params, u32 buffers, u32 subtile, Coord coord, u32 m,
                                      u32 m_end, u32 n, u32 n_end) {
    const u32 lane = threadIdx.x % 32;
    const u32 chunk = lane % kChunks;
    coord.dim[kMaxDims - 1] = n + 8 * chunk;
#pragma unroll
    for (u32 pass = 0; pass < 16 / kRowsPerPass; ++pass) {
      const u32 row = pass * kRowsPerPass + lane / kChunks;
      coord.dim[kMaxDims - 2] = m + row;
      const bool inside = m + row < m_end && n + 8 * chunk < n_end;
      copy<0>(params, subtile_chunk<kChunks>(buffer(buffers, subtile), row, chunk), coord, inside);
    }
    cp_async_commit();
  }

  // Waits for the copies of a subtile, after which one more group was started.
  static CATENARY_DEVICE void wait() {
    if constexpr (kCount > 0) {
      cp_async_wait<1>();
      warp_barrier();  // the other lanes' copies
    }
  }

  // Reads chunks g and g + 1 of a subtile. A barrier of the warp must follow before its buffer
  // takes the copies of another one.
  static CATENARY_DEVICE void read(u32 buffers, u32 subtile, u32 g, Chunks& out) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      // Lane l addresses row l % 8 of matrix l / 8: rows 0-7 and 8-15 of chunk g, then of g + 1.
      const u32 from = buffer(buffers, subtile) + i * kBytes;
      const U32x4 w = ldmatrix_x4(subtile_chunk<kChunks>(from, lane % 16, g + lane / 16));
      out.word[i][0][0] = w.x, out.word[i][0][1] = w.y;
      out.word[i][1][0] = w.z, out.word[i][1][1] = w.w;
    }
  }

 private:
  static CATENARY_DEVICE u32 buffer(u32 buffers, u32 subtile) {
    return buffers + subtile % 2 * (kCount * kBytes);
  }

  template <int kOperand, class P>
  static CATENARY_DEVICE void copy(const P& params, u32 to, const Coord& coord, bool inside) {
    if constexpr (kOperand < kCount) {
      constexpr Operand kFrom = Epilogue::kMatrices[kOperand];
      const u8* from =
          static_cast<const u8*>(params.ptr[kFrom.slot]) + element_offset<kFrom>(coord) * 2;
      cp_async_16(to + kOperand * kBytes, from, inside ? 16 : 0);
      copy<kOperand + 1>(params, to, coord, inside);
    }
  }
};

}  // namespace catenary
