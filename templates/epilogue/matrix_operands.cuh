// SPDX-License-Identifier: Apache-2.0
// Operands of the register epilogue that vary along both M and N: 16-bit elements in rows, or in
// columns, of 16-byte vectors. Each warp copies those of a subtile to shared memory by cp.async,
// two subtiles ahead of their use, and reads them by ldmatrix: as pairs of columns in the layout of
// the accumulators.
//
//   buffers   of a warp: two of each operand, which subtiles take in turn; each holds 16 rows, in
//             chunks as subtile_chunk or subtile_column_chunk places them
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
          u32 word[sizeof(typename Epilogue::Matrices) / 4];
        } pairs;
        put<0, 0>(chunk, half, pairs.word);
        return __builtin_bit_cast(typename Epilogue::Matrices, pairs);
      }
    }

   private:
    // Puts the pairs of the operands from kOperand on as Loaded has them: in one word, or, where a
    // row's elements are not adjacent in memory, each in a word of its own.
    template <int kOperand, int kTo, int kWords>
    CATENARY_DEVICE void put(u32 chunk, u32 half, u32 (&to)[kWords]) const {
      if constexpr (kOperand < kCount) {
        const u32 pair = word[kOperand][chunk][half];
        constexpr bool kApart = is_m_major(Epilogue::kMatrices[kOperand]);
        to[kTo] = kApart ? pair & 0xffff : pair;
        if constexpr (kApart) to[kTo + 1] = pair >> 16;
        put<kOperand + 1, kTo + (kApart ? 2 : 1)>(chunk, half, to);
      }
    }
  };

  // Starts the copies of subtile number `subtile`, 16 rows from m on and kConfig.subtile_n columns
  // from n on; rows from m_end and columns from n_end on become zeros. One group of cp.async.
  template <class P>
  static CATENARY_DEVICE void request(const P& params, u32 buffers, u32 subtile, const Coord& coord,
                                      u32 m, u32 m_end, u32 n, u32 n_end) {
    copy<0>(params, buffer(buffers, subtile), coord, m, m_end, n, n_end);
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
    read_from<0>(buffer(buffers, subtile), g, out);
  }

 private:
  static CATENARY_DEVICE u32 buffer(u32 buffers, u32 subtile) {
    return buffers + subtile % 2 * (kCount * kBytes);
  }

  // Reads the two chunks of each operand from kOperand on. `from`: its buffer.
  template <int kOperand>
  static CATENARY_DEVICE void read_from(u32 from, u32 g, Chunks& out) {
    if constexpr (kOperand < kCount) {
      const u32 lane = threadIdx.x % 32;
      U32x4 w;
      // Lane l addresses row l % 8 of matrix l / 8: rows 0-7 and 8-15 of chunk g, then of g + 1.
      // Transposed, a row of a matrix is a column of D.
      if constexpr (is_m_major(Epilogue::kMatrices[kOperand])) {
        const u32 column = 8 * (g + lane / 16) + lane % 8;
        w = ldmatrix_x4_trans(subtile_column_chunk(from, column, lane / 8 % 2));
      } else {
        w = ldmatrix_x4(subtile_chunk<kChunks>(from, lane % 16, g + lane / 16));
      }
      auto& word = out.word[kOperand];
      word[0][0] = w.x, word[0][1] = w.y;
      word[1][0] = w.z, word[1][1] = w.w;
      read_from<kOperand + 1>(from + kBytes, g, out);
    }
  }

  // Copies the subtile of each operand from kOperand on. `to`: its buffer.
  template <int kOperand, class P>
  static CATENARY_DEVICE void copy(const P& params, u32 to, Coord coord, u32 m, u32 m_end, u32 n,
                                   u32 n_end) {
    if constexpr (kOperand < kCount) {
      constexpr Operand kFrom = Epilogue::kMatrices[kOperand];
      constexpr bool kMMajor = is_m_major(kFrom);
      const u32 lane = threadIdx.x % 32;
#pragma unroll
      for (u32 pass = 0; pass < kChunks / 2; ++pass) {
        const u32 row = kMMajor ? lane % 2 * 8 : pass * kRowsPerPass + lane / kChunks;
        const u32 column = kMMajor ? pass * 16 + lane / 2 : lane % kChunks * 8;
        coord.dim[kMaxDims - 2] = m + row;
        coord.dim[kMaxDims - 1] = n + column;
        const u8* from =
            static_cast<const u8*>(params.ptr[kFrom.slot]) + element_offset<kFrom>(coord) * 2;
        const u32 chunk = kMMajor ? subtile_column_chunk(to, column, row / 8)
                                  : subtile_chunk<kChunks>(to, row, column / 8);
        const bool inside = m + row < m_end && n + column < n_end;
        cp_async_16(chunk, from, inside ? 16 : 0);
      }
      copy<kOperand + 1>(params, to + kBytes, coord, m, m_end, n, n_end);
    }
  }
};

}  // namespace catenary
