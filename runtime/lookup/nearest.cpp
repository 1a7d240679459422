// SPDX-License-Identifier: Apache-2.0
#include "runtime/lookup/nearest.h"

#include <fmt/ranges.h>

#include <cmath>
#include <optional>
#include <utility>

#include "compiler/compile/host_compiler.h"
#include "ir/text/text.h"

namespace catenary {
namespace {

constexpr size_t kMaxRead = 512;
constexpr size_t kMaxDifferences = 3;  // in the sentence

std::string range_text(const std::optional<Symbol>& symbol) {
  return symbol ? fmt::format("{}..{}", symbol->lo, symbol->hi) : "no symbol";
}

// Collects "<what> <packed> (asked: <asked>)" where the two differ.
class Differences {
 public:
  // Fewer differences first; of as many, the smaller ones: 2000 is nearer to 2048 than 16 is.
  bool nearer_than(const Differences& other) const {
    return std::make_pair(size(), octaves_) < std::make_pair(other.size(), other.octaves_);
  }
  void add(const std::string& what, std::string_view packed, std::string_view asked) {
    if (packed == asked) return;
    texts_.push_back(fmt::format("{} {} (asked: {})", what, packed, asked));
  }
  void add(const std::string& what, i64 packed, i64 asked) {
    add(what, fmt::to_string(packed), fmt::to_string(asked));
    add_octaves(packed, asked);
  }
  void add_octaves(i64 packed, i64 asked) {
    octaves_ +=
        std::abs(std::log2((static_cast<double>(packed) + 1) / (static_cast<double>(asked) + 1)));
  }
  size_t size() const { return texts_.size(); }
  std::string text() const {
    const size_t shown = std::min(texts_.size(), kMaxDifferences);
    std::string text = fmt::format(
        "{}", fmt::join(texts_.begin(), texts_.begin() + static_cast<ptrdiff_t>(shown), ", "));
    if (texts_.size() > shown) text += fmt::format(" and {} more", texts_.size() - shown);
    return text;
  }

 private:
  std::vector<std::string> texts_;
  double octaves_ = 0;  // between sizes, over all of them
};

void compare_type(const std::string& name, const TensorType& packed, const TensorType& asked,
                  Differences& differences) {
  differences.add(name + " of", dtype_text(packed.dtype), dtype_text(asked.dtype));
  const auto size = [](const Dim& dim) {
    return dim.symbolic ? std::string("symbolic") : fmt::to_string(dim.size);
  };
  const int rank = std::min(packed.rank(), asked.rank());
  bool same_sizes = packed.rank() == asked.rank();
  for (int d = 0; d < rank; ++d) {
    const bool same = packed.shape[d].symbolic == asked.shape[d].symbolic &&
                      (packed.shape[d].symbolic || packed.shape[d].size == asked.shape[d].size);
    same_sizes = same_sizes && same;
    if (!same) {
      differences.add(fmt::format("size {} of {}", d, name), size(packed.shape[d]),
                      size(asked.shape[d]));
      differences.add_octaves(packed.shape[d].size, asked.shape[d].size);
    }
  }
  // Other sizes have other contiguous strides.
  if (same_sizes && packed.strides != asked.strides) {
    differences.add(name + " with strides", fmt::format("[{}]", fmt::join(packed.strides, ", ")),
                    fmt::format("[{}]", fmt::join(asked.strides, ", ")));
  }
  differences.add(name + " aligned to", packed.align, asked.align);
}

// Where output `i` is, by the position of its parameter: names do not count.
std::string place_text(const Chain& chain, size_t i) {
  const ValueId place = chain.outputs[i].in_place;
  return place < 0 ? "in its own memory" : fmt::format("in place of parameter {}", place);
}

void compare_options(const ChainOptions& packed, const ChainOptions& asked,
                     Differences& differences) {
  const auto tile = [](const std::string& text) {
    return text.empty() ? std::string("the planner's") : text;
  };
  differences.add("fusion", packed.fuse ? "on" : "off", asked.fuse ? "on" : "off");
  differences.add("split-K", packed.split_k, asked.split_k);
  differences.add("tile", tile(packed.force_tile), tile(asked.force_tile));
  differences.add("spills", packed.allow_spills ? "allowed" : "refused",
                  asked.allow_spills ? "allowed" : "refused");
  differences.add("batch invariance", packed.batch_invariant ? "on" : "off",
                  asked.batch_invariant ? "on" : "off");
}

// Both chains have the same structure, so values and outputs correspond one to one.
Differences compare(const ChainRequest& request, const PackEntry& entry,
                    const VerifiedChain& packed) {
  Differences differences;
  const VerifiedChain& asked = request.chain;
  for (const ChainWord& word : kChainWords) {
    differences.add(fmt::format("{} of the chain", word.name),
                    packed.chain().words.*word.member ? "on" : "off",
                    asked.chain().words.*word.member ? "on" : "off");
  }
  differences.add("machine code for", arch_words(entry.record.arch), arch_words(request.arch()));
  const std::optional<Symbol>& range = packed.chain().symbol;
  const std::optional<Symbol>& wanted = asked.chain().symbol;
  differences.add(wanted ? wanted->name + " in" : "symbol in", range_text(range),
                  range_text(wanted));
  if (range && wanted) {
    differences.add_octaves(range->lo, wanted->lo);
    differences.add_octaves(range->hi, wanted->hi);
  }
  const size_t parameters = std::min(packed.parameters().size(), asked.parameters().size());
  for (size_t p = 0; p < parameters; ++p) {
    const ValueId a = packed.parameters()[p];
    const ValueId b = asked.parameters()[p];
    const std::string name = "'" + asked.value(b).name + "'";
    differences.add(name + " as", role_text(packed.value(a).role), role_text(asked.value(b).role));
    compare_type(name, packed.info(a).type, asked.info(b).type, differences);
  }
  const size_t outputs = std::min(packed.chain().outputs.size(), asked.chain().outputs.size());
  for (size_t i = 0; i < outputs; ++i) {
    const int number = static_cast<int>(i);
    TensorType mine = asked.output_type(number);
    TensorType theirs = packed.output_type(number);
    // Sizes of outputs follow from those of the parameters.
    if (mine.shape != theirs.shape) theirs.strides = mine.strides;
    theirs.shape = mine.shape;
    const std::string name = fmt::format("output {}", i);
    compare_type(name, theirs, mine, differences);
    differences.add(name, place_text(packed.chain(), i), place_text(asked.chain(), i));
  }
  compare_options(entry.record.options, request.options, differences);
  return differences;
}

}  // namespace

std::string nearest_text(const ChainRequest& request,
                         llvm::ArrayRef<std::shared_ptr<const Pack>> packs) {
  if (packs.empty()) {
    return "no pack was given: name one in CATENARY_PACK_PATH, or add it to the engine";
  }
  const u64 structure = structure_id(request.chain);
  std::optional<Differences> best;
  std::string where;
  size_t left = kMaxRead;
  for (const auto& pack : packs) {
    Expected<std::vector<size_t>> rows = pack->rows_of_structure(structure, left);
    if (!rows) {
      llvm::consumeError(rows.takeError());
      continue;
    }
    for (size_t row : *rows) {
      --left;
      Expected<PackEntry> entry = pack->entry(row);
      if (!entry) {
        llvm::consumeError(entry.takeError());
        continue;
      }
      Expected<Chain> chain = parse(entry->record.text);
      Expected<VerifiedChain> packed = chain ? verify(std::move(*chain)) : chain.takeError();
      if (!packed) {
        llvm::consumeError(packed.takeError());
        continue;
      }
      Differences differences = compare(request, *entry, *packed);
      if (best && !differences.nearer_than(*best)) continue;
      best = std::move(differences);
      where = fmt::format("'{}' of the pack {}", entry->record.name, pack->name());
    }
  }
  if (!best) {
    return fmt::format("no entry of {} has its operations",
                       packs.size() == 1 ? "the pack " + packs[0]->name()
                                         : fmt::format("the {} packs", packs.size()));
  }
  if (best->size() == 0) return fmt::format("{} has it, and cannot run on this device", where);
  return fmt::format("the nearest entry, {}, has {}", where, best->text());
}

}  // namespace catenary
