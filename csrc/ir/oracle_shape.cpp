// Views, movement and updates: each result element copies the bits of one operand element.
#include <algorithm>

#include "ir/oracle_ops.h"
#include "ir/scalar_eval.h"

namespace poot::ir {
namespace {

// out[at] = in[map(at)]
template <class F>
void pull(HostArray& out, const HostArray& in, F map) {
  for_each_position(out.shape, [&](int64_t i, const Coords& at) {
    out.set_bits(i, in.bits(linear(in.shape, map(at))));
  });
}

// An index into an axis of `size` elements; negative ones count from the end where allowed.
int64_t checked_index(const OracleCall& call, const HostArray& indices, int64_t i, int64_t size,
                      bool from_end) {
  const int64_t given = to_int(indices.bits(i), indices.dtype);
  const int64_t index = from_end && given < 0 ? given + size : given;
  if (index < 0 || index >= size)
    call.fault("index " + std::to_string(given) + " is out of range for an axis of " +
               std::to_string(size));
  return index;
}

void concat(OracleCall& call) {
  const auto axis = static_cast<size_t>(call.integer("axis"));
  int64_t begin = 0;
  for (const HostArray* part : call.in) {
    for_each_position(part->shape, [&](int64_t i, Coords at) {
      at[axis] += begin;
      call.out[0].set_bits(linear(call.out[0].shape, at), part->bits(i));
    });
    begin += part->shape[axis];
  }
}

void pad(OracleCall& call) {
  HostArray& out = call.out[0];
  const auto low = call.dims("low");
  for (int64_t i = 0; i < out.numel(); ++i) out.set_bits(i, call.in[1]->bits(0));
  for_each_position(call.in[0]->shape, [&](int64_t i, Coords at) {
    for (size_t axis = 0; axis < at.size(); ++axis) at[axis] += low[axis];
    out.set_bits(linear(out.shape, at), call.in[0]->bits(i));
  });
}

void gather(OracleCall& call) {
  const HostArray &src = *call.in[0], &idx = *call.in[1];
  const auto axis = static_cast<size_t>(call.integer("axis"));
  const size_t width = idx.shape.size();
  pull(call.out[0], src, [&](const Coords& at) {
    const Coords which(at.begin() + static_cast<ptrdiff_t>(axis),
                       at.begin() + static_cast<ptrdiff_t>(axis + width));
    Coords from(at.begin(), at.begin() + static_cast<ptrdiff_t>(axis));
    from.push_back(checked_index(call, idx, linear(idx.shape, which), src.shape[axis], true));
    from.insert(from.end(), at.begin() + static_cast<ptrdiff_t>(axis + width), at.end());
    return from;
  });
}

void take(OracleCall& call) {
  const HostArray &src = *call.in[0], &idx = *call.in[1];
  const auto axis = static_cast<size_t>(call.integer("axis"));
  pull(call.out[0], src, [&](Coords at) {
    at[axis] = checked_index(call, idx, linear(idx.shape, at), src.shape[axis], false);
    return at;
  });
}

// What an element becomes that a source element is written to.
Bits stepped(const OracleCall& call, Bits there, Bits source) {
  const std::string_view fn = call.eqn.text("fn");
  if (fn.empty()) return source;
  const DType dtype = call.out[0].dtype;
  const Bits args[] = {there, source};
  return eval_pointwise(*op_from_name(fn), dtype, dtype, args, nullptr);
}

}  // namespace

void eval_view(OracleCall& call) {
  HostArray& out = call.out[0];
  const HostArray& in = *call.in[0];
  switch (call.eqn.op) {
    case OpCode::broadcast:
      for_each_position(out.shape, [&](int64_t i, const Coords& at) {
        out.set_bits(i, in.bits(linear_broadcast(in.shape, at)));
      });
      return;
    case OpCode::reshape:
      out.data = in.data;
      return;
    case OpCode::transpose: {
      const auto& perm = call.ints("perm");
      return pull(out, in, [&](const Coords& at) {
        Coords from(at.size());
        for (size_t axis = 0; axis < at.size(); ++axis)
          from[static_cast<size_t>(perm[axis])] = at[axis];
        return from;
      });
    }
    case OpCode::slice: {
      const auto axis = static_cast<size_t>(call.integer("axis"));
      const int64_t start = call.dim("start"), step = call.integer("step");
      return pull(out, in, [&](Coords at) {
        at[axis] = start + at[axis] * step;
        return at;
      });
    }
    case OpCode::flip: {
      const auto& axes = call.ints("axes");
      return pull(out, in, [&](Coords at) {
        for (const int64_t a : axes) {
          const auto axis = static_cast<size_t>(a);
          at[axis] = in.shape[axis] - 1 - at[axis];
        }
        return at;
      });
    }
    default:
      throw InternalError("the oracle lacks " + std::string(call.eqn.info().name));
  }
}

void eval_movement(OracleCall& call) {
  switch (call.eqn.op) {
    case OpCode::concat:
      return concat(call);
    case OpCode::pad:
      return pad(call);
    case OpCode::gather:
      return gather(call);
    case OpCode::take:
      return take(call);
    default:
      throw InternalError("the oracle lacks " + std::string(call.eqn.info().name));
  }
}

void eval_update(OracleCall& call) {
  HostArray& out = call.out[0];
  const HostArray& src = *call.in.back();
  const auto axis = static_cast<size_t>(call.integer("axis"));
  out.data = call.in[0]->data;
  if (call.eqn.op == OpCode::scatter_update || call.eqn.op == OpCode::scatter) {
    // Row-major order visits the sources of one element in their order along the axis.
    const bool rows = call.eqn.op == OpCode::scatter_update;
    const bool wrap = rows && !call.eqn.flag("exact");
    for_each_position(src.shape, [&](int64_t i, Coords at) {
      at[axis] = checked_index(call, *call.in[1], rows ? at[axis] : i, out.shape[axis], wrap);
      const int64_t to = linear(out.shape, at);
      out.set_bits(to, stepped(call, out.bits(to), src.bits(i)));
    });
  } else if (call.eqn.op == OpCode::update_slice) {
    const int64_t start = call.dim("start"), step = call.integer("step");
    for_each_position(src.shape, [&](int64_t i, Coords at) {
      at[axis] = start + at[axis] * step;
      out.set_bits(linear(out.shape, at), src.bits(i));
    });
  } else {
    throw InternalError("the oracle lacks " + std::string(call.eqn.info().name));
  }
}

}  // namespace poot::ir
