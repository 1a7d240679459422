// SPDX-License-Identifier: Apache-2.0
// Operands that no tensor map describes (rows or base not on 16 bytes) on their way into the same
// stages (pipeline/pipeline.cuh): the four warps of the producer copy them by cp.async, in the
// layout that tensor copies would leave, zeros beyond the matrix included.
//
//   line     128 bytes, 64 elements of 16 bits; 16-byte chunk c of line l lies at c ^ (l % 8).
//            Elements of 32 bits, K-major alone, are rounded to tf32 when they have landed, as a
//            tensor copy would on the way
//   K-major  line = row of the tile, one block
//   MN-major line = one k, a block of 64 k for each 64 elements of the free dimension
//   pieces   128 / bytes lanes to a line; a thread has the same place in every 128 / lanes-th line
//
// cp.async takes no less than 4 bytes (PTX ISA 9.7.9.25). Where elements lie on 2 bytes alone, a
// line begins within a word or on one; a warp has every fourth line, so that all of its lines do
// alike if the pitch is odd, or all lines are if it is even. Those that begin on words are copied
// as they are. Of the others, which are "odd", word w > 0 is copied from the memory word that holds
// elements 2w - 1 and 2w, inside the line both; word 0 is put together from elements 63 and 0. Word
// w of the line is then the upper half of what lies there and the lower half of its neighbour to
// the right, in a circle: the warp rotates its lines when they have landed.
#pragma once

#include "pipeline/k_tail.cuh"
#include "pipeline/k_tiles.cuh"
#include "pipeline/pipeline.cuh"
#include "ptx/atomic.cuh"
#include "ptx/convert.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/global.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/warp.cuh"

namespace catenary {

// kRows: free rows of the tile (block_m or block_n). kCheckRows, kCheckK: tiles may reach over the
// matrix's end in that direction.
template <MatrixOperand kOperand, i32 kElementBytes, i32 kRows, bool kCheckRows, bool kCheckK>
struct CpAsyncLoad {
  static constexpr bool kKMajor = kOperand.k_major;
  static constexpr bool kRotates = kOperand.copy_bytes == 2;
  static constexpr bool kRounds = kElementBytes == 4;
  static_assert(kKMajor || !kRounds, "tf32 operands are K-major");
  static constexpr u32 kPieceBytes = kRotates ? 4 : kOperand.copy_bytes;
  static constexpr i32 kPieceElements = kPieceBytes / kElementBytes;
  static constexpr u32 kPieces = 128 / kPieceBytes;  // of a line
  static constexpr u32 kLineStep = 128 / kPieces;    // lines of one piece of each thread
  static constexpr u32 kLines = kKMajor ? kRows : 64;
  static constexpr u32 kBlocks = kKMajor ? 1 : kRows / 64;
  static constexpr u32 kPasses = (kLines + kLineStep - 1) / kLineStep;

  static constexpr i64 kLineStride =
      kElementBytes * (kKMajor ? kOperand.stride_row : kOperand.stride_k);
  static constexpr bool kCheckLines = kKMajor ? kCheckRows : kCheckK;
  static constexpr bool kCheckElements = kKMajor ? kCheckK : kCheckRows;

  // Of a step of a tile: address of its first element, how much of the matrix is left.
  struct Source {
    const u8* corner;
    i32 rows_left, k_left;
    // From a block's first line and element on.
    CATENARY_DEVICE i32 lines_left() const { return kKMajor ? rows_left : k_left; }
    CATENARY_DEVICE i32 elements_left(u32 block) const {
      return kKMajor ? k_left : rows_left - static_cast<i32>(block) * 64;
    }
  };

  // Bytes of a piece that lie inside the matrix, of whose first element on `left` elements do.
  static CATENARY_DEVICE u32 valid_bytes(i32 left) {
    if constexpr (!kCheckElements) return kPieceBytes;
    return left <= 0               ? 0
           : left < kPieceElements ? static_cast<u32>(left) * kElementBytes
                                   : kPieceBytes;
  }

  // One element of a word by a load of its size: cp.async copies two bytes of four as well (PTX ISA
  // 9.7.9.25), but compute-sanitizer takes it for a read of four, which the last element of a
  // tensor has no room for. The turn that follows orders the store as it does the copies.
  static CATENARY_DEVICE void copy_piece(u32 to, const u8* from, u32 valid) {
    if constexpr (kRotates) {
      if (valid == 2) return st_shared_u32(to, ld_global_u16(from));
    }
    if constexpr (kPieceBytes == 16) cp_async_16(to, from, valid);
    if constexpr (kPieceBytes == 8) cp_async_8(to, from, valid);
    if constexpr (kPieceBytes == 4) cp_async_4(to, from, valid);
  }

  // Passes whose addresses are one register and constants.
  static constexpr u32 kBatch = kPasses % 8 == 0 ? 8 : kPasses % 4 == 0 ? 4 : 2 - kPasses % 2;
  static_assert(kLineStep != 4 || kBatch % 2 == 0, "steps of four lines turn every other time");

  // This thread's pieces; `odd`: as above. The caller commits the group.
  static CATENARY_DEVICE void copy_pieces(u32 tile, const Source& source, u32 odd) {
    const u32 line = threadIdx.x / kPieces;
    const u32 byte = threadIdx.x % kPieces * kPieceBytes;
    const i32 element = static_cast<i32>(byte / kElementBytes - odd);
    const u8* corner =
        source.corner + static_cast<i64>(line) * kLineStride + kElementBytes * element;
    u32 to = tile + line * 128 + (byte ^ line % 8 * 16);
    if (kRotates && element < 0) return;
#pragma unroll 1
    for (u32 block = 0; block < kBlocks; ++block) {
      const u32 bytes = valid_bytes(source.elements_left(block) - element);
      const u8* from = corner + block * 128;
      i32 left = source.lines_left() - static_cast<i32>(line);
#pragma unroll 1
      for (u32 first = 0; first < kPasses; first += kBatch) {
        copy_batch(to, from, bytes, left, static_cast<i32>(kLines - line - first * kLineStep));
        to += kBatch * kLineStep * 128;
        from += kBatch * kLineStep * kLineStride;
        left -= kBatch * kLineStep;
      }
    }
  }

  // `left`: lines of the matrix from the first pass's on; `lines`: of the tile.
  static CATENARY_DEVICE void copy_batch(u32 to, const u8* from, u32 bytes, i32 left, i32 lines) {
#pragma unroll
    for (u32 i = 0; i < kBatch; ++i) {
      if (kLines % kLineStep != 0 && static_cast<i32>(i * kLineStep) >= lines) continue;
      const bool has_line = !kCheckLines || static_cast<i32>(i * kLineStep) < left;
      // Steps of four lines meet the other half of the swizzle every other time.
      const u32 turn = kLineStep == 4 ? i % 2 * 64 : 0;
      copy_piece((to ^ turn) + i * kLineStep * 128, from + i * kLineStep * kLineStride,
                 has_line ? bytes : 0);
    }
  }

  // Lines of this warp.
  static constexpr u32 kWarpLines = kBlocks * kLines / 4;
  static constexpr u32 kEnds = (kWarpLines + 31) / 32;

  // Elements 63 and 0, as word 0 will hold them, of the warp's odd lines: lane i has lines
  // number i, i + 32, ... of them.
  static CATENARY_DEVICE void load_ends(const Source& source, u32 (&word)[kEnds]) {
#pragma unroll
    for (u32 i = 0; i < kEnds; ++i) {
      const u32 number = threadIdx.x % 32 + 32 * i;
      const u32 line = threadIdx.x / 32 + 4 * number;
      const u32 block = line / kLines;
      const u8* p = source.corner + static_cast<i64>(line % kLines) * kLineStride + block * 128;
      const bool has_line =
          number < kWarpLines && static_cast<i32>(line % kLines) < source.lines_left();
      const i32 left = has_line ? source.elements_left(block) : 0;
      const u32 first = left > 0 ? ld_global_u16(p) : 0;
      const u32 last = left > 63 ? ld_global_u16(p + 126) : 0;
      word[i] = last | first << 16;
    }
  }

  static CATENARY_DEVICE void store_ends(u32 tile, const u32 (&word)[kEnds]) {
#pragma unroll
    for (u32 i = 0; i < kEnds; ++i) {
      const u32 number = threadIdx.x % 32 + 32 * i;
      const u32 line = threadIdx.x / 32 + 4 * number;
      if (number < kWarpLines) st_shared_u32(tile + line * 128 + line % 8 * 16, word[i]);
    }
  }

  // Starts the copy of a step into the tile at shared address `tile`. Whether the warp's lines are
  // odd: rotate() wants to know.
  static CATENARY_DEVICE bool start(u32 tile, const Source& source) {
    if constexpr (!kRotates) {
      copy_pieces(tile, source, 0);
      return false;
    } else {
      const u8* first = source.corner + static_cast<i64>(threadIdx.x / 32) * kLineStride;
      const u32 odd = static_cast<u32>(__builtin_bit_cast(u64, first)) >> 1 & 1;
      // Elements go through registers, and wait there while the pieces are asked for.
      u32 word[kEnds];
      if (odd != 0) load_ends(source, word);
      copy_pieces(tile, source, odd);
      if (odd != 0) store_ends(tile, word);
      return odd != 0;
    }
  }

  // All lanes of a warp whose lines are odd, when those have landed and are visible to all of it.
  static CATENARY_DEVICE void rotate(u32 tile) {
    constexpr u32 kTogether = 8;
    const u32 warp = threadIdx.x / 32;
    const u32 lane = threadIdx.x % 32;
    const u32 at = tile + warp * 128 + (lane * 4 ^ warp * 16);
#pragma unroll 1
    for (u32 first = 0; first < kWarpLines; first += kTogether) {
      const u32 batch = at + first * 512;
      u32 word[kTogether];
#pragma unroll
      for (u32 i = 0; i < kTogether; ++i) {
        if (kWarpLines % kTogether == 0 || first + i < kWarpLines)
          word[i] = ld_shared_u32((batch ^ i % 2 * 64) + i * 512);
      }
#pragma unroll
      for (u32 i = 0; i < kTogether; ++i) {
        if (kWarpLines % kTogether != 0 && first + i >= kWarpLines) continue;
        const u32 right = shuffle_index(word[i], (lane + 1) % 32);
        st_shared_u32((batch ^ i % 2 * 64) + i * 512, word[i] >> 16 | right << 16);
      }
    }
  }

  // All lanes of a warp round its lines, which have landed and are visible to all of it: of the
  // lines of a pass it has kLineStep / 4 side by side, and takes four of 16 at a time.
  static CATENARY_DEVICE void round(u32 tile) {
    constexpr u32 kAdjacent = kLineStep / 4;
    constexpr u32 kTogether = 4;
    const u32 place = threadIdx.x % 32 / 8;
    const u32 line =
        threadIdx.x / 32 * kAdjacent + place % kAdjacent + place / kAdjacent * kLineStep;
    const u32 at = tile + line * 128 + threadIdx.x % 8 * 16;
#pragma unroll 1
    for (u32 first = 0; first < kLines; first += 16 * kTogether) {
      U32x4 piece[kTogether];
#pragma unroll
      for (u32 i = 0; i < kTogether; ++i) {
        const u32 ahead = first + 16 * i;
        if (line + ahead < kLines) piece[i] = ld_shared_v4(at + ahead * 128);
      }
#pragma unroll
      for (u32 i = 0; i < kTogether; ++i) {
        const u32 ahead = first + 16 * i;
        const U32x4 rounded = {f32_to_tf32(piece[i].x), f32_to_tf32(piece[i].y),
                               f32_to_tf32(piece[i].z), f32_to_tf32(piece[i].w)};
        if (line + ahead < kLines) st_shared_v4(at + ahead * 128, rounded);
      }
    }
  }
};

// The copied operands of a producer's steps, for each of its four warps: what is on its way, and
// the full barriers of what has landed. Without such operands there is nothing to do.
template <const GemmSm90Config& kConfig, bool kAny = kConfig.uses_cp_async()>
struct CpAsyncLoader {
  template <class P>
  CATENARY_DEVICE void start(const P&, const WorkTile&, const KTileRange&, i64, u32, u32, Copies) {}
  CATENARY_DEVICE void finish_all(u32) {}
};

template <const GemmSm90Config& kConfig>
struct CpAsyncLoader<kConfig, true> {
  // Steps that a thread has on their way before it waits for the first of them: half of the ring,
  // but two less than it has stages: one is free when the products of the step behind it have been
  // issued, which wait for that step.
  static constexpr i32 kMostInFlight = 8;
  static constexpr i32 kHalf =
      kConfig.stages / 2 < kMostInFlight ? kConfig.stages / 2 : kMostInFlight;
  static constexpr i32 kAhead = kHalf < kConfig.stages - 2 ? kHalf : kConfig.stages - 2;
  static_assert(kAhead >= 0, "one stage is read while the next one lands");
  static_assert(kConfig.stages <= 32, "a bit of a word for each");
  static_assert(kConfig.cluster_m == 1, "threads copy for their own CTA alone");

  static constexpr i32 kBytes = kConfig.element_bytes();
  static constexpr bool kCheckK = kConfig.k.scale != 0 || kConfig.ragged == Ragged::kKGrouped ||
                                  kConfig.k.size % kConfig.block_k() != 0;
  static constexpr bool kCheckM = kConfig.m.scale != 0 || kConfig.ragged == Ragged::kMGrouped ||
                                  kConfig.m.size % kConfig.a_box_rows() != 0;
  static constexpr bool kCheckN = kConfig.n.scale != 0 || kConfig.n.size % kConfig.block_n != 0;
  using CopyA = CpAsyncLoad<kConfig.a.memory, kBytes, kConfig.a_box_rows(), kCheckM, kCheckK>;
  using CopyB = CpAsyncLoad<kConfig.b.memory, kBytes, kConfig.block_n, kCheckN, kCheckK>;
  using CopyB2 = CpAsyncLoad<kConfig.b2.memory, kBytes, kConfig.block_n, kCheckN, kCheckK>;

  PipelineState<kConfig.stages> landed;
  i32 ahead = 0;           // steps that have been started and not finished
  u32 odd[3] = {0, 0, 0};  // of A, B, B2: stages in which this warp's lines are odd
  // Ragged terms: of each stage 8 bits, how many of its 64 terms are the group's own; of each stage
  // a bit, the parity of landed's next phase.
  static_assert(!kConfig.zero_fills_k_tails() || kConfig.stages <= 8, "8 bits of 64 for each");
  u64 own_terms = 0;
  u32 parities = 0;

  static constexpr u32 offset(u32 operand) {
    return operand == 0 ? 0 : kConfig.tile_a_bytes() + (operand - 1) * kConfig.tile_b_bytes();
  }

  template <Sm90Operand kMatrix, class Copy, class P>
  CATENARY_DEVICE void start_operand(const P& params, const WorkTile& work, i64 row, i64 row_end,
                                     i64 k, i64 outer, u32 operand, u32 smem, u32 stage) {
    constexpr MatrixOperand kMemory = kMatrix.memory;
    typename Copy::Source source;
    source.corner = operand_address<kConfig, kMemory, kBytes>(params, work, row) +
                    kBytes * (k * kMemory.stride_k + outer * kMemory.stride_outer);
    source.rows_left = static_cast<i32>(row_end - row);
    const i64 k_left = work.k_end - k;
    source.k_left = static_cast<i32>(k_left < kConfig.block_k() ? k_left : kConfig.block_k());
    const u32 to = smem + stage * kConfig.stage_bytes() + offset(operand);
    const bool is_odd = Copy::start(to, source);
    odd[operand] = (odd[operand] & ~(1u << stage)) | (is_odd ? 1u << stage : 0u);
  }

  // A round of the producer, all threads: the copies of a step that it makes now, as one group. A
  // round with those of others completes its step.
  template <class P>
  CATENARY_DEVICE void start(const P& params, const WorkTile& work, const KTileRange& steps,
                             i64 step, u32 smem, u32 stage, Copies copies) {
    i64 outer = 0;
    if constexpr (kConfig.k_outer > 1) outer = step / steps.per_outer;
    const i64 k = work.k_begin + (step - outer * steps.per_outer) * kConfig.block_k();
    const i64 n = extent_at_launch(kConfig.n, params);
    if constexpr (kConfig.a.by_cp_async) {
      if (copies.of(kConfig.a.weight))
        start_operand<kConfig.a, CopyA>(params, work, work.m0, work.m_end, k, outer, 0, smem,
                                        stage);
    }
    if constexpr (kConfig.b.by_cp_async) {
      if (copies.of(kConfig.b.weight))
        start_operand<kConfig.b, CopyB>(params, work, work.n0, n, k, outer, 1, smem, stage);
    }
    if constexpr (kConfig.dual && kConfig.b2.by_cp_async) {
      if (copies.of(kConfig.b2.weight))
        start_operand<kConfig.b2, CopyB2>(params, work, work.n0, n, k, outer, 2, smem, stage);
    }
    if constexpr (kConfig.zero_fills_k_tails()) {
      const i64 live = valid_k<kConfig>(steps, step);
      const u64 own = live < kConfig.block_k() ? live : kConfig.block_k();
      own_terms = (own_terms & ~(u64{0xff} << 8 * stage)) | own << 8 * stage;
    }
    cp_async_commit();
    if (!copies.others || ++ahead <= kAhead) return;
    cp_async_wait<kAhead>();
    finish(smem);
  }

  // The oldest step, whose groups this thread has waited for. What threads have written, products
  // read through the asynchronous proxy: each thread's fence is for its own writes (PTX ISA
  // 9.7.15.4), behind the warp's barrier one lane arrives for all.
  CATENARY_DEVICE void finish(u32 smem) {
    const u32 stage = smem + landed.stage * kConfig.stage_bytes();
    if constexpr (CopyA::kRotates || CopyB::kRotates || CopyB2::kRotates || kBytes == 4) {
      // Lanes go on with what others of the warp have written.
      warp_barrier();
      mend<kConfig.a, CopyA>(stage, 0);
      mend<kConfig.b, CopyB>(stage, 1);
      if constexpr (kConfig.dual) mend<kConfig.b2, CopyB2>(stage, 2);
    }
    if constexpr (kConfig.zero_fills_k_tails()) clear_mapped(smem);
    fence_proxy_async_shared();
    warp_barrier();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(full_barrier<kConfig>(smem, landed.stage));
    landed.advance();
    --ahead;
  }

  // All that are left.
  CATENARY_DEVICE void finish_all(u32 smem) {
    cp_async_wait<0>();
#pragma unroll 1
    while (ahead > 0) finish(smem);
  }

 private:
  // What tensor copies have brought of other groups' terms. Thread 0 arrives for those copies,
  // which here do so at landed.
  CATENARY_DEVICE void clear_mapped(u32 smem) {
    const u32 own = static_cast<u32>(own_terms >> 8 * landed.stage) & 0xff;
    if (own >= kConfig.block_k()) return;
    mbarrier_wait(tma_full_barrier<kConfig>(smem, landed.stage), parities >> landed.stage & 1);
    parities ^= 1u << landed.stage;
    if (threadIdx.x == 0) mbarrier_arrive(full_barrier<kConfig>(smem, landed.stage));
    const u32 a = smem + landed.stage * kConfig.stage_bytes();
    const u32 b = a + kConfig.tile_a_bytes();
    if constexpr (!kConfig.a.by_cp_async) {
      zero_fill_lines<kConfig.tile_a_bytes(), 128>(a, own, threadIdx.x);
    }
    if constexpr (!kConfig.b.by_cp_async) {
      zero_fill_lines<kConfig.tile_b_bytes(), 128>(b, own, threadIdx.x);
    }
    if constexpr (kConfig.dual && !kConfig.b2.by_cp_async) {
      zero_fill_lines<kConfig.tile_b_bytes(), 128>(b + kConfig.tile_b_bytes(), own, threadIdx.x);
    }
  }

  template <Sm90Operand kMatrix, class Copy>
  CATENARY_DEVICE void mend(u32 stage, u32 operand) const {
    if constexpr (kMatrix.by_cp_async && Copy::kRotates) {
      if ((odd[operand] >> landed.stage & 1) != 0) Copy::rotate(stage + offset(operand));
    }
    if constexpr (kMatrix.by_cp_async && Copy::kRounds) Copy::round(stage + offset(operand));
  }
};

}  // namespace catenary
