// Orders of addition that a reduction may ask for, read from reduce_order.def.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace poot::ir {

enum class ReduceOrder : uint8_t {
  any,
#define REDUCE_ORDER(name, ...) name,
#include "ir/reduce_order.def"
#undef REDUCE_ORDER
};

inline constexpr std::array kReduceOrderNames = {
    std::string_view(),
#define REDUCE_ORDER(name, ...) std::string_view(#name),
#include "ir/reduce_order.def"
#undef REDUCE_ORDER
};

// Whether terms are added one after the other to one accumulator.
constexpr bool is_sequential(ReduceOrder order) {
  return order == ReduceOrder::sequential || order == ReduceOrder::sequential_fma;
}

// Empty for any order.
constexpr std::string_view name(ReduceOrder order) {
  return kReduceOrderNames.at(static_cast<size_t>(order));
}

constexpr std::optional<ReduceOrder> reduce_order(std::string_view name) {
  for (size_t i = 0; i < kReduceOrderNames.size(); ++i)
    if (kReduceOrderNames[i] == name) return static_cast<ReduceOrder>(i);
  return std::nullopt;
}

class Graph;
struct Eqn;

// Whether e is a sum that adds products unrounded, and which equation makes them; -1: none does.
bool adds_unrounded(const Eqn& e);
int32_t product_of(const Graph& graph, const Eqn& e);

}  // namespace poot::ir
