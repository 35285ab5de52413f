// TileBuilder: appends instructions to the innermost open block and infers their types. Mistakes of
// a generator that the types show are InternalErrors here; everything else is verify()'s.
#include <algorithm>

#include "codegen/tile/tile.h"
#include "support/errors.h"

namespace poot::tile {

std::vector<AxisId> joined_axes(const Program& p, std::span<const ValueId> args) {
  std::vector<AxisId> axes;
  for (const ValueId a : args) {
    const auto& from = p.type(a).axes;
    if (axes.empty()) axes.resize(from.size());
    for (size_t i = 0; i < from.size() && i < axes.size(); i++)
      if (!axes[i]) axes[i] = from[i];
  }
  return axes;
}

struct TileBuilder::Open {
  Inst inst;
};

TileBuilder::TileBuilder(std::string name, SymbolTable symbols) : symbols_(std::move(symbols)) {
  program_.name = std::move(name);
}

BufferId TileBuilder::buffer(std::string name, DType dtype, bool written, uint32_t align) {
  program_.buffers.push_back({std::move(name), dtype, written, false, align});
  return BufferId(static_cast<uint32_t>(program_.buffers.size() - 1));
}

void TileBuilder::grid(uint32_t axis, Dim blocks) {
  program_.grid[axis] = std::move(blocks);
}

IndexId TileBuilder::dim(const Dim& d) {
  struct Lower : Dim::Visitor {
    explicit Lower(TileBuilder& b) : builder(b) {}
    TileBuilder& builder;
    IndexId out;
    void constant(int64_t v) override { out = builder.cst(v); }
    void symbol(uint32_t index) override {
      auto& meta = builder.program_.meta;
      const Dim s = Dim::symbol(index);
      auto it = std::find(meta.begin(), meta.end(), s);
      if (it == meta.end()) it = meta.insert(meta.end(), s);
      out = builder.intern({.op = IndexOp::Meta, .value = it - meta.begin()});
    }
    void apply(char op, std::span<const Dim> operands) override {
      IndexId acc = builder.dim(operands[0]);
      for (const Dim& o : operands.subspan(1)) acc = step(op, acc, builder.dim(o));
      out = acc;
    }
    IndexId step(char op, IndexId a, IndexId b) {
      switch (op) {
        case '+':
          return builder.add(a, b);
        case '*':
          return builder.mul(a, b);
        case '/':
          return builder.div(a, b);
        case '%':
          return builder.mod(a, b);
        case 'M':
          return builder.max(a, b);
        default:
          return builder.min(a, b);
      }
    }
  };
  Lower lower(*this);
  d.visit(lower);
  return lower.out;
}

AxisId TileBuilder::axis(std::string name, int64_t capacity, IndexId extent) {
  const AxisId id(static_cast<uint32_t>(program_.axes.size()));
  program_.axes.push_back({std::move(name), capacity, extent});
  block().axis_ids.push_back(id);
  return id;
}

Block& TileBuilder::block() {
  return open_.empty() ? program_.body : open_.back()->inst.blocks[0];
}
ValueId TileBuilder::value(Type t) {
  program_.types.push_back(std::move(t));
  return ValueId(static_cast<uint32_t>(program_.types.size() - 1));
}
Inst& TileBuilder::push(Inst inst) {
  block().insts.push_back(std::move(inst));
  return block().insts.back();
}
const Type& TileBuilder::type(ValueId v) const {
  return program_.types.at(v.index);
}

ValueId TileBuilder::block_id(uint32_t grid_axis) {
  const ValueId v = value({DType::I64, true, {}});
  const Range blocks = program_.grid[grid_axis].range(symbols_);
  scalar_bounds_[v] = {0, blocks.hi == INT64_MAX ? INT64_MAX : std::max<int64_t>(blocks.hi - 1, 0)};
  push({.op = Op::block_id, .results = {v}, .axis = grid_axis});
  return v;
}

ValueId TileBuilder::scalar_index(IndexId i) {
  const ValueId v = value({DType::I64, true, {}});
  scalar_bounds_[v] = bounds(i);
  push({.op = Op::scalar_index, .results = {v}, .index = i});
  return v;
}

ValueId TileBuilder::index_tile(IndexId i, DType dtype, std::vector<AxisId> axes) {
  const ValueId v = value({dtype, false, std::move(axes)});
  push({.op = Op::index_tile, .results = {v}, .index = i, .dtype = dtype});
  return v;
}

ValueId TileBuilder::constant(ir::Scalar scalar, std::vector<AxisId> axes) {
  const ValueId v = value({scalar.dtype, false, std::move(axes)});
  push({.op = Op::constant, .results = {v}, .value = std::move(scalar)});
  return v;
}

ValueId TileBuilder::load(BufferId b, IndexId index, std::vector<AxisId> axes, Mask mask,
                          std::optional<ir::Scalar> other) {
  Buffer& buffer = program_.buffers.at(b.index);
  buffer.read = true;
  const ValueId v = value({buffer.dtype, false, std::move(axes)});
  push({.op = Op::load,
        .results = {v},
        .buffer = b,
        .index = index,
        .mask = std::move(mask),
        .value = std::move(other)});
  return v;
}

void TileBuilder::store(BufferId b, IndexId index, ValueId v, Mask mask) {
  push({.op = Op::store, .args = {v}, .buffer = b, .index = index, .mask = std::move(mask)});
}

void TileBuilder::combine(ir::OpCode op, BufferId b, IndexId index, ValueId v, Mask mask) {
  push({.op = Op::combine,
        .args = {v},
        .buffer = b,
        .index = index,
        .mask = std::move(mask),
        .pointwise = op});
}

ValueId TileBuilder::broadcast(ValueId v, std::vector<AxisId> axes) {
  if (type(v).axes == axes) return v;
  const ValueId out = value({type(v).dtype, false, std::move(axes)});
  push({.op = Op::broadcast, .args = {v}, .results = {out}});
  return out;
}

ValueId TileBuilder::pointwise(ir::OpCode op, DType result, std::vector<ValueId> args) {
  const ValueId v = value({result, false, joined_axes(program_, args)});
  push({.op = Op::pointwise,
        .args = std::move(args),
        .results = {v},
        .pointwise = op,
        .dtype = result});
  return v;
}

ValueId TileBuilder::reduce(ir::OpCode op, ValueId operand, uint32_t axis, ir::ReduceOrder order) {
  Type t = type(operand);
  t.axes.at(axis) = AxisId();
  const DType dtype = t.dtype;
  const ValueId v = value(std::move(t));
  push({.op = Op::reduce,
        .args = {operand},
        .results = {v},
        .pointwise = op,
        .order = order,
        .dtype = dtype,
        .axis = axis});
  return v;
}

ValueId TileBuilder::dot(ValueId a, ValueId b, uint32_t axis, ValueId start) {
  Values args{a, b};
  if (start) args.push_back(start);
  std::vector<AxisId> axes = joined_axes(program_, args);
  axes.at(axis) = AxisId();
  const DType dtype = opmath(type(a).dtype);
  const ValueId v = value({dtype, false, std::move(axes)});
  push({.op = Op::dot,
        .args = std::move(args),
        .results = {v},
        .pointwise = ir::OpCode::reduce_sum,
        .dtype = dtype,
        .axis = axis});
  return v;
}

TileBuilder::Scanned TileBuilder::scan(const Values& identities, const Values& starts,
                                       const Values& elements, uint32_t axis, const Fold& fold) {
  auto open = std::make_shared<Open>();
  open->inst = {.op = Op::scan, .axis = axis};
  for (const Values* v : {&identities, &starts, &elements})
    open->inst.args.insert(open->inst.args.end(), v->begin(), v->end());
  Block body;
  for (int side = 0; side < 2; side++)
    for (const ValueId v : elements) body.params.push_back(value({type(v).dtype, false, {}}));
  const auto middle = body.params.begin() + static_cast<std::ptrdiff_t>(elements.size());
  const Values before(body.params.begin(), middle), next(middle, body.params.end());
  open->inst.blocks.push_back(std::move(body));
  open_.push_back(std::move(open));
  Values folded = fold(before, next);
  push({.op = Op::yield, .args = std::move(folded)});
  Inst inst = std::move(open_.back()->inst);
  open_.pop_back();
  Scanned out;
  for (const ValueId v : elements) out.running.push_back(value(type(v)));
  for (const ValueId v : starts) out.ends.push_back(value(type(v)));
  inst.results = out.running;
  inst.results.insert(inst.results.end(), out.ends.begin(), out.ends.end());
  push(std::move(inst));
  return out;
}

void TileBuilder::check(ValueId all_true, uint32_t code) {
  push({.op = Op::check, .args = {all_true}, .code = code});
}

void TileBuilder::begin_for(IndexId lo, IndexId hi, std::vector<ValueId> init) {
  auto open = std::make_shared<Open>();
  Block body;
  body.params.push_back(value({DType::I64, true, {}}));
  const Bounds first = bounds(lo), end = bounds(hi);
  scalar_bounds_[body.params[0]] = {first.lo, end.hi == INT64_MAX ? INT64_MAX : end.hi - 1};
  for (const ValueId v : init) body.params.push_back(value(type(v)));
  open->inst = {.op = Op::for_, .args = std::move(init), .index = lo, .index_hi = hi};
  open->inst.blocks.push_back(std::move(body));
  open_.push_back(std::move(open));
}

ValueId TileBuilder::for_index() const {
  return open_.back()->inst.blocks[0].params[0];
}
std::vector<ValueId> TileBuilder::for_carried() const {
  const auto& params = open_.back()->inst.blocks[0].params;
  return {params.begin() + 1, params.end()};
}

std::vector<ValueId> TileBuilder::end_for(std::vector<ValueId> yielded) {
  if (open_.empty()) throw InternalError("tile: end_for without begin_for");
  push({.op = Op::yield, .args = std::move(yielded)});
  Inst loop = std::move(open_.back()->inst);
  open_.pop_back();
  for (const ValueId v : loop.args) loop.results.push_back(value(type(v)));
  std::vector<ValueId> results = loop.results;
  push(std::move(loop));
  return results;
}

Program TileBuilder::finish() {
  if (!open_.empty()) throw InternalError("tile: a for_ or a scan is still open");
  verify_or_throw(program_);
  return std::move(program_);
}

}  // namespace poot::tile
