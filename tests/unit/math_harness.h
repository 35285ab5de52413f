// Applies one op of the math library to arrays, in the KIR interpreter.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/math/math.h"

namespace poot::math {

using kir::Elem;
using kir::KirBuilder;
using kir::Type;
using kir::ValueId;
inline constexpr uint16_t kLanes = 16;

template <class T>
constexpr Elem elem_of() {
  if constexpr (std::is_same_v<T, float>) return Elem::F32;
  if constexpr (std::is_same_v<T, double>) return Elem::F64;
  return sizeof(T) == 1   ? Elem::I8
         : sizeof(T) == 2 ? Elem::I16
         : sizeof(T) == 4 ? Elem::I32
                          : Elem::I64;
}

template <class T, class... More>
std::vector<std::vector<T>> columns(std::vector<T> first, More... more) {
  return {std::move(first), std::vector<T>(more)...};
}

// Applies an op to arrays, lanes at a time; bools come and go as bytes.
template <class R, class T>
std::vector<R> apply(ir::OpCode op, std::vector<std::vector<T>> in, Isa isa = Isa::X86,
                     uint16_t lanes = kLanes) {
  const size_t n = in[0].size(), padded = (n + lanes - 1) / lanes * lanes;
  for (auto& v : in) v.resize(padded, T{1});
  std::vector<R> out(padded);
  kir::Kernel k;
  k.name = "apply";
  k.isa = isa;
  KirBuilder b(k);
  std::vector<kir::ObjectId> objects;
  for (size_t i = 0; i < in.size(); ++i)
    objects.push_back(b.add_object({.name = "x" + std::to_string(i), .elem = elem_of<T>()}));
  const kir::ObjectId y = b.add_object({.name = "y", .elem = elem_of<R>(), .writable = true});
  b.for_loop(b.i64(0), b.i64(static_cast<int64_t>(padded)), b.i64(lanes), {},
             [&](ValueId i, std::span<const ValueId>) {
               std::vector<ValueId> args;
               for (kir::ObjectId o : objects) args.push_back(b.load(o, {elem_of<T>(), lanes}, i));
               ValueId v = emit(b, op, args, std::is_signed_v<T>);
               if (b.type(v).elem == Elem::I1)
                 v = b.emit(kir::Op::zext, Type{Elem::I8, lanes}, {v});
               b.store(y, i, v);
               return std::vector<ValueId>{};
             });
  kir::RunArgs args;
  for (auto& v : in) args.buffers.push_back(std::as_writable_bytes(std::span<T>(v)));
  args.buffers.push_back(std::as_writable_bytes(std::span<R>(out)));
  EXPECT_EQ(kir::interpret(k, args, 0, 1), 0u);
  EXPECT_EQ(kir::parse_kernel(k.str()).str(), k.str());
  out.resize(n);
  return out;
}

}  // namespace poot::math
