// KirBuilder. An instruction is checked when it is appended: a broken rule is a bug of the caller
// and throws InternalError with the constraint's id. Instructions with blocks are built aside
// (pending_) and move into their block when they are closed, so that the pointers in open_ stay
// valid while blocks grow.
#include <algorithm>

#include "codegen/kir/rules.h"

namespace poot::kir {
namespace {

Inst make(Op op, std::vector<ValueId> args) {
  Inst i;
  i.op = op;
  i.args = std::move(args);
  return i;
}

}  // namespace

ValueId KirBuilder::new_value(Type t) {
  kernel_.types.push_back(t);
  return ValueId(static_cast<uint32_t>(kernel_.types.size() - 1));
}

Inst& KirBuilder::append(Inst inst) {
  const OpInfo& info = op_info(inst.op);
  for (ValueId v : inst.args)
    if (v.index >= kernel_.types.size())
      throw InternalError("kir-C1: " + std::string(info.name) + " takes a value that is not made");
  if (auto t = inferred_type(kernel_, inst)) inst.type = *t;
  if (info.result != "none" && inst.op != Op::for_ && inst.op != Op::if_)
    inst.results = {new_value(inst.type)};
  if (auto broken = check_inst(kernel_, inst))
    throw InternalError(broken->constraint + ": " + broken->detail);
  open_.back()->insts.push_back(std::move(inst));
  return open_.back()->insts.back();
}

ObjectId KirBuilder::add_object(Object o) {
  kernel_.objects.push_back(std::move(o));
  return ObjectId(static_cast<uint32_t>(kernel_.objects.size() - 1));
}

ObjectId KirBuilder::table(std::string_view name, Elem elem, std::span<const uint64_t> bits) {
  std::string unique(name);
  for (size_t i = 0; i < kernel_.objects.size(); ++i) {
    const Object& o = kernel_.objects[i];
    if (o.kind == ObjectKind::Table && o.elem == elem && std::ranges::equal(o.bits, bits))
      return ObjectId(static_cast<uint32_t>(i));
    if (o.name == unique) unique += '_';
  }
  Object o;
  o.name = unique;
  o.kind = ObjectKind::Table;
  o.elem = elem;
  o.size = static_cast<int64_t>(bits.size());
  o.bits.assign(bits.begin(), bits.end());
  return add_object(std::move(o));
}

ValueId KirBuilder::constant(Type t, uint64_t bits) {
  Inst i = make(Op::constant, {});
  i.type = t;
  i.imm = bits & low_bits(bit_width(t.elem));
  return append(std::move(i)).results[0];
}

ValueId KirBuilder::f32(float v, uint16_t lanes) {
  return constant({Elem::F32, lanes}, __builtin_bit_cast(uint32_t, v));
}
ValueId KirBuilder::i32(int32_t v, uint16_t lanes) {
  return constant({Elem::I32, lanes}, static_cast<uint32_t>(v));
}
ValueId KirBuilder::i64(int64_t v, uint16_t lanes) {
  return constant({Elem::I64, lanes}, static_cast<uint64_t>(v));
}

ValueId KirBuilder::emit(Op op, std::vector<ValueId> args) {
  return emit(op, Type{}, std::move(args));
}

ValueId KirBuilder::emit(Op op, Type type, std::vector<ValueId> args) {
  Inst i = make(op, std::move(args));
  i.type = type;
  const Inst& done = append(std::move(i));
  return done.results.empty() ? ValueId() : done.results[0];
}

ValueId KirBuilder::icmp(Pred p, ValueId a, ValueId b) {
  Inst i = make(Op::icmp, {a, b});
  i.pred = p;
  return append(std::move(i)).results[0];
}

ValueId KirBuilder::fcmp(Pred p, ValueId a, ValueId b) {
  Inst i = make(Op::fcmp, {a, b});
  i.pred = p;
  return append(std::move(i)).results[0];
}

ValueId KirBuilder::select(ValueId m, ValueId a, ValueId b) {
  return emit(Op::select, {m, a, b});
}

ValueId KirBuilder::splat(ValueId v, uint16_t lanes) {
  return lanes == 1 ? v : emit(Op::splat, {type(v).elem, lanes}, {v});
}

ValueId KirBuilder::insert(ValueId into, ValueId value, uint16_t lane) {
  Inst i = make(Op::insert, {into, value});
  i.imm = lane;
  return append(std::move(i)).results[0];
}

ValueId KirBuilder::extract(ValueId v, uint16_t lane) {
  Inst i = make(Op::extract, {v});
  i.imm = lane;
  return append(std::move(i)).results[0];
}

ValueId KirBuilder::shuffle(ValueId a, ValueId b, std::vector<int32_t> mask) {
  Inst i = make(Op::shuffle, {a, b});
  i.type = {type(a).elem, static_cast<uint16_t>(mask.size())};
  i.mask = std::move(mask);
  return append(std::move(i)).results[0];
}

ValueId KirBuilder::lookup(ObjectId table, ValueId index) {
  Inst i = make(Op::lookup, {index});
  i.object = table;
  i.type = type(index).with(kernel_.objects.at(table.index).elem);
  return append(std::move(i)).results[0];
}

ValueId KirBuilder::load(ObjectId o, Type t, ValueId index, uint32_t align, bool nontemporal) {
  Inst i = make(Op::load, {index});
  i.object = o;
  i.type = t;
  i.align = align;
  i.nontemporal = nontemporal;
  return append(std::move(i)).results[0];
}

ValueId KirBuilder::load_masked(ObjectId o, Type t, ValueId index, ValueId mask, ValueId other) {
  Inst i = make(Op::load_masked, {index, mask, other});
  i.object = o;
  i.type = t;
  return append(std::move(i)).results[0];
}

ValueId KirBuilder::gather(ObjectId o, Type t, ValueId index, ValueId mask, ValueId other) {
  Inst i = make(Op::gather, {index, mask, other});
  i.object = o;
  i.type = t;
  return append(std::move(i)).results[0];
}

void KirBuilder::store(ObjectId o, ValueId index, ValueId v, uint32_t align, bool nontemporal) {
  Inst i = make(Op::store, {index, v});
  i.object = o;
  i.align = align;
  i.nontemporal = nontemporal;
  append(std::move(i));
}

void KirBuilder::store_masked(ObjectId o, ValueId index, ValueId v, ValueId mask) {
  Inst i = make(Op::store_masked, {index, mask, v});
  i.object = o;
  append(std::move(i));
}

void KirBuilder::scatter(ObjectId o, ValueId index, ValueId v, ValueId mask) {
  atomic(Op::scatter, o, index, v, mask);
}

void KirBuilder::atomic(Op op, ObjectId o, ValueId index, ValueId v, ValueId mask) {
  Inst i = make(op, {index, mask, v});
  i.object = o;
  append(std::move(i));
}

void KirBuilder::prefetch(ObjectId o, ValueId index, bool far) {
  Inst i = make(far ? Op::prefetch_far : Op::prefetch, {index});
  i.object = o;
  append(std::move(i));
}

void KirBuilder::tile_rows(ValueId rows) {
  append(make(Op::tile_rows, {rows}));
}

void KirBuilder::tile_zero(uint32_t tile) {
  Inst i = make(Op::tile_zero, {});
  i.imm = tile;
  append(std::move(i));
}

void KirBuilder::tile_load(uint32_t tile, ObjectId o, ValueId index, ValueId stride) {
  Inst i = make(Op::tile_load, {index, stride});
  i.imm = tile;
  i.object = o;
  append(std::move(i));
}

void KirBuilder::tile_store(uint32_t tile, ObjectId o, ValueId index, ValueId stride) {
  Inst i = make(Op::tile_store, {index, stride});
  i.imm = tile;
  i.object = o;
  append(std::move(i));
}

void KirBuilder::tile_dot(int32_t c, int32_t a, int32_t b) {
  Inst i = make(Op::tile_dot, {});
  i.mask = {c, a, b};
  append(std::move(i));
}

void KirBuilder::tile_release() {
  append(make(Op::tile_release, {}));
}

ValueId KirBuilder::meta(uint32_t word) {
  Inst i = make(Op::meta, {});
  i.imm = word;
  return append(std::move(i)).results[0];
}

ValueId KirBuilder::block_id(uint32_t axis) {
  Inst i = make(Op::block_id, {});
  i.imm = axis;
  return append(std::move(i)).results[0];
}

void KirBuilder::fail(uint32_t code, ValueId cond) {
  Inst i = make(Op::fail, {cond});
  i.imm = code;
  append(std::move(i));
}

ValueId KirBuilder::thread_id() {
  return emit(Op::thread_id, {Elem::I32, 1}, {});
}

void KirBuilder::barrier() {
  append(make(Op::barrier, {}));
}

ValueId KirBuilder::workgroup_rank() {
  return emit(Op::workgroup_rank, {Elem::I32, 1}, {});
}

void KirBuilder::cluster_barrier() {
  append(make(Op::cluster_barrier, {}));
}

void KirBuilder::store_peer(ObjectId o, ValueId rank, ValueId index, ValueId v) {
  Inst i = make(Op::store_peer, {rank, index, v});
  i.object = o;
  append(std::move(i));
}

ValueId KirBuilder::shuffle_xor(ValueId v, uint32_t lane_mask) {
  Inst i = make(Op::shuffle_xor, {v});
  i.imm = lane_mask;
  return append(std::move(i)).results[0];
}

void KirBuilder::begin_for(ValueId lo, ValueId hi, ValueId step, std::vector<ValueId> init) {
  auto pending = std::make_unique<Pending>();
  Inst& loop = pending->inst;
  loop.op = Op::for_;
  loop.args = {lo, hi, step};
  loop.blocks.resize(1);
  loop.blocks[0].params.push_back(new_value({Elem::I64, 1}));
  for (ValueId v : init) {
    pending->types.push_back(type(v));
    loop.blocks[0].params.push_back(new_value(type(v)));
    loop.args.push_back(v);
  }
  open_.push_back(&loop.blocks[0]);
  pending_.push_back(std::move(pending));
}

ValueId KirBuilder::for_index() const {
  return pending_.back()->inst.blocks[0].params[0];
}

std::vector<ValueId> KirBuilder::for_carried() const {
  const auto& params = pending_.back()->inst.blocks[0].params;
  return {params.begin() + 1, params.end()};
}

std::vector<ValueId> KirBuilder::end_for(std::vector<ValueId> yielded) {
  append(make(Op::yield, std::move(yielded)));
  return close();
}

void KirBuilder::begin_if(ValueId cond) {
  auto pending = std::make_unique<Pending>();
  pending->inst.op = Op::if_;
  pending->inst.args = {cond};
  pending->inst.blocks.resize(2);
  open_.push_back(&pending->inst.blocks[0]);
  pending_.push_back(std::move(pending));
}

void KirBuilder::begin_else(std::vector<ValueId> yielded) {
  for (ValueId v : yielded) pending_.back()->types.push_back(type(v));
  append(make(Op::yield, std::move(yielded)));
  open_.back() = &pending_.back()->inst.blocks[1];
}

std::vector<ValueId> KirBuilder::end_if(std::vector<ValueId> yielded) {
  append(make(Op::yield, std::move(yielded)));
  return close();
}

// Takes the innermost pending instruction, whose blocks are complete, into its block.
std::vector<ValueId> KirBuilder::close() {
  std::unique_ptr<Pending> done = std::move(pending_.back());
  pending_.pop_back();
  const std::vector<ValueId> yielded = open_.back()->insts.back().args;
  open_.pop_back();
  if (yielded.size() != done->types.size())
    throw InternalError("kir-C8: a block yields " + std::to_string(yielded.size()) +
                        " values, not " + std::to_string(done->types.size()));
  for (size_t i = 0; i < yielded.size(); ++i)
    if (type(yielded[i]) != done->types[i])
      throw InternalError("kir-C8: yielded value " + std::to_string(i) + " is " +
                          type(yielded[i]).str() + ", not " + done->types[i].str());
  std::vector<ValueId> results;
  for (Type t : done->types) results.push_back(new_value(t));
  done->inst.results = results;
  append(std::move(done->inst));
  return results;
}

}  // namespace poot::kir
