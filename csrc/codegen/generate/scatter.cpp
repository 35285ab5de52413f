// In-place updates: the iteration space is the source, and each of its elements is written to the
// base. Slots that name one row twice must leave the later source row, whatever the thread count,
// so the scattered axis is a loop inside a block and blocks divide the other axes:
//   for t in 0..T { v = load src [t, c];  store base [slot(t), c] v  where 0 <= slot(t) < rows }
// scatter differs in that a slot may depend on c too, and that it may combine what is there with v.
//
// A GPU's blocks also divide the base's rows, by class: block k of K takes the slots with slot % K
// = k, so that each row is still written by one block in order. Where there is nothing else to
// divide, each thread has a class. With parts, each takes every P-th slot, in a base of its own.
//
// In any order there is no loop: the source is walked as elementwise kernels walk theirs, and each
// element combined with what is there in one access.
#include <algorithm>
#include <bit>

#include "codegen/generate/generators.h"
#include "codegen/generate/spread.h"
#include "program/kernel_abi.h"
#include "support/errors.h"

namespace poot::codegen {
namespace {

constexpr int64_t kScatterColumns = 1024;
constexpr int64_t kBlocks = 1024, kMostClasses = 256, kSlotsOfClass = 8;  // of a GPU, about
constexpr int64_t kThreadClasses = 4096;
constexpr int64_t kShortBlock = 512;  // elements, where blocks are many and their work is alike

// Sizes of an update: the rows of the base, the slots, and the elements of each.
struct Sizes {
  Dim rows, slots = 1, columns = 1;
};

int64_t power_below(int64_t v) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(v, 1))));
}

int64_t classes(const Sizes& n, const SymbolTable& symbols, const Target& target) {
  if (target.isa == Isa::X86) return 1;
  const int64_t rows = n.rows.hint(symbols), slots = n.slots.hint(symbols);
  if (n.columns.is_const(1)) return std::clamp<int64_t>(power_below(2 * rows), 2, kThreadClasses);
  const int64_t columns = std::max<int64_t>(n.columns.hint(symbols), 1);
  const int64_t blocks = (columns + kBlockElems - 1) / kBlockElems;
  return power_below(std::min({rows, slots / kSlotsOfClass, kBlocks / blocks, kMostClasses}));
}

const ir::Eqn& update_of(const passes::KernelRequest& request) {
  const ir::Graph& body = *request.body;
  const int32_t def = body.outputs().size() == 1 ? body.def(body.outputs()[0].value) : -1;
  if (def < 0) throw Unsupported(request.name, "a scatter whose result is not an update");
  const ir::Eqn& e = body.eqns()[static_cast<size_t>(def)];
  if (e.info().kind != ir::OpKind::Update || !ir::is_value(e.inputs[0]) ||
      std::get<ir::ValueId>(e.inputs[0]) != body.inputs()[0])
    throw Unsupported(request.name, "a scatter whose base is not its first input");
  return e;
}

// The slot that a place of the source goes to, with its check, where `guard` holds.
NodeId slot_at(IndexMap& map, const ir::Eqn& e, const Coordinates& at, size_t axis, const Dim& size,
               const Guard& guard) {
  if (e.op == ir::OpCode::scatter)
    return map.checked(map.at(e.inputs[1], at, guard), size, guard, false,
                       program::kPlaceOutOfRange);
  return map.checked(map.at(e.inputs[1], {at[axis]}, guard), size, guard, !e.flag("exact"),
                     program::kIndexOutOfRange);
}

bool takes_any_order(const passes::KernelRequest& request, const Target& target) {
  return request.any_order && target.isa == Isa::Ptx;
}

// As the source lies in memory, if it is an input.
Affine source_order(const passes::KernelRequest& request, const ir::Operand& source,
                    const Coordinates& at) {
  const ir::Graph& body = *request.body;
  for (size_t i = 0; ir::is_value(source) && i < body.inputs().size(); i++)
    if (body.inputs()[i] == std::get<ir::ValueId>(source))
      return element_index(request.inputs[i], at);
  return element_index(ir::Layout::contiguous(body.type(source).shape), at);
}

// The class is the last free variable, if there are classes.
Region scatter_region(const passes::KernelRequest& request, const ir::Eqn& e, const Target& target,
                      bool& has_classes) {
  const ir::Graph& body = *request.body;
  const bool indexed = e.op != ir::OpCode::update_slice;
  const ir::Operand& source = e.inputs[indexed ? 2 : 1];
  const Shape base = body.type(e.inputs[0]).shape, shape = body.type(source).shape;
  const auto axis = static_cast<size_t>(e.attr<int64_t>("axis"));
  // The scattered axis goes last: variables of role Reduced follow the free ones.
  std::vector<RootDim> root;
  Sizes sizes{base[axis]};
  for (size_t i = 0; i < shape.size(); i++) {
    const bool scattered = indexed && i == axis;
    root.push_back({shape[i], scattered ? Role::Reduced : Role::Free});
    (scattered ? sizes.slots : sizes.columns) *= shape[i];
  }
  const bool any_order = takes_any_order(request, target), in_parts = !request.parts.is_const(1);
  if (any_order)
    for (RootDim& d : root) d.role = Role::Free;
  const Dim slots = shape.empty() ? Dim(1) : shape[axis];
  if (in_parts) root[axis].extent = Dim::ceildiv(slots, request.parts);
  const int64_t of_rows =
      indexed && !any_order && !in_parts ? classes(sizes, body.symbols(), target) : 1;
  has_classes = of_rows > 1;
  if (has_classes) root.push_back({of_rows, Role::Free});
  if (in_parts) root.push_back({request.parts, Role::Free});
  return build_region(body.symbols(), root, [&](Region& r, const Coordinates& all) {
    IndexMap map(body, request.inputs, r.space, r.nodes);
    Coordinates at(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shape.size()));
    Result result{{}, 0, {}, {}};
    if (in_parts) {
      at[axis] = at[axis] * request.parts + all.back();
      if (!request.parts.is_const() || !slots.divisible_by(request.parts.value()))
        result.guard.push_back({at[axis], 0, slots});
    }
    Coordinates to = at;
    if (any_order) r.order = source_order(request, source, at);
    if (indexed) {
      to[axis] = r.space.loaded(slot_at(map, e, at, axis, base[axis], result.guard), base[axis]);
      result.guard.push_back({to[axis], 0, base[axis]});
      if (has_classes) result.guard.push_back({r.space.mod(to[axis], of_rows) - all.back(), 0, 1});
    }
    if (in_parts) to[0] = to[0] + all.back() * base[0];
    result.value = map.at(source, at, has_classes || in_parts ? result.guard : Guard());
    if (indexed) {
      if (const std::string_view fn = e.text("fn"); !fn.empty() && !any_order)
        result.value = r.nodes.pointwise(*ir::op_from_name(fn), body.type(e.inputs[0]).dtype,
                                         {map.at(e.inputs[0], to, result.guard), result.value});
    } else {
      to[axis] = at[axis] * e.attr<int64_t>("step") + e.attr<Dim>("start");
    }
    result.index = element_index(request.outputs[0], to);
    r.results.push_back(std::move(result));
    r.checks = map.checks();
  });
}

}  // namespace

tile::Program generate_scatter(const passes::KernelRequest& request, const Target& target) {
  const ir::Eqn& e = update_of(request);
  bool has_classes = false;
  const Region region = scatter_region(request, e, target, has_classes);
  const SymbolTable& symbols = request.body->symbols();
  std::vector<IterVar> vars = region.vars_of(Role::Free), column_vars, class_vars;
  if (has_classes && vars.size() > 1) {
    class_vars.push_back(vars.back());
    vars.pop_back();
  }
  if (!vars.empty()) {
    column_vars.push_back(vars.back());
    vars.pop_back();
  }
  const Flat rows = flatten(region, vars), columns = flatten(region, column_vars);
  const Flat slots = flatten(region, region.vars_of(Role::Reduced));

  tile::TileBuilder b(request.name, symbols);
  Buffers buffers = declare_buffers(b, request, 1);
  buffers.inputs[0] = buffers.outputs[0];  // the base is read where it is written
  const bool any_order = takes_any_order(request, target);
  const bool short_blocks = any_order || !request.parts.is_const(1);
  const int64_t width =
      column_capacity(columns.size, symbols, short_blocks ? kShortBlock : kScatterColumns);
  const int64_t height = row_capacity(rows.size, columns.size, width, symbols,
                                      short_blocks ? kShortBlock : kBlockElems);
  const bool flat = rows.size.is_const(1);
  BlockedAxis r;
  // A GPU's grid is long along its first axis only.
  const uint32_t row_grid = flat || target.isa == Isa::X86 ? 1 : 0;
  if (!flat) r = blocked_axis(b, symbols, "r", rows.size, height, row_grid);
  const BlockedAxis c = blocked_axis(b, symbols, "c", columns.size, width, 1 - row_grid);
  Emitter emit(b, region, flat ? std::vector{c.axis} : std::vector{r.axis, c.axis}, buffers.inputs);
  if (!flat) bind_flat(b, emit, region, rows, r.index, 1);
  bind_flat(b, emit, region, columns, c.index, flat ? 1 : 2);
  if (!class_vars.empty()) {
    const Flat of_rows = flatten(region, class_vars);
    b.grid(2, of_rows.size);
    bind_flat(b, emit, region, of_rows, b.scalar(b.block_id(2)), 0);
  }
  const bool loop = !slots.vars.empty();
  if (loop) {
    b.begin_for(b.cst(0), b.dim(slots.size), {});
    bind_flat(b, emit, region, slots, b.scalar(b.for_index()), 0);
  }
  emit_checks(b, emit, region.checks, flat ? 0 : 1);
  emit_result(b, emit, region.results[0], buffers.outputs[0], {},
              any_order ? ir::op_from_name(e.text("fn")) : std::nullopt);
  if (loop) b.end_for({});
  b.program().block_elems =
      (flat ? 1 : height) * width * std::max<int64_t>(slots.size.hint(symbols), 1);
  return b.finish();
}

}  // namespace poot::codegen
