// Loads, stores, checks and kept tiles at the current position. A consecutive access is a vector
// load or store at a scalar index; anything else is a gather or scatter; masked lanes touch no
// memory.
#include <algorithm>
#include <utility>

#include "codegen/lower/emitter.h"

namespace poot::codegen::lowering {

using kir::Elem;
using kir::Op;
using kir::Pred;
using KValue = kir::ValueId;

KValue Emitter::to_storage(DType d, KValue exact) {
  if (d != DType::Bool) return exact;
  return b_.emit(Op::zext, b_.type(exact).with(Elem::I8), {exact});
}

KValue Emitter::from_storage(DType d, KValue stored) {
  if (d != DType::Bool) return stored;
  return b_.icmp(Pred::ne, stored, b_.constant(b_.type(stored), 0));
}

Emitter::Access Emitter::access(tile::BufferId buffer, tile::IndexId i, bool vector) {
  const tile::Buffer& buf = program().buffers.at(buffer.index);
  if (!vector) return {Access::Scalar, index(i), 0};
  const bool varying = varies(facts_.deps(i));
  const auto stride = varying ? tile::const_stride(program(), i, vector_.axis) : std::nullopt;
  if (stride && (*stride == 2 || *stride == -1)) {
    const KValue first = add(index(i, vector_.axis), mul(vector_.base, i64(*stride)));
    return {*stride == 2 ? Access::EverySecond : Access::Reversed, first, 0};
  }
  if (stride != 1) return {Access::Indexed, index_lanes(i), 0};
  // Vector steps are multiples of the lanes, so alignment is that of the base at column 0.
  const uint64_t element = static_cast<uint64_t>(byte_size(buf.dtype));
  const uint64_t factor = facts_.known_factor(i, vector_.axis);
  const uint64_t bytes = factor == 0 ? uint64_t{4096} : factor * element;
  uint64_t align =
      std::min({bytes, uint64_t{alignment(buf)}, vector_.lanes * element, uint64_t{64}});
  return {Access::Contiguous, add(index(i, vector_.axis), vector_.base),
          align > element ? static_cast<uint32_t>(align) : 0};
}

// Memory of a device is allocated in large units, and its launch refuses a buffer that starts
// elsewhere; on the CPU a buffer starts where its tensor does.
uint32_t Emitter::alignment(const tile::Buffer& buffer) const {
  constexpr uint32_t kDeviceBufferAlign = 16;
  return target_.isa == Isa::X86 ? buffer.align : std::max(buffer.align, kDeviceBufferAlign);
}

KValue Emitter::both(KValue a, KValue b) {
  if (!a || !b) return a ? a : b;
  return b_.emit(Op::band, {a, b});
}

template <class Read>
KValue Emitter::read_if(KValue condition, KValue other, Read&& read) {
  if (!condition) return read();
  return b_.if_else(
      condition,
      [&] {
        push_scope();
        const KValue v = read();
        pop_scope();
        return std::vector<KValue>{v};
      },
      [&] { return std::vector<KValue>{other}; })[0];
}

template <class Write>
void Emitter::write_if(KValue condition, Write&& write) {
  if (!condition) return write();
  b_.if_else(
      condition,
      [&] {
        push_scope();
        write();
        pop_scope();
        return std::vector<KValue>{};
      },
      [] { return std::vector<KValue>{}; });
}

KValue Emitter::lane_mask(const Guard& g) {
  KValue m = active();
  const auto both = [&](KValue x) { m = m ? b_.emit(Op::band, {m, x}) : x; };
  if (g.lanes) both(g.lanes);
  if (g.scalar) both(splat(g.scalar, lanes()));
  return m;
}

// Strides 2 and -1 are consecutive loads and a shuffle. The second load of stride 2 ends at the
// last element that is wanted, so nothing beyond the access is read.
KValue Emitter::load_shuffled(kir::ObjectId object, kir::Type t, const Access& a) {
  const int n = t.lanes;
  std::vector<int32_t> lanes;
  if (a.kind == Access::Reversed) {
    for (int l = 0; l < n; ++l) lanes.push_back(n - 1 - l);
    const KValue v = b_.load(object, t, add(a.index, i64(1 - n)));
    return b_.shuffle(v, v, std::move(lanes));
  }
  for (int l = 0; l < n; ++l) lanes.push_back(l < n / 2 ? 2 * l : 2 * l + 1);
  const KValue low = b_.load(object, t, a.index);
  const KValue high = b_.load(object, t, add(a.index, i64(n - 1)));
  return b_.shuffle(low, high, std::move(lanes));
}

Reg Emitter::load(const tile::Inst& inst) {
  const tile::Buffer& buf = program().buffers.at(inst.buffer.index);
  const bool vector = varies(facts_.deps(inst.index) | facts_.deps(inst.mask));
  Guard g = guard(inst.mask);
  const kir::Type t{storage_elem(buf.dtype), vector ? lanes() : uint16_t{1}};
  KValue condition = predicate_;
  if (!vector || target_.isa == Isa::Ptx) condition = both(std::exchange(g.scalar, {}), predicate_);
  KValue other;
  if (condition || g.never) other = b_.constant(t, inst.value ? ir::bits_of(*inst.value) : 0);
  if (g.never) return {from_storage(buf.dtype, other), {}};
  const KValue v = read_if(condition, other, [&] {
    return vector ? read_vector(inst, g, t)
                  : b_.load(kir::ObjectId(inst.buffer.index), t, index(inst.index));
  });
  return {from_storage(buf.dtype, v), {}};
}

KValue Emitter::read_vector(const tile::Inst& inst, const Guard& g, kir::Type t) {
  const kir::ObjectId object(inst.buffer.index);
  const auto other = [&] { return b_.constant(t, inst.value ? ir::bits_of(*inst.value) : 0); };
  const Access a = access(inst.buffer, inst.index, true);
  const KValue mask = lane_mask(g);
  if (a.kind == Access::EverySecond && !mask && target_.isa == Isa::X86)
    prefetch(inst, a.index, 2 * t.lanes);
  if (a.kind == Access::Reversed || a.kind == Access::EverySecond)
    return mask ? b_.gather(object, t, index_lanes(inst.index), mask, other())
                : load_shuffled(object, t, a);
  if (a.kind == Access::Indexed)
    return b_.gather(object, t, a.index, mask ? mask : b_.constant({Elem::I1, t.lanes}, 1),
                     other());
  if (mask) return b_.load_masked(object, t, a.index, mask, other());
  const bool bypass = target_.isa == Isa::Ptx && bypasses(inst, a);
  const KValue v = b_.load(object, t, a.index, a.align, bypass);
  if (target_.isa == Isa::X86) prefetch(inst, a.index, t.lanes);
  return v;
}

// An access around the cache: on a GPU one of 16 bytes, of an operand that differs from row to row.
bool Emitter::bypasses(const tile::Inst& inst, const Access& a) const {
  const tile::Buffer& buf = program().buffers.at(inst.buffer.index);
  const int64_t bytes = int64_t{lanes()} * byte_size(buf.dtype);
  if (target_.isa == Isa::X86)
    return program().schedule.nontemporal && !buf.shared && a.align == 64 && bytes == 64;
  std::vector<tile::ValueId> rows;
  facts_.index_values(inst.index, rows);
  return last_walk_ && !buf.shared && a.align == 16 && bytes == 16 && !rows.empty();
}

void Emitter::store(const tile::Inst& inst) {
  const tile::Buffer& buf = program().buffers.at(inst.buffer.index);
  Guard g = guard(inst.mask);
  if (g.never) return;
  if (!vector_.axis) {
    const KValue v = to_storage(buf.dtype, exact(inst.args[0]));
    write_if(both(g.scalar, predicate_),
             [&] { b_.store(kir::ObjectId(inst.buffer.index), index(inst.index), v); });
    return;
  }
  const KValue v = to_storage(buf.dtype, exact(inst.args[0], lanes()));
  KValue condition = predicate_;
  if (target_.isa == Isa::Ptx) condition = both(std::exchange(g.scalar, {}), predicate_);
  write_if(condition, [&] { write_vector(inst, g, v); });
  if (&inst == asks_ && target_.isa == Isa::X86) ask_next_row();
}

namespace {

Op atomic_op(ir::OpCode op, DType dtype) {
  const bool f = is_float(dtype), s = is_signed(dtype);
  switch (op) {
    case ir::OpCode::maximum:
      return f ? Op::atomic_fmax : s ? Op::atomic_smax : Op::atomic_umax;
    case ir::OpCode::minimum:
      return f ? Op::atomic_fmin : s ? Op::atomic_smin : Op::atomic_umin;
    default:
      return f ? Op::atomic_fadd : Op::atomic_iadd;
  }
}

}  // namespace

void Emitter::combine(const tile::Inst& inst) {
  const tile::Buffer& buf = program().buffers.at(inst.buffer.index);
  if (target_.isa != Isa::Ptx)
    throw Unsupported("kernel " + program().name, "atomic accesses on this target");
  Guard g = guard(inst.mask);
  if (g.never) return;
  const uint16_t n = vector_.axis ? lanes() : uint16_t{1};
  const KValue v = to_storage(buf.dtype, exact(inst.args[0], n));
  KValue mask = vector_.axis ? lane_mask({.scalar = {}, .lanes = g.lanes}) : KValue();
  if (!mask) mask = b_.constant({Elem::I1, n}, 1);
  write_if(both(g.scalar, predicate_), [&] {
    const KValue at = vector_.axis ? index_lanes(inst.index) : index(inst.index);
    b_.atomic(atomic_op(inst.pointwise, buf.dtype), kir::ObjectId(inst.buffer.index), at, v, mask);
  });
}

void Emitter::write_vector(const tile::Inst& inst, const Guard& g, KValue v) {
  const kir::ObjectId object(inst.buffer.index);
  const Access a = access(inst.buffer, inst.index, true);
  const KValue mask = lane_mask(g);
  if (a.kind == Access::Reversed && !mask) {
    std::vector<int32_t> reversed;
    for (int l = lanes(); l-- > 0;) reversed.push_back(l);
    b_.store(object, add(a.index, i64(1 - lanes())), b_.shuffle(v, v, std::move(reversed)));
  } else if (a.kind != Access::Contiguous) {
    b_.scatter(object, index_lanes(inst.index), v,
               mask ? mask : b_.constant({Elem::I1, lanes()}, 1));
  } else if (mask) {
    b_.store_masked(object, a.index, v, mask);
  } else {
    b_.store(object, a.index, v, a.align, bypasses(inst, a));
  }
}

void Emitter::store_woven(const tile::Inst& inst, KValue even, KValue odd) {
  const tile::Buffer& buf = program().buffers.at(inst.buffer.index);
  const KValue a = to_storage(buf.dtype, even), b = to_storage(buf.dtype, odd);
  const KValue first = add(index(inst.index, vector_.axis), mul(vector_.base, i64(2)));
  const int n = lanes();
  for (int half : {0, 1}) {
    std::vector<int32_t> picks;
    for (int l = 0; l < n; ++l) picks.push_back((half * n + l) / 2 + (l % 2) * n);
    b_.store(kir::ObjectId(inst.buffer.index), add(first, i64(half * n)),
             b_.shuffle(a, b, std::move(picks)));
  }
}

void Emitter::report(KValue bad, uint32_t code) {
  if (b_.type(bad).lanes > 1) {
    if (active()) bad = b_.emit(Op::band, {bad, active()});
    bad = b_.emit(Op::reduce_or, kir::Type{Elem::I1, 1}, {bad});
  }
  b_.fail(code, both(bad, predicate_));
}

void Emitter::check(const tile::Inst& inst) {
  const KValue ok = exact(inst.args[0], lanes());
  report(b_.emit(Op::bxor, {ok, b_.constant(b_.type(ok), 1)}), inst.code);
}

// --- kept tiles

KeptTile Emitter::new_array(tile::ValueId v, std::vector<tile::AxisId> axes, int64_t elems) {
  kir::Object o;
  o.name = "kept" + std::to_string(v.index);
  o.kind = kir::ObjectKind::Private;
  o.elem = storage_elem(program().type(v).dtype);
  o.writable = true;
  o.size = elems;
  // Two tiles of one value (a carried tile of nested loops) need two names.
  for (const kir::Object& other : b_.kernel().objects)
    if (other.name == o.name) o.name += "b";
  return {b_.add_object(std::move(o)), std::move(axes)};
}

void Emitter::set_kept(tile::ValueId v, std::optional<KeptTile> array) {
  if (array)
    kept_[v.index] = std::move(*array);
  else
    kept_.erase(v.index);
}

// The place of an element of two coordinates.
KValue Emitter::swizzled(const KeptTile& array, KValue row, KValue column) {
  const int64_t columns = program().axes.at(array.axes[1].index).capacity;
  const KValue group = b_.emit(Op::band, {row, i64(columns - array.swizzle)});
  return add(mul(row, i64(columns)), b_.emit(Op::bxor, {column, group}));
}

KValue Emitter::kept_index(const KeptTile& array, int64_t* vector_stride) {
  if (array.swizzle != 0) {
    const auto at = [&](tile::AxisId a) {
      return a == vector_.axis ? vector_.base : coordinates_.at(a.index);
    };
    *vector_stride = vector_.axis == array.axes[1] ? 1 : 0;
    return swizzled(array, at(array.axes[0]), at(array.axes[1]));
  }
  KValue at = i64(0);
  int64_t stride = 1;
  *vector_stride = 0;
  for (size_t d = array.axes.size(); d-- > 0;) {
    const tile::AxisId a = array.axes[d];
    const bool is_vector = vector_.axis && a == vector_.axis;
    if (is_vector) *vector_stride = stride;
    at = add(at, mul(is_vector ? vector_.base : coordinates_.at(a.index), i64(stride)));
    stride *= program().axes.at(a.index).capacity;
  }
  return at;
}

namespace {

// Of a vector of a workgroup's array whose place is a multiple of its lanes.
uint32_t vector_align(kir::Type t) {
  return static_cast<uint32_t>(std::min<int64_t>(16, t.lanes * kir::bit_width(t.elem) / 8));
}

}  // namespace

KValue Emitter::read_kept(const KeptTile& array) {
  int64_t stride = 0;
  const KValue at = kept_index(array, &stride);
  const Elem elem = b_.kernel().objects.at(array.object.index).elem;
  if (stride == 0) return b_.load(array.object, {elem, 1}, at);
  const kir::Type t{elem, lanes()};
  if (stride == 1)
    return active() ? b_.load_masked(array.object, t, at, active(), b_.constant(t, 0))
                    : b_.load(array.object, t, at, array.swizzle != 0 ? vector_align(t) : 0);
  const KValue steps = b_.emit(
      Op::imul, {b_.emit(Op::lane_ids, t.with(Elem::I64), {}), splat(i64(stride), t.lanes)});
  return b_.gather(array.object, t, b_.emit(Op::iadd, {splat(at, t.lanes), steps}),
                   active() ? active() : b_.constant(t.with(Elem::I1), 1), b_.constant(t, 0));
}

void Emitter::keep(tile::ValueId v, const KeptTile& array, KValue value) {
  const KValue stored = to_storage(program().type(v).dtype, value);
  int64_t stride = 0;
  const KValue at = kept_index(array, &stride);
  if (stride == 0) {
    b_.store(array.object, at, stored);
  } else if (stride == 1) {
    const KValue all = splat(stored, lanes());
    if (active())
      b_.store_masked(array.object, at, all, active());
    else
      b_.store(array.object, at, all);
  } else {
    const kir::Type t{Elem::I64, lanes()};
    const KValue steps =
        b_.emit(Op::imul, {b_.emit(Op::lane_ids, t, {}), splat(i64(stride), t.lanes)});
    b_.scatter(array.object, b_.emit(Op::iadd, {splat(at, t.lanes), steps}), splat(stored, lanes()),
               active() ? active() : b_.constant({Elem::I1, t.lanes}, 1));
  }
}

}  // namespace poot::codegen::lowering
