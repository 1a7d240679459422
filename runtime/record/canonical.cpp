// SPDX-License-Identifier: Apache-2.0
#include "runtime/record/canonical.h"

#include <algorithm>
#include <map>

#include "ir/text/text.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/SHA256.h"

namespace catenary {
namespace {

constexpr llvm::StringLiteral kSchema = "catenary chain key 1";

// Renames labels by one bijection over the whole chain: an elementwise value names labels of the
// contraction that it reads.
class Labels {
 public:
  void rename(std::string& text) {
    for (char& c : text) c = renamed(c);
  }
  char renamed(char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter) return c;
    const auto [it, fresh] = names_.try_emplace(c, '\0');
    if (fresh) it->second = name(names_.size() - 1);
    return it->second;
  }

 private:
  static char name(size_t i) { return static_cast<char>(i < 26 ? 'a' + i : 'A' + (i - 26)); }
  std::map<char, char> names_;  // at most the 52 letters
};

Chain renamed(const VerifiedChain& verified) {
  Chain chain = verified.chain();
  chain.name = "c";
  if (chain.symbol) chain.symbol->name = "S";
  Labels labels;
  for (size_t i = 0; i < chain.values.size(); ++i) {
    Value& value = chain.values[i];
    value.name = fmt::format("v{}", i);
    if (value.op == Op::kParameter) value.type = verified.info(static_cast<ValueId>(i)).type;
    labels.rename(value.equation);
    for (Use& use : value.operands) labels.rename(use.labels);
    if (value.ragged) {
      value.ragged->label = labels.renamed(value.ragged->label);
      value.ragged->group = labels.renamed(value.ragged->group);
    }
  }
  for (size_t i = 0; i < chain.outputs.size(); ++i) {
    chain.outputs[i].strides = verified.output_type(static_cast<int>(i)).strides;
  }
  return chain;
}

void add_text(llvm::SHA256& hash, llvm::StringRef text) {
  char length[8];
  llvm::support::endian::write64le(length, text.size());
  hash.update(llvm::StringRef(length, sizeof length));
  hash.update(text);
}

}  // namespace

std::string canonical_text(const VerifiedChain& chain) { return print(renamed(chain)); }

std::string structure_text(const VerifiedChain& verified) {
  Chain chain = renamed(verified);
  chain.symbol.reset();
  chain.words = {};
  for (Value& value : chain.values) {
    if (value.op != Op::kParameter) continue;
    TensorType type;
    type.shape.assign(value.type.shape.size(), Dim{1, false});
    value.type = std::move(type);
    if (value.role == Role::kWeight) value.role = Role::kInput;
  }
  for (Output& output : chain.outputs) {
    output.strides.clear();
    output.align = 16;
    output.dtype = DType::kF32;
    output.in_place = -1;
  }
  return print(chain);
}

u64 structure_id(const VerifiedChain& chain) {
  llvm::SHA256 hash;
  hash.update(structure_text(chain));
  return llvm::support::endian::read64le(hash.final().data());
}

std::string options_text(const ChainOptions& options) {
  return fmt::format("fuse={:d} split_k={} force_tile={} allow_spills={:d}{}", options.fuse,
                     options.split_k, options.force_tile, options.allow_spills,
                     options.batch_invariant ? " batch_invariant=1" : "");
}

KernelKey chain_key(const std::string& canonical, const std::string& arch,
                    const ChainOptions& options) {
  llvm::SHA256 hash;
  add_text(hash, kSchema);
  add_text(hash, canonical);
  add_text(hash, arch);
  add_text(hash, options_text(options));
  KernelKey key;
  std::ranges::copy(hash.final(), key.bytes.begin());
  return key;
}

}  // namespace catenary
