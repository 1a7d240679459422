// SPDX-License-Identifier: Apache-2.0
#include "tuner/tensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "ir/parallel.h"
#include "ir/random/fill.h"
#include "ir/random/random.h"

namespace catenary::tuner {
namespace {

// Almost 64 MiB: 16 bytes times an odd number.
constexpr i64 kBlockBytes = (i64{64} << 20) - 16 * 4099;
constexpr i64 kChunkBytes = i64{1} << 20;
constexpr i64 kPieceBytes = i64{16} << 20;
static_assert(kBlockBytes / 16 % 2 == 1);

// The length of the longest sum of a contraction that reads `id`; 0: no contraction does.
i64 contraction_terms(const VerifiedChain& chain, ValueId id) {
  i64 most = 0;
  for (ValueId reader = 0; reader < chain.num_values(); ++reader) {
    const auto& contraction = chain.info(reader).contraction;
    if (!contraction) continue;
    const auto& operands = chain.value(reader).operands;
    const bool reads =
        std::any_of(operands.begin(), operands.end(), [&](const Use& u) { return u.value == id; });
    if (!reads) continue;
    i64 terms = 1;
    for (const ContractionLabel& label : contraction->k) terms *= label.size.size;
    most = std::max(most, terms);
  }
  return most;
}

}  // namespace

llvm::ArrayRef<std::byte> RandomPool::block(DType dtype, double scale) {
  std::vector<std::byte>& bytes = blocks_[{dtype, scale}];
  if (!bytes.empty()) return bytes;
  bytes.resize(kBlockBytes);
  const i64 chunks = ceil_div(kBlockBytes, kChunkBytes);
  parallel_for(chunks, 0, [&](i64 c) {
    const i64 begin = c * kChunkBytes;
    const i64 size = std::min(kChunkBytes, kBlockBytes - begin);
    TensorType type;
    type.dtype = dtype;
    type.shape = {Dim{size * 8 / dtype_info(dtype).bits, false}};
    const u64 seed = mix64(seed_ ^ mix64(std::bit_cast<std::uint64_t>(scale)) ^
                           mix64(16 * static_cast<u64>(c) + static_cast<u64>(dtype)));
    fill_tensor(type, llvm::MutableArrayRef(bytes.data() + begin, static_cast<size_t>(size)),
                Fill{FillKind::kNormal, seed, scale});
  });
  return bytes;
}

void RandomPool::repeat(llvm::ArrayRef<std::byte> block, i64 phase, std::byte* out, i64 bytes) {
  const i64 period = static_cast<i64>(block.size());
  const i64 first = phase % period;
  // In parallel: the weights of 64 experts are 7 GB.
  parallel_for(ceil_div(bytes, kPieceBytes), 0, [&](i64 p) {
    const i64 end = std::min((p + 1) * kPieceBytes, bytes);
    for (i64 done = p * kPieceBytes; done < end;) {
      const i64 from = (first + done) % period;
      const i64 piece = std::min(end - done, period - from);
      std::memcpy(out + done, block.data() + from, static_cast<size_t>(piece));
      done += piece;
    }
  });
}

TensorType bf16_tensor(llvm::ArrayRef<i64> sizes) { return contiguous_tensor(DType::kBF16, sizes); }

TensorType contiguous_tensor(DType dtype, llvm::ArrayRef<i64> sizes) {
  TensorType type;
  type.dtype = dtype;
  for (const i64 size : sizes) type.shape.push_back(Dim{size, false});
  type.strides = contiguous_strides(type.shape);
  return type;
}

i64 tensor_bytes(const TensorType& type) { return span_bytes(type); }

i64 copy_bytes(const TensorType& type) {
  return ceil_div(tensor_bytes(type), kCopyAlign) * kCopyAlign;
}

Expected<TensorArena> make_arena(const TensorType& type, int copies) {
  TensorArena arena;
  arena.type = type;
  arena.copy_bytes = copy_bytes(type);
  Expected<cuda::DeviceBuffer> buffer = cuda::DeviceBuffer::allocate(arena.copy_bytes * copies);
  if (!buffer) return buffer.takeError();
  arena.buffer = std::move(*buffer);
  return arena;
}

Error fill_random(const Session& session, llvm::ArrayRef<std::byte> block, i64 phase,
                  TensorArena& arena) {
  const i64 period = static_cast<i64>(block.size());
  const i64 total = arena.buffer.bytes();
  const i64 from = phase % period;
  // One period: the block from its phase to its end, then its beginning.
  const i64 head = std::min(total, period - from);
  if (Error error = arena.buffer.upload(block.data() + from, head)) return error;
  const i64 tail = std::min(total, period) - head;
  if (Error error = arena.buffer.upload(block.data(), tail, head)) return error;
  if (Error error = session.synchronize_context()) return error;
  // Doubling keeps the period: `filled` is a multiple of it until the last copy.
  for (i64 filled = head + tail; filled < total;) {
    const i64 piece = std::min(filled, total - filled);
    if (Error error =
            session.check(session.api().memcpy_dtod_async(
                              arena.buffer.get() + static_cast<u64>(filled), arena.buffer.get(),
                              static_cast<size_t>(piece), session.stream()),
                          "filling a tensor")) {
      return error;
    }
    filled += piece;
  }
  arena.host.resize(static_cast<size_t>(tensor_bytes(arena.type)));
  RandomPool::repeat(block, from, arena.host.data(), static_cast<i64>(arena.host.size()));
  return Error::success();
}

Error fill_ends(llvm::ArrayRef<i32> ends, int copies, TensorArena& arena) {
  const i64 bytes = tensor_bytes(arena.type);
  if (bytes != static_cast<i64>(ends.size() * sizeof(i32))) {
    return make_error(ErrorCode::kInternal, "{} ragged ends for a tensor of {} bytes", ends.size(),
                      bytes);
  }
  arena.host.resize(static_cast<size_t>(bytes));
  std::memcpy(arena.host.data(), ends.data(), static_cast<size_t>(bytes));
  for (int copy = 0; copy < copies; ++copy) {
    if (Error error = arena.buffer.upload(ends.data(), bytes, copy * arena.copy_bytes)) {
      return error;
    }
  }
  return Error::success();
}

Expected<Tensors> make_tensors(const Session& session, RandomPool& pool, const VerifiedChain& chain,
                               llvm::ArrayRef<i32> ends, int copies) {
  Tensors tensors;
  i64 phase = 0;
  for (ValueId id : chain.parameters()) {
    const Value& value = chain.value(id);
    Expected<TensorArena> arena = make_arena(chain.info(id).type, copies);
    if (!arena) return arena.takeError();
    if (arena->type.dtype == DType::kI32) {
      if (Error error = fill_ends(ends, copies, *arena)) return error;
    } else {
      const i64 terms = value.role == Role::kWeight ? contraction_terms(chain, id) : 0;
      const double scale = terms > 0 ? 1 / std::sqrt(static_cast<double>(terms)) : 1;
      const auto block = pool.block(arena->type.dtype, scale);
      if (Error error = fill_random(session, block, phase, *arena)) return error;
      // The next tensor starts elsewhere in the block, at a multiple of 16 bytes.
      phase += 16 * 300007;
    }
    tensors[value.name] = std::move(*arena);
  }
  const std::vector<std::string> names = output_names(chain);
  for (size_t i = 0; i < names.size(); ++i) {
    Expected<TensorArena> output = make_arena(chain.output_type(static_cast<int>(i)), copies);
    if (!output) return output.takeError();
    if (Error error = output->buffer.fill(0xff)) return error;
    tensors[names[i]] = std::move(*output);
  }
  if (Error error = session.synchronize_context()) return error;
  return tensors;
}

i64 input_bytes(const VerifiedChain& chain) {
  i64 bytes = 0;
  for (ValueId id : chain.parameters()) bytes += copy_bytes(chain.info(id).type);
  return bytes;
}

i64 set_bytes(const VerifiedChain& chain) {
  i64 bytes = input_bytes(chain);
  for (size_t i = 0; i < chain.chain().outputs.size(); ++i) {
    bytes += copy_bytes(chain.output_type(static_cast<int>(i)));
  }
  return bytes;
}

}  // namespace catenary::tuner
