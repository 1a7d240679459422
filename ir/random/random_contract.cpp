// SPDX-License-Identifier: Apache-2.0
// Random contractions: labels by class, their orders in each tensor, and the tensors.
#include <algorithm>
#include <map>

#include "ir/random/random_parts.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {

namespace {

constexpr char kLetters[] = "bgminjkluvxyzBGMNK";

// Takes a number of labels for a class: none, one or two, in percent.
i64 class_size(Random& random, int none, int two) {
  const i64 roll = random.range(0, 99);
  return roll < none ? 0 : roll < 100 - two ? 1 : 2;
}

}  // namespace

void RandomParts::new_labels(Labels& labels) {
  const auto add = [&](i64 count, bool left, bool right, bool result) {
    for (i64 i = 0; i < count; ++i) labels.push_back({0, new_dim(), left, right, result});
  };
  // M first: it is symbolic most often.
  i64 m = class_size(random_, 6, 18);
  i64 n = class_size(random_, 6, 18);
  const i64 k = class_size(random_, 2, 18);
  const i64 batch = class_size(random_, 55, 12);
  if (batch + k == 0) m = std::max<i64>(m, 1), n = std::max<i64>(n, 1);
  const bool symbol_in_m = random_.chance(70);
  if (symbol_in_m) add(m, true, false, true);
  add(batch, true, true, true);
  add(n, false, true, true);
  if (!symbol_in_m) add(m, true, false, true);
  add(k, true, true, false);
}

// Batch and M in either order, then N, then K: no operand needs another order.
void RandomParts::few_row_labels(Labels& labels, DType dtype) {
  const Dim rows = symbol_ && !symbol_used_ ? new_dim() : Dim{random_.range(1, 16), false};
  const i64 block = 128 / dtype_bytes(dtype);
  const i64 most = std::clamp<i64>(options_.max_elements / (16 * block), 1, 24);
  // Some K end inside a block of 128 bytes, after a vector of 16.
  const i64 missing = random_.chance(30) ? block / 8 * random_.range(1, 7) : 0;
  const Dim terms{block * random_.range(1, most) - missing, false};
  const bool outer_batch = random_.chance(15);
  if (outer_batch) labels.push_back({0, {random_.range(1, 3), false}, true, true, true});
  labels.push_back({0, rows, true, false, true, true});
  if (!outer_batch && random_.chance(15)) {
    labels.push_back({0, {random_.range(1, 3), false}, true, true, true});
  }
  labels.push_back({0, new_dim(), false, true, true});
  labels.push_back({0, terms, true, true, false, true});
}

// What kernels take with a quantised weight: K in whole multiples of 32.
void RandomParts::whole_terms(Labels& labels) {
  for (Label& label : labels) {
    if (!label.result) label.size.size = std::max<i64>(label.size.size / 32, 1) * 32;
  }
}

bool RandomParts::draws_dequant(DType dtype) {
  return !options_.no_dequant && dtype != DType::kF32 && !is_fp8(dtype) && extra_.chance(60);
}

// A tensor that a contraction reads.
ValueId RandomParts::operand(Role role, DType dtype, llvm::ArrayRef<Dim> shape) {
  const ValueId id = parameter(role, dtype, shape);
  if (!options_.small_m || shape.empty()) return id;
  TensorType& type = value(id).type;
  type.align = 16;
  type.strides.resize(shape.size());
  i64 step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    type.strides[d] = step;
    step *= std::max<i64>(shape[d].size, 1);
    if (random_.chance(30)) step += 8 * random_.range(1, 4);
  }
  return id;
}

// Each dimension of `existing` joins a class; the other operand brings its own labels.
void RandomParts::existing_labels(Labels& labels, ValueId existing, bool on_left) {
  const auto shape = known(existing).shape;
  const size_t summed = random_.range(0, shape.size() - 1);
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool term = d == summed || random_.chance(15);
    const bool batch = !term && random_.chance(30);
    labels.push_back(
        {0, shape[d], on_left || term || batch, !on_left || term || batch, !term, true});
  }
  const i64 own = class_size(random_, 6, 18);
  for (i64 i = 0; i < own; ++i) labels.push_back({0, new_dim(), !on_left, on_left, true});
}

// Halves new sizes until every tensor is small enough.
void RandomParts::fit(Labels& labels) {
  for (bool Label::*member : {&Label::left, &Label::right, &Label::result}) {
    while (true) {
      i64 elements = 1;
      Label* largest = nullptr;
      for (Label& label : labels) {
        if (!(label.*member)) continue;
        elements *= std::max<i64>(label.size.size, 1);
        const bool free = !label.fixed && !label.size.symbolic && label.size.size > 1;
        if (free && (!largest || label.size.size > largest->size.size)) largest = &label;
      }
      if (elements <= options_.max_elements || !largest) break;
      largest->size.size /= 2;
    }
  }
}

std::string RandomParts::order(const Labels& labels, bool Label::*member) {
  std::string text;
  for (const Label& label : labels) {
    if (label.*member) text += label.name;
  }
  if (!options_.small_m && random_.chance(60)) shuffle(text);
  return text;
}

// Partitions an M label (a group label joins the right operand) or a K label (it joins the result).
// With small M, the rows are per group and the group is outermost.
void RandomParts::make_ragged(Labels& labels, Value& contract) {
  const bool rows = options_.small_m || random_.chance(60);
  for (size_t i = 0; i < labels.size(); ++i) {
    const Label label = labels[i];
    const bool fits =
        rows ? label.left && !label.right : label.left && label.right && !label.result;
    if (!fits) continue;
    Label group;
    group.size = {random_.range(1, 5), false};
    group.fixed = true;
    group.right = rows;
    group.result = !rows;
    if (options_.small_m) {
      if (!label.size.symbolic) {
        labels[i].size.size = random_.range(1, 12 * group.size.size);
        labels[i].fixed = false;
      }
      labels.insert(labels.begin(), group);
      contract.ragged = RaggedLabel{static_cast<char>(i + 1), 0, -1};
      return;
    }
    labels.push_back(group);
    contract.ragged = RaggedLabel{static_cast<char>(i), static_cast<char>(labels.size() - 1), -1};
    return;
  }
}

ValueId RandomParts::contraction(std::optional<ValueId> existing) {
  const bool on_left = !existing || random_.chance(80);
  const DType dtype = existing ? known(*existing).dtype : float_dtype();
  const bool quantised = !existing && draws_dequant(dtype);
  bool with_scales = false;
  Labels labels;
  if (existing) {
    existing_labels(labels, *existing, on_left);
  } else if (options_.small_m) {
    few_row_labels(labels, dtype);
    if (quantised) whole_terms(labels);
    with_scales = !quantised && draws_scaled(dtype, labels);
  } else {
    new_labels(labels);
  }
  Value contract;
  contract.op = Op::kContract;
  if (!options_.no_ragged && !existing && random_.chance(25)) {
    make_ragged(labels, contract);
  }
  fit(labels);
  std::string letters = kLetters;
  if (random_.chance(50)) shuffle(letters);
  for (size_t i = 0; i < labels.size(); ++i) labels[i].name = letters[i];
  if (contract.ragged) {
    contract.ragged->label = labels[contract.ragged->label].name;
    const Label& group = labels[contract.ragged->group];
    contract.ragged->group = group.name;
    contract.ragged->ends = parameter(Role::kInput, DType::kI32, group.size);
    value(contract.ragged->ends).type.strides.clear();
  }

  std::string texts[2] = {order(labels, &Label::left), order(labels, &Label::right)};
  Known facts;
  facts.labels = order(labels, &Label::result);
  const auto shape_of = [&](const std::string& text) {
    llvm::SmallVector<Dim, 4> shape;
    for (char name : text) {
      for (const Label& label : labels) {
        if (label.name == name) shape.push_back(label.size);
      }
    }
    return shape;
  };
  for (int side = 0; side < 2; ++side) {
    if (existing && (side == 0) == on_left) {
      texts[side].clear();
      for (size_t d = 0; d < known(*existing).shape.size(); ++d) texts[side] += labels[d].name;
      contract.operands.push_back({*existing, ""});
    } else {
      const Role role = random_.chance(side == 0 ? 20 : 80) ? Role::kWeight : Role::kInput;
      const auto shape = shape_of(texts[side]);
      const bool exact = llvm::none_of(shape, [](const Dim& dim) { return dim.symbolic; });
      const bool integers = quantised && side == 1 && shape.size() >= 2 && exact;
      const ValueId id = integers      ? perhaps_rounded(dequantised(role, shape), dtype)
                         : with_scales ? scaled(role, dtype, shape, side == 0)
                                       : operand(role, dtype, shape);
      contract.operands.push_back({id, ""});
    }
  }
  contract.equation = fmt::format("{},{}->{}", texts[0], texts[1], facts.labels);
  contract.true_f32 = dtype == DType::kF32 && random_.chance(options_.small_m ? 15 : 50);
  contract.fast_accum = is_fp8(dtype) && !with_scales && fp8_.chance(30);
  facts.shape = shape_of(facts.labels);
  facts.magnitude =
      known(contract.operands[0].value).magnitude * known(contract.operands[1].value).magnitude;
  for (const Label& label : labels) {
    if (!label.result) facts.magnitude *= static_cast<double>(std::max<i64>(label.size.size, 1));
  }
  return append(std::move(contract), std::move(facts));
}

ValueId RandomParts::twin(ValueId first) {
  Value contract = value(first);
  contract.name.clear();
  size_t side = random_.chance(75) ? 1 : 0;
  Use& replaced = contract.operands[side];
  const Value known_one = value(replaced.value);
  if (known_one.op == Op::kDequant) {
    replaced.value = dequantised_like(replaced.value);
  } else if (known_one.op == Op::kCast) {
    replaced.value =
        cast(dequantised_like(known_one.operands[0].value), known(replaced.value).dtype);
  } else {
    replaced.value = operand(known_one.role, known_one.type.dtype, known_one.type.shape);
  }
  Known facts = known(first);
  facts.used = false;
  return append(std::move(contract), std::move(facts));
}

// A contraction with the result of `first`: other operands and other summed sizes.
ValueId RandomParts::addend(ValueId first) {
  Value contract = value(first);
  contract.name.clear();
  const size_t comma = contract.equation.find(',');
  const size_t arrow = contract.equation.find("->");
  const std::string texts[2] = {contract.equation.substr(0, comma),
                                contract.equation.substr(comma + 1, arrow - comma - 1)};
  const std::string result = contract.equation.substr(arrow + 2);
  std::map<char, Dim> sizes;
  for (const char label : texts[0]) {
    if (texts[1].find(label) == std::string::npos || result.find(label) != std::string::npos)
      continue;
    const i64 first_size = value(contract.operands[0].value).type.shape[texts[0].find(label)].size;
    sizes[label] = {addends_.range(1, std::max<i64>(first_size, 1)), false};
  }
  Known facts = known(first);
  facts.used = false;
  facts.magnitude = 4;
  for (const auto& [label, size] : sizes) facts.magnitude *= static_cast<double>(size.size);
  for (int side = 0; side < 2; ++side) {
    const Value like = value(contract.operands[side].value);
    auto shape = like.type.shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto found = sizes.find(texts[side][d]);
      if (found != sizes.end()) shape[d] = found->second;
    }
    contract.operands[side].value = operand(like.role, like.type.dtype, shape);
  }
  if (!contract.ragged && addends_.chance(20)) {
    std::swap(contract.operands[0], contract.operands[1]);
    contract.equation = fmt::format("{},{}->{}", texts[1], texts[0], result);
  }
  return append(std::move(contract), std::move(facts));
}

ValueId RandomParts::add_products(ValueId first) {
  const Value& like = value(first);
  const bool k_grouped =
      like.ragged && known(first).labels.find(like.ragged->group) != std::string::npos;
  const bool quantised = !is_parameter(like.operands[1].value);
  if (options_.small_m || k_grouped || quantised || !addends_.chance(20)) return first;
  ValueId sum = first;
  const i64 count = addends_.range(1, 3);
  for (i64 i = 0; i < count; ++i) {
    const ValueId other = addend(first);
    sum = elementwise(Op::kAdd, {Use{sum, ""}, Use{other, ""}}, {},
                      known(sum).magnitude + known(other).magnitude);
  }
  return sum;
}

ValueId RandomParts::operand_from(ValueId id) {
  if (known(id).shape.empty()) {
    const Dim size{random_.range(1, 9), false};
    const Use weights{parameter(Role::kWeight, float_dtype(), size), ""};
    id = elementwise(Op::kMul, {weights, Use{id, ""}}, {}, known(id).magnitude * 2);
  }
  return random_.chance(15) && !is_parameter(id) ? id : cast(id, float_dtype());
}

}  // namespace catenary
