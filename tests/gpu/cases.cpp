// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/cases.h"

#include <algorithm>

#include "compiler/families/gemm_sm80/candidates.h"
#include "compiler/families/gemm_sm90/candidates.h"
#include "compiler/families/skinny/candidates.h"
#include "compiler/kernel_family.h"
#include "ir/random/random.h"
#include "ir/random/random_chain.h"
#include "ir/random/reduce_sizes.h"
#include "ir/text/text.h"
#include "tests/gpu/mapped_chain.h"
#include "tests/support/prefer_family.h"

namespace catenary::gpu_suite {
namespace {

constexpr int kForcedSplits[] = {2, 3, 4, 6, 8};
// Small cases: the most multiply-adds per launch, and the size that larger cases are reduced to;
// another one where a family must take them, or weights are quantised, which needs a longer K.
constexpr double kSmallWork = 2e6;
constexpr i64 kSmallSize = 136;
constexpr i64 kFamilySize = 200;

// The names of one row of gemm_sm80_tiles(): 32-bit operands halve K, a dual GEMM halves N.
std::vector<std::string> tile_names(const GemmSm80Tile& tile) {
  std::vector<std::string> names;
  for (bool gated : {false, true}) {
    for (bool wide : {false, true}) {
      GemmSm80Config config;
      config.tile = tile;
      if (gated) config.tile.block_n = std::max(tile.block_n / 2, 16 * tile.warps_n);
      if (wide) config.tile.block_k = tile.block_k / 2;
      names.push_back(tile_name(config));
    }
  }
  return names;
}

// Shapes that random cases force: those of any problem, and clusters of four and eight CTAs.
const std::vector<GemmSm90Shape>& sm90_shapes() {
  static const std::vector<GemmSm90Shape> all = [] {
    std::vector<GemmSm90Shape> shapes = gemm_sm90_shapes().vec();
    llvm::append_range(shapes, gemm_sm90_clustered_shapes());
    return shapes;
  }();
  return all;
}

// The names of one row of sm90_shapes(): single and dual GEMM, 16-bit and 32-bit operands.
std::vector<std::string> tile_names(const GemmSm90Shape& shape, const Target& target) {
  std::vector<std::string> names;
  for (const MathMode math : {MathMode::kBF16, MathMode::kTF32}) {
    for (bool gated : {false, true}) {
      GemmSm90Config config;
      config.space.math = math;
      config.dual = gated;
      names.push_back(tile_name(with_shape(config, shape, target)));
    }
  }
  return names;
}

// Every fourth random chain has small M.
bool has_small_m(i64 index) { return index % 4 == 0; }

// Half of those draw quantised weights.
bool has_dequant(i64 index) { return index % 8 == 4; }

// True if the case's family must compute it on this target. Forced shapes certainly fit only sm_90.
bool names_family(const Case& from, const Target& target) {
  if (from.family.empty() || target.compute_capability() == 90) return !from.family.empty();
  return from.family == "skinny" && from.options.force_tile.empty();
}

// Shapes of `skinny`. The planner would not choose most of them.
std::vector<std::string> skinny_names(u64 seed) {
  Random random(seed);
  std::vector<std::string> names;
  for (int i = 0; i < 8; ++i) {
    SkinnyConfig config;
    config.tile.warps_k = static_cast<i32>(random.range(4, 8));
    config.tile.warps_n = static_cast<i32>(random.range(1, 3));
    config.loads.shared_blocks = static_cast<i32>(random.range(0, 4));
    config.loads.register_blocks =
        static_cast<i32>(random.range(config.loads.shared_blocks == 0 ? 1 : 0, 2));
    config.loads.copy_groups = 1 << random.range(0, 4);
    config.loads.x_chunks = static_cast<i32>(random.range(1, config.warp_blocks()));
    config.loads.bulk = random.range(0, 1) == 0;
    if (!config.loads.bulk)
      config.loads.copy_groups =
          std::clamp(config.loads.copy_groups, 1, std::max(config.loads.shared_blocks, 1));
    // Half of them have several row tiles, or cluster split-K.
    if (random.range(0, 1) == 0) config.tile.row_tiles = 1 << random.range(0, 2);
    if (config.loads.bulk && random.range(0, 1) == 0)
      config.schedule.cluster_k = 1 << random.range(0, 3);
    // A third of them have slices of N; row tiles follow from those.
    if (random.range(0, 2) == 0) {
      config.tile.warps_n = config.tile.row_tiles = 1;
      config.schedule.n_slices = static_cast<i32>(random.range(1, 6));
      if (config.loads.bulk) config.schedule.cluster_k = static_cast<i32>(random.range(1, 8));
    }
    names.push_back(tile_name(config));
  }
  return names;
}

RandomChainOptions chain_options(i64 index, bool exact, bool small) {
  RandomChainOptions options;
  options.exact_only = exact;
  options.no_ragged = index % 4 != 0;
  // The generator often chooses pointwise chains; every eighth chain certainly is one.
  options.max_contractions = index % 8 == 5 ? 0 : 2;
  options.max_elements = index % 20 == 0 ? 1 << 18 : index % 5 < 2 ? 1 << 15 : 4096;
  if (small) options.max_elements = index % 20 == 0 ? 1 << 13 : index % 5 < 2 ? 4096 : 2048;
  options.small_m = has_small_m(index);
  options.fp8 = options.small_m && index % 3 == 0;
  options.no_dequant = !has_dequant(index);
  if (options.small_m) options.max_elements = small ? 1 << 15 : 1 << 16;
  return options;
}

double multiply_adds(const VerifiedChain& chain, i64 symbol) {
  const auto size = [&](const Dim& dim) {
    return static_cast<double>(dim.symbolic ? symbol : dim.size);
  };
  double sum = 0;
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    const auto& contraction = chain.info(id).contraction;
    if (!contraction) continue;
    double product = 1;
    for (const ContractionLabel& label : contraction->k) product *= size(label.size);
    for (const Dim& dim : chain.info(id).type.shape) product *= size(dim);
    sum += product;
  }
  return sum;
}

// Clamps group ends to the rows of the smaller chain.
void clamp_ends(const VerifiedChain& chain, Case& made) {
  for (const ValueId id : chain.parameters()) {
    const auto rows = ragged_size(chain, id, made.symbols[0]);
    if (!rows) continue;
    for (std::vector<i32>& ends : made.ends) {
      for (i32& end : ends) end = std::min(end, static_cast<i32>(*rows));
    }
  }
}

// Reduces the tensors of a handwritten case that would take the simulator too long.
void reduce_work(Case& made) {
  Expected<VerifiedChain> chain = verify(made.chain);
  // prepare_case() reports the error.
  if (!chain) return llvm::consumeError(chain.takeError());
  double work = 0;
  for (i64 symbol : made.symbols) work = std::max(work, multiply_adds(*chain, symbol));
  if (work <= kSmallWork) return;
  const bool quantised =
      llvm::any_of(made.chain.values, [](const Value& value) { return value.op == Op::kDequant; });
  const bool of_family = quantised || !made.family.empty();
  Expected<ReducedChain> small = reduce_sizes(*chain, of_family ? kFamilySize : kSmallSize);
  if (!small) return llvm::consumeError(small.takeError());
  if (made.chain.symbol) {
    for (i64& symbol : made.symbols) symbol = reduce_symbol(small->chain, symbol);
    std::sort(made.symbols.begin(), made.symbols.end());
    made.symbols.erase(std::unique(made.symbols.begin(), made.symbols.end()), made.symbols.end());
  }
  clamp_ends(small->chain, made);
  made.chain = small->chain.chain();
  made.reduced = true;
}

// Keeps both ends and one value between.
void keep_some_symbols(Case& made, const CaseList& list) {
  if (list.small && made.symbols.size() > 3) {
    made.symbols = {made.symbols.front(), made.symbols[2], made.symbols.back()};
  }
}

// For gemm_sm90: three of four cases with a forced tile, the others as planned.
Case mapped_case(i64 index, const CaseList& list) {
  const u64 seed = mix64(list.seed + static_cast<u64>(index) * 0x9e3779b97f4a7c15ull);
  const std::string text = mapped_chain(seed, list.small);
  const std::string name = fmt::format("mapped {}", index);
  Case made = from_text({name.c_str(), text.c_str(), {}, {}}, seed);
  made.index = index;
  made.real_data = index % 3 == 0;
  const i64 number = index / 4;
  if (number % 4 != 3) {
    made.tile = static_cast<int>(gemm_sm80_tiles().size() + number % sm90_shapes().size());
  }
  keep_some_symbols(made, list);
  return made;
}

Case random_case(i64 index, bool exact, const CaseList& list) {
  Case made;
  made.index = index;
  made.seed = mix64(list.seed + static_cast<u64>(index) * 0x9e3779b97f4a7c15ull);
  made.name = fmt::format("{} {}", exact ? "exact" : "general", index);
  made.chain = random_chain(made.seed, chain_options(index, exact, list.small));
  made.must_be_exact = exact;
  made.real_data = !exact || index % 3 == 0;
  if (has_dequant(index)) {
    // Tiles and slices of `skinny` are none of its kernels'.
  } else if (has_small_m(index)) {
    if (index % 3 == 0) made.options.split_k = 2 << made.seed % 3;
    if (index % 5 < 2) made.tiles = skinny_names(made.seed);
  } else {
    if (index % 10 == 3) made.options.split_k = kForcedSplits[index / 10 % 5];
    const i64 tiles = static_cast<i64>(gemm_sm80_tiles().size());
    if (index % 2 == 1)
      made.tiles = tile_names(gemm_sm80_tiles()[static_cast<size_t>(index / 2 % tiles)]);
  }
  if (index % 16 == 6) made.options.fuse = false;
  made.symbols = symbol_values(made.chain, made.seed);
  keep_some_symbols(made, list);
  return made;
}

}  // namespace

std::vector<i64> symbol_values(const Chain& chain, u64 seed) {
  if (!chain.symbol) return {0};
  const i64 lo = chain.symbol->lo;
  const i64 hi = chain.symbol->hi;
  std::vector<i64> values = {lo, hi, std::min(lo + 1, hi), std::max(hi - 1, lo),
                             Random(seed).range(lo, hi)};
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

Case from_text(const WrittenCase& written, u64 seed) {
  Case made;
  made.name = written.name;
  made.seed = seed;
  Expected<Chain> chain = parse(written.text);
  if (chain) {
    made.chain = std::move(*chain);
  } else {
    // verify() rejects an empty chain and reports the case.
    made.name += ": " + take_report(chain.takeError()).message;
  }
  made.options.split_k = written.split_k;
  made.options.force_tile = written.tile;
  made.options.prefer_inside = written.prefer_inside;
  made.family = written.family;
  made.symbols = written.symbols.empty() ? symbol_values(made.chain, seed) : written.symbols;
  made.ends = written.ends;
  made.real_data = true;
  return made;
}

i64 num_cases(const CaseList& list) {
  const i64 written = list.written ? static_cast<i64>(written_cases().size()) : 0;
  return std::max(list.exact_configs, written) + list.exact_configs / 4;
}

Case make_case(i64 index, const CaseList& list) {
  const auto& written = written_cases();
  if (!list.written || index >= static_cast<i64>(written.size())) {
    if (index < list.exact_configs && index % 4 == 2) return mapped_case(index, list);
    return random_case(index, index < list.exact_configs, list);
  }
  Case made = from_text(written[static_cast<size_t>(index)], list.seed + static_cast<u64>(index));
  made.index = index;
  if (list.small) reduce_work(made);
  return made;
}

Expected<Plan> plan_case(const VerifiedChain& chain, const Target& target, const Case& from,
                         PlanOptions& options) {
  if (names_family(from, target)) {
    options = testing::prefer_family(chain, target, from.family, from.options);
    return make_plan(chain, target, options);
  }
  std::vector<std::string> names = from.tiles;
  if (from.tile >= 0) {
    const auto row = static_cast<size_t>(from.tile);
    names = row < gemm_sm80_tiles().size()
                ? tile_names(gemm_sm80_tiles()[row])
                : tile_names(sm90_shapes()[row - gemm_sm80_tiles().size()], target);
  }
  if (!from.options.force_tile.empty()) names.insert(names.begin(), from.options.force_tile);
  names.push_back("");
  llvm::SmallVector<int, 2> splits = {0};
  if (from.options.split_k > 1) splits.insert(splits.begin(), from.options.split_k);
  ErrorReport last;
  for (const std::string& name : names) {
    for (int split : splits) {
      options = from.options;
      options.force_tile = name;
      options.split_k = split;
      Expected<Plan> plan = make_plan(chain, target, options);
      if (plan) return plan;
      last = take_report(plan.takeError());
    }
  }
  return make_error_text(last.code, last.message, last.at);
}

std::string family_problem(const Case& from, const Plan& plan) {
  if (!names_family(from, plan.target)) return "";
  for (const PlanBucket& bucket : plan.buckets) {
    const bool has = llvm::any_of(bucket.kernels, [&](const KernelPlan& kernel) {
      return family_name(kernel) == from.family;
    });
    if (bucket.hi > kSkinnyRows || has) continue;
    return fmt::format("the case requires {}, and sizes {} to {} have no such kernel", from.family,
                       bucket.lo, bucket.hi);
  }
  return "";
}

}  // namespace catenary::gpu_suite
