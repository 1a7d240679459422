// SPDX-License-Identifier: Apache-2.0
// Facts about a chain for C++20: its operands, its symbol, its identity, its plan. Header-only over
// catenary.h; included by the user.
#ifndef CATENARY_FACTS_HPP
#define CATENARY_FACTS_HPP

#include <optional>

#include "catenary/catenary.hpp"

namespace ctn {

// A parameter or an output: its fields are those of ctn_operand.
struct Operand {
  std::string name;                   // in the chain; of an output, that of its value
  bool is_output = false;             // else a parameter
  ctn_role role = CTN_INPUT;          // of a parameter
  DType dtype = DType::f32;           // of its elements
  std::vector<std::int64_t> dims;     // sizes, or ctn::symbol
  std::vector<std::int64_t> strides;  // elements
  std::int64_t align = 16;            // the address is a multiple of this many bytes
  std::int64_t bytes = 0;             // at the symbol's upper bound
  std::optional<int> in_place;        // of an output: the operand whose memory it takes
  bool packed = false;                // in the packed layout, which `strides` do not describe
};

// The chain's symbol, lo <= name <= hi.
struct SymbolRange {
  std::string name;     // as in the chain's text
  std::int64_t lo = 0;  // the least value
  std::int64_t hi = 0;  // the largest value
};

// The parameters of a chain in order, scalars too, then its outputs.
struct Operands {
  std::vector<Operand> operands;      // parameters in order, scalars too, then outputs
  std::optional<SymbolRange> symbol;  // empty: the chain has none
};

namespace detail {

using OperandsHandle = std::unique_ptr<ctn_operands, Destroy<ctn_operands, ctn_operands_destroy> >;

}  // namespace detail

inline Operands operands(const Chain& chain) {
  ctn_operands* made = nullptr;
  check(ctn_chain_operands(chain.get(), &made));
  const detail::OperandsHandle handle(made);
  std::size_t count = 0;
  check(ctn_operands_count(made, &count));
  Operands result;
  for (std::size_t i = 0; i < count; ++i) {
    ctn_operand facts{};
    facts.struct_size = sizeof facts;
    check(ctn_operands_get(made, i, &facts));
    Operand operand;
    operand.name = facts.name;
    operand.is_output = facts.is_output != 0;
    operand.role = facts.role;
    operand.dtype = static_cast<DType>(facts.dtype);
    operand.dims.assign(facts.dims, facts.dims + facts.rank);
    operand.strides.assign(facts.strides, facts.strides + facts.rank);
    operand.align = facts.align;
    operand.bytes = facts.bytes;
    if (facts.in_place > 0) operand.in_place = facts.in_place - 1;
    operand.packed = facts.packed != 0;
    result.operands.push_back(std::move(operand));
  }
  const char* name = nullptr;
  SymbolRange range;
  check(ctn_operands_symbol(made, &name, &range.lo, &range.hi));
  if (name != nullptr) {
    range.name = name;
    result.symbol = std::move(range);
  }
  return result;
}

// What the chain computes, as SHA-256 in 64 hex digits. Names do not count.
inline std::string digest(const Chain& chain) {
  char digits[65];
  check(ctn_chain_digest(chain.get(), digits));
  return digits;
}

// Along which dimensions the work of a chain divides over devices: the JSON of ctn_chain_factors.
inline std::string factors(const Chain& chain) {
  char* json = nullptr;
  check(ctn_chain_factors(chain.get(), &json));
  const std::string text(json);
  ctn_string_free(json);
  return text;
}

// The chain of one device where factor f is divided into parts[f] equal parts.
inline Chain shard(const Chain& chain, const std::vector<std::int64_t>& parts) {
  ctn_chain* made = nullptr;
  check(ctn_chain_shard(chain.get(), parts.data(), parts.size(), &made));
  return Chain(detail::ChainHandle(made));
}

// The chain that was compiled.
inline Chain chain_of(const Compiled& compiled) {
  ctn_chain* chain = nullptr;
  check(ctn_compiled_chain(compiled.get(), &chain));
  return Chain(detail::ChainHandle(chain));
}

// The plan for `target`, without compiling.
inline std::string explain(const Engine& engine, const Chain& chain, const std::string& target,
                           bool json = false) {
  char* text = nullptr;
  check(ctn_engine_explain(engine.get(), chain.get(), detail::c_text(target),
                           json ? CTN_JSON : CTN_TEXT, &text));
  return detail::take(text);
}

}  // namespace ctn

#endif  // CATENARY_FACTS_HPP
