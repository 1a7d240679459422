// SPDX-License-Identifier: Apache-2.0
#include "runtime/pack/entry.h"

#include <cmath>

#include "ir/sha256.h"
#include "llvm/ADT/StringExtras.h"
#include "runtime/pack/byte_stream.h"
#include "runtime/pack/format.h"

namespace catenary {
namespace {

using pack_format::kCritical;
using pack_format::Tag;

// ---- writing: one function a record ---------------------------------------------------------

void write_record(ByteWriter& out, Tag tag, bool critical, ByteWriter payload) {
  out.u32_(static_cast<u32>(tag) | (critical ? kCritical : 0));
  out.u32_(static_cast<u32>(payload.size()));
  out.raw(payload.bytes());
  out.align(8);
}

ByteWriter identity_bytes(const PackEntry& entry) {
  ByteWriter out;
  out.text(entry.canonical);
  out.text(entry.record.arch);
  // Two flags: a library that does not know the second one refuses the entry.
  out.u8_(static_cast<u8>(entry.record.options.fuse | entry.record.options.batch_invariant << 1));
  out.i32_(entry.record.options.split_k);
  out.text(entry.record.options.force_tile);
  out.u8_(entry.record.options.allow_spills);
  return out;
}

ByteWriter chain_bytes(const ChainRecord& record) {
  ByteWriter out;
  out.text(record.text);
  out.text(record.name);
  out.u8_(record.symbol.has_value());
  if (record.symbol) {
    out.text(record.symbol->name);
    out.i64_(record.symbol->lo);
    out.i64_(record.symbol->hi);
  }
  return out;
}

// Set in a dtype's byte of a packed tensor: no dtype that a library without that layout knows.
constexpr u8 kPackedBit = 0x80;

void write_type(ByteWriter& out, const TensorType& type) {
  out.u8_(static_cast<u8>(type.dtype) | (type.packed ? kPackedBit : 0));
  out.i64_(type.align);
  out.u8_(static_cast<u8>(type.rank()));
  for (int d = 0; d < type.rank(); ++d) {
    out.i64_(type.shape[d].size);
    out.u8_(type.shape[d].symbolic);
    out.i64_(type.strides[d]);
  }
}

ByteWriter tensor_bytes(const ChainRecord& record) {
  ByteWriter out;
  out.u32_(static_cast<u32>(record.tensors.size()));
  for (const TensorRecord& tensor : record.tensors) {
    out.text(tensor.name);
    out.u8_(static_cast<u8>(tensor.role));
    out.u8_(tensor.output);
    out.i64_(tensor.align);
    out.i32_(tensor.in_place);
    write_type(out, tensor.type);
  }
  out.u32_(static_cast<u32>(record.num_inputs));
  out.u32_(static_cast<u32>(record.num_scalars));
  out.i64_(record.workspace_bytes);
  return out;
}

void write_map(ByteWriter& out, const MapBinding& map) {
  out.i32_(map.slot);
  out.u8_(static_cast<u8>(map.dtype));
  out.u8_(static_cast<u8>(map.swizzle));
  out.u8_(map.as_tf32);
  out.u8_(static_cast<u8>(map.dims.size()));
  for (const MapBinding::Dimension& dim : map.dims) {
    out.i64_(dim.size.size);
    out.i64_(dim.size.scale);
    out.i64_(dim.stride);
    out.i32_(dim.box);
  }
}

void write_kernel(ByteWriter& out, const KernelRecord& kernel) {
  const GridRule& grid = kernel.grid;
  out.text(kernel.symbol);
  out.text(kernel.family);
  out.text(kernel.config_text);
  for (i64 value : {grid.fixed, grid.size, grid.scale, grid.block, grid.extra, grid.limit}) {
    out.i64_(value);
  }
  out.i32_(kernel.threads);
  out.i32_(kernel.cluster);
  out.i64_(kernel.smem_bytes);
  out.u8_(kernel.pdl);
  out.u32_(static_cast<u32>(kernel.slots.size()));
  for (const SlotRecord& slot : kernel.slots) {
    out.i32_(slot.tensor);
    out.i64_(slot.offset);
  }
  out.u32_(static_cast<u32>(kernel.maps.size()));
  for (const MapBinding& map : kernel.maps) write_map(out, map);
  out.u32_(static_cast<u32>(kernel.scalars.size()));
  for (int scalar : kernel.scalars) out.i32_(scalar);
  out.key(kernel.identity);
  out.text(kernel.cubin->compiler_id);
  const KernelResources& used = kernel.cubin->resources;
  for (int value : {used.registers, used.spill_bytes, used.stack_bytes, used.static_smem_bytes}) {
    out.i32_(value);
  }
}

ByteWriter bucket_bytes(const ChainRecord& record) {
  ByteWriter out;
  out.u32_(static_cast<u32>(record.buckets.size()));
  for (const BucketRecord& bucket : record.buckets) {
    out.i64_(bucket.lo);
    out.i64_(bucket.hi);
    out.u32_(static_cast<u32>(bucket.kernels.size()));
    for (const KernelRecord& kernel : bucket.kernels) write_kernel(out, kernel);
  }
  return out;
}

ByteWriter target_bytes(const Target& target) {
  ByteWriter out;
  out.text(target.name);
  out.text(target.arch);
  out.i32_(target.sm_count);
  out.f64_(target.clock_ghz);
  for (i64 value : {target.smem_per_sm, target.smem_per_cta, target.l2_bytes}) out.i64_(value);
  for (double value :
       {target.dram_gbs, target.tensor_tflops, target.tf32_tflops, target.f32_tflops}) {
    out.f64_(value);
  }
  return out;
}

void write_keys(ByteWriter& out, const std::vector<KernelKey>& keys) {
  out.u32_(static_cast<u32>(keys.size()));
  for (const KernelKey& key : keys) out.key(key);
}

ByteWriter text_bytes(const PackEntry& entry) {
  ByteWriter out;
  out.key(entry.explain_text);
  out.key(entry.explain_json);
  write_keys(out, entry.sources);
  return out;
}

ByteWriter provenance_bytes(const PackEntry& entry) {
  ByteWriter out;
  write_keys(out, entry.kernel_keys);
  out.text(entry.made_by);
  return out;
}

// ---- reading: the same functions, the other way ---------------------------------------------

void read_identity(ByteReader& in, PackEntry& entry) {
  entry.canonical = in.text();
  entry.record.arch = in.text();
  const u8 flags = in.flags(2);
  entry.record.options.fuse = (flags & 1) != 0;
  entry.record.options.batch_invariant = (flags & 2) != 0;
  entry.record.options.split_k = in.i32_();
  entry.record.options.force_tile = in.text();
  entry.record.options.allow_spills = in.flag();
}

void read_chain(ByteReader& in, ChainRecord& record) {
  record.text = in.text();
  record.name = in.text();
  if (!in.flag()) return;
  record.symbol.emplace();
  record.symbol->name = in.text();
  record.symbol->lo = in.i64_();
  record.symbol->hi = in.i64_();
}

TensorType read_type(ByteReader& in) {
  TensorType type;
  const u8 dtype = in.u8_();
  type.dtype = static_cast<DType>(dtype & ~kPackedBit);
  type.packed = (dtype & kPackedBit) != 0;
  type.align = in.i64_();
  const int rank = in.u8_();
  for (int d = 0; d < rank && in.ok(); ++d) {
    Dim dim;
    dim.size = in.i64_();
    dim.symbolic = in.flag();
    type.shape.push_back(dim);
    type.strides.push_back(in.i64_());
  }
  return type;
}

void read_tensors(ByteReader& in, ChainRecord& record) {
  for (size_t left = in.count(16); left > 0 && in.ok(); --left) {
    TensorRecord& tensor = record.tensors.emplace_back();
    tensor.name = in.text();
    tensor.role = static_cast<Role>(in.u8_());
    tensor.output = in.flag();
    tensor.align = in.i64_();
    tensor.in_place = in.i32_();
    tensor.type = read_type(in);
  }
  record.num_inputs = in.u32_();
  record.num_scalars = in.u32_();
  record.workspace_bytes = in.i64_();
}

MapBinding read_map(ByteReader& in) {
  MapBinding map;
  map.slot = in.i32_();
  map.dtype = static_cast<DType>(in.u8_());
  map.swizzle = static_cast<Swizzle>(in.u8_());
  map.as_tf32 = in.flag();
  const int rank = in.u8_();
  for (int d = 0; d < rank && in.ok(); ++d) {
    MapBinding::Dimension dim;
    dim.size.size = in.i64_();
    dim.size.scale = in.i64_();
    dim.stride = in.i64_();
    dim.box = in.i32_();
    map.dims.push_back(dim);
  }
  return map;
}

KernelRecord read_kernel(ByteReader& in) {
  KernelRecord kernel;
  GridRule& grid = kernel.grid;
  kernel.symbol = in.text();
  kernel.family = in.text();
  kernel.config_text = in.text();
  for (i64* value : {&grid.fixed, &grid.size, &grid.scale, &grid.block, &grid.extra, &grid.limit}) {
    *value = in.i64_();
  }
  kernel.threads = in.i32_();
  kernel.cluster = in.i32_();
  kernel.smem_bytes = in.i64_();
  kernel.pdl = in.flag();
  for (size_t left = in.count(12); left > 0 && in.ok(); --left) {
    SlotRecord& slot = kernel.slots.emplace_back();
    slot.tensor = in.i32_();
    slot.offset = in.i64_();
  }
  for (size_t left = in.count(8); left > 0 && in.ok(); --left) kernel.maps.push_back(read_map(in));
  for (size_t left = in.count(4); left > 0 && in.ok(); --left) kernel.scalars.push_back(in.i32_());
  kernel.identity = in.key();
  auto cubin = std::make_shared<Cubin>();
  cubin->symbol = kernel.symbol;
  cubin->compiler_id = in.text();
  KernelResources& used = cubin->resources;
  for (int* value :
       {&used.registers, &used.spill_bytes, &used.stack_bytes, &used.static_smem_bytes}) {
    *value = in.i32_();
  }
  kernel.cubin = std::move(cubin);
  return kernel;
}

void read_buckets(ByteReader& in, ChainRecord& record) {
  for (size_t left = in.count(20); left > 0 && in.ok(); --left) {
    BucketRecord& bucket = record.buckets.emplace_back();
    bucket.lo = in.i64_();
    bucket.hi = in.i64_();
    for (size_t kernels = in.count(100); kernels > 0 && in.ok(); --kernels) {
      bucket.kernels.push_back(read_kernel(in));
    }
  }
}

void read_target(ByteReader& in, Target& target) {
  target.name = in.text();
  target.arch = in.text();
  target.sm_count = in.i32_();
  target.clock_ghz = in.f64_();
  for (i64* value : {&target.smem_per_sm, &target.smem_per_cta, &target.l2_bytes}) {
    *value = in.i64_();
  }
  for (double* value :
       {&target.dram_gbs, &target.tensor_tflops, &target.tf32_tflops, &target.f32_tflops}) {
    *value = in.f64_();
  }
}

std::vector<KernelKey> read_keys(ByteReader& in) {
  std::vector<KernelKey> keys;
  for (size_t left = in.count(32); left > 0 && in.ok(); --left) keys.push_back(in.key());
  return keys;
}

void read_texts(ByteReader& in, PackEntry& entry) {
  entry.explain_text = in.key();
  entry.explain_json = in.key();
  entry.sources = read_keys(in);
}

void read_provenance(ByteReader& in, PackEntry& entry) {
  entry.kernel_keys = read_keys(in);
  entry.made_by = in.text();
}

// False: the tag is unknown.
bool read_payload(u32 tag, ByteReader& in, PackEntry& entry) {
  switch (static_cast<Tag>(tag)) {
    case Tag::kIdentity:
      return read_identity(in, entry), true;
    case Tag::kChain:
      return read_chain(in, entry.record), true;
    case Tag::kTensors:
      return read_tensors(in, entry.record), true;
    case Tag::kBuckets:
      return read_buckets(in, entry.record), true;
    case Tag::kTarget:
      return read_target(in, entry.record.target), true;
    case Tag::kTexts:
      return read_texts(in, entry), true;
    case Tag::kProvenance:
      return read_provenance(in, entry), true;
  }
  return false;
}

Error corrupt(std::string reason) {
  return make_error_text(ErrorCode::kCorruptArtifact, std::move(reason));
}

}  // namespace

KernelKey sha256(llvm::ArrayRef<u8> bytes) { return {sha256_digest(bytes)}; }

u64 fit_of(const Target& target) {
  ByteWriter out;
  out.text(target.name);
  out.i32_(target.sm_count);
  out.i64_(target.smem_per_cta);
  out.i64_(target.l2_bytes);
  return llvm::support::endian::read64le(sha256(out.bytes()).bytes.data());
}

std::vector<u8> encode_entry(const PackEntry& entry) {
  ByteWriter out;
  write_record(out, Tag::kIdentity, true, identity_bytes(entry));
  write_record(out, Tag::kChain, true, chain_bytes(entry.record));
  write_record(out, Tag::kTensors, true, tensor_bytes(entry.record));
  write_record(out, Tag::kBuckets, true, bucket_bytes(entry.record));
  write_record(out, Tag::kTarget, true, target_bytes(entry.record.target));
  write_record(out, Tag::kTexts, false, text_bytes(entry));
  write_record(out, Tag::kProvenance, false, provenance_bytes(entry));
  return out.take();
}

Expected<PackEntry> decode_entry(llvm::ArrayRef<u8> bytes) {
  PackEntry entry;
  u32 seen = 0;
  ByteReader in(bytes);
  while (in.left() > 0) {
    const u32 word = in.u32_();
    const u32 tag = word & ~kCritical;
    const u32 size = in.u32_();
    ByteReader payload(in.raw(size));
    in.skip((8 - size % 8) % 8);
    if (!in.ok()) return corrupt("a record ends beyond its entry");
    const bool known = read_payload(tag, payload, entry);
    if (!known && (word & kCritical) != 0) {
      return make_error(ErrorCode::kUnsupported,
                        "it has a record of kind {} that this library does not know", tag);
    }
    if (!known) continue;
    if ((seen >> tag & 1) != 0) return corrupt(fmt::format("it has two records of kind {}", tag));
    seen |= u32{1} << tag;
    if (!payload.done()) return corrupt(fmt::format("its record of kind {} is malformed", tag));
  }
  for (Tag tag : {Tag::kIdentity, Tag::kChain, Tag::kTensors, Tag::kBuckets, Tag::kTarget}) {
    if ((seen >> static_cast<u32>(tag) & 1) == 0) {
      return corrupt(fmt::format("it has no record of kind {}", static_cast<u32>(tag)));
    }
  }
  if (std::string problem = entry_problem(entry); !problem.empty()) return corrupt(problem);
  for (BucketRecord& bucket : entry.record.buckets) {
    for (KernelRecord& kernel : bucket.kernels) {
      auto cubin = std::make_shared<Cubin>(*kernel.cubin);
      cubin->arch = entry.record.arch;
      kernel.cubin = std::move(cubin);
    }
  }
  return entry;
}

}  // namespace catenary
