// Rules of tile programs. One walk over the blocks with the set of visible values.
//
// tile-C1   ids name existing buffers, values, axes and index nodes; an index node's operands come
//           before it
// tile-C2   a value is defined once, and used only where its definition is in scope; an axis is
//           used only where it is declared
// tile-C3   operands, results and blocks are as many as tile.def says
// tile-C4   scalars are i64 and have no axes; tiles have rank <= 3 and no axis twice
// tile-C5   operands of pointwise broadcast, and the result has their axes; a broadcast's operand
//           has the result's axes or unit ones
// tile-C6   operand and result dtypes are what the IR op asks for
// tile-C7   an index or mask depends only on the axes of the tile that is loaded, made or stored
// tile-C8   loads and stores have the buffer's dtype; a store's buffer is declared written, a
//           load's `other` has its dtype
// tile-C9   a for_ body has parameters (index, carried) of the operands' types, and ends in a yield
//           of the same types; yield appears nowhere else
// tile-C10  reduce takes an IR reduction and a position of the operand; that position becomes unit
// tile-C11  an axis has capacity >= 1 and a uniform extent; loop bounds are uniform
// tile-C12  check takes a bool tile and one status bit
// tile-C13  an index tile is i32 or i64; a loaded index is an integer or bool tile
// tile-C14  constant divisors of index expressions are positive
// tile-C15  grid axes are 0, 1 or 2
// tile-C16  dot takes two float tiles of one dtype and a position where one of them has an axis;
//           that position becomes unit, and the result's dtype is opmath of theirs; a third operand
//           has the result's dtype, and not that axis
// tile-C17  scan takes equally many identities, starts and elements, the latter tiles with an axis
//           at its position, which the starts have not, of dtypes wider than 16 bits where floats;
//           identities have no axes; its body is pointwise ops and constants without axes
// tile-C18  combine takes add, maximum or minimum
#include <algorithm>
#include <set>

#include "codegen/tile/op_table.h"
#include "ir/op.h"
#include "support/errors.h"

namespace poot::tile {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& p) : p_(p) {}

  std::vector<Violation> run() {
    where_ = "@" + p_.name;
    if (pool()) block(p_.body, nullptr);
    return std::move(found_);
  }

 private:
  void fail(const char* id, const std::string& detail) { found_.push_back({id, where_, detail}); }
  bool expect(bool ok, const char* id, const std::string& detail) {
    if (!ok) fail(id, detail);
    return ok;
  }

  // Ids inside the index pool and the axes; later checks may then follow them.
  bool pool() {
    const size_t before = found_.size();
    for (uint32_t i = 0; i < p_.index.size(); i++) {
      const IndexNode& n = p_.index[i];
      where_ = "index node " + std::to_string(i);
      switch (n.op) {
        case IndexOp::Const:
          break;
        case IndexOp::Coord:
          expect(n.ref < p_.axes.size(), "tile-C1", "no such axis");
          break;
        case IndexOp::Scalar:
        case IndexOp::Loaded:
          expect(n.ref < p_.types.size(), "tile-C1", "no such value");
          break;
        case IndexOp::Meta:
          expect(n.value >= 0 && static_cast<size_t>(n.value) < p_.meta.size(), "tile-C1",
                 "no such metadata word");
          break;
        default:
          if (!expect(n.a.index < i && n.b.index < i, "tile-C1", "operand is not before the node"))
            break;
          if (n.op == IndexOp::Div || n.op == IndexOp::Mod) {
            const IndexNode& d = p_.index[n.b.index];
            expect(d.op != IndexOp::Const || d.value > 0, "tile-C14",
                   "divisor " + std::to_string(d.value));
          }
      }
    }
    for (const Axis& a : p_.axes) {
      where_ = "axis " + a.name;
      expect(a.capacity >= 1, "tile-C11", "capacity " + std::to_string(a.capacity));
      if (expect(a.extent.index < p_.index.size(), "tile-C1", "no such index node"))
        expect(uniform(a.extent), "tile-C11", "the extent is not uniform");
    }
    return found_.size() == before;
  }

  bool uniform(IndexId i) const {
    const IndexNode& n = p_.index[i.index];
    if (n.op == IndexOp::Coord || n.op == IndexOp::Loaded) return false;
    return n.op <= IndexOp::Meta || (uniform(n.a) && uniform(n.b));
  }

  // Values and axes that an index mentions are visible; its axes are among `axes`.
  void check_index(IndexId i, const std::vector<AxisId>& axes) {
    if (!expect(i.index < p_.index.size(), "tile-C1", "no such index node")) return;
    const IndexNode& n = p_.index[i.index];
    switch (n.op) {
      case IndexOp::Const:
      case IndexOp::Meta:
        return;
      case IndexOp::Coord:
        use_axis(AxisId(n.ref));
        expect(std::count(axes.begin(), axes.end(), AxisId(n.ref)) > 0, "tile-C7",
               "the index depends on axis " + p_.axes[n.ref].name + ", the tile does not");
        return;
      case IndexOp::Scalar:
        use(ValueId(n.ref));
        expect(p_.types[n.ref].scalar, "tile-C4", "an index scalar is a tile");
        return;
      case IndexOp::Loaded: {
        use(ValueId(n.ref));
        const Type& t = p_.types[n.ref];
        expect(!t.scalar && !is_float(t.dtype) && !is_complex(t.dtype), "tile-C13",
               "a loaded index of type " + std::string(name(t.dtype)));
        for (const AxisId a : t.axes)
          if (a)
            expect(std::count(axes.begin(), axes.end(), a) > 0, "tile-C7",
                   "a loaded index varies along an axis that the tile does not have");
        return;
      }
      default:
        check_index(n.a, axes);
        check_index(n.b, axes);
    }
  }
  void check_mask(const Mask& mask, const std::vector<AxisId>& axes) {
    for (const MaskTerm& t : mask)
      for (const IndexId i : {t.index, t.lo, t.hi}) check_index(i, axes);
  }
  void use(ValueId v) {
    expect(visible_.count(v) > 0, "tile-C2", "%" + std::to_string(v.index) + " is not in scope");
  }
  void use_axis(AxisId a) {
    expect(axes_.count(a) > 0, "tile-C2", "axis " + p_.axes[a.index].name + " is not in scope");
  }
  void define(ValueId v) {
    if (!expect(v.index < p_.types.size(), "tile-C1", "no such value")) return;
    expect(defined_.insert(v).second, "tile-C2", "%" + std::to_string(v.index) + " defined twice");
    visible_.insert(v);
    const Type& t = p_.types[v.index];
    expect(!t.scalar || (t.dtype == DType::I64 && t.axes.empty()), "tile-C4", "not an i64 scalar");
    expect(t.axes.size() <= 3, "tile-C4", "rank " + std::to_string(t.axes.size()));
    for (size_t i = 0; i < t.axes.size(); i++) {
      if (!t.axes[i]) continue;
      if (!expect(t.axes[i].index < p_.axes.size(), "tile-C1", "no such axis")) return;
      use_axis(t.axes[i]);
      expect(std::count(t.axes.begin(), t.axes.end(), t.axes[i]) == 1, "tile-C4",
             "axis " + p_.axes[t.axes[i].index].name + " twice");
    }
  }

  void block(const Block& b, const Inst* loop) {
    const auto visible = visible_;
    const auto axes = axes_;
    for (const AxisId a : b.axis_ids) {
      if (!expect(a.index < p_.axes.size(), "tile-C1", "no such axis")) return;
      axes_.insert(a);
    }
    for (const ValueId v : b.params) define(v);
    for (size_t i = 0; i < b.insts.size(); i++) {
      const Inst& inst = b.insts[i];
      where_ = std::string(facts(inst.op).name);
      if (!inst.results.empty())
        where_ = "%" + std::to_string(inst.results[0].index) + " = " + where_;
      if (inst.op == Op::yield) {
        expect(loop && i + 1 == b.insts.size(), "tile-C9", "a yield that ends no loop body");
      } else if (loop && i + 1 == b.insts.size()) {
        fail("tile-C9", "the loop body does not end in yield");
      }
      instruction(inst, loop);
    }
    if (loop) expect(!b.insts.empty(), "tile-C9", "the loop body is empty");
    for (const AxisId a : b.axis_ids) {
      where_ = "axis " + p_.axes[a.index].name;
      check_index(p_.axes[a.index].extent, {});
    }
    visible_ = visible;
    axes_ = axes;
  }

  void instruction(const Inst& inst, const Inst* loop) {
    const OpFacts& f = facts(inst.op);
    for (const ValueId v : inst.args) {
      if (!expect(v.index < p_.types.size(), "tile-C1", "no such value")) return;
      use(v);
    }
    bool shape = f.operands < 0 || inst.args.size() == static_cast<size_t>(f.operands);
    const size_t results = f.result == ResultKind::none      ? 0
                           : f.result == ResultKind::carried ? inst.args.size()
                           : f.result == ResultKind::scanned ? scanned_values(inst) * 2
                                                             : 1;
    const bool body = inst.op == Op::for_ || inst.op == Op::scan;
    shape = shape && inst.results.size() == results && inst.blocks.size() == (body ? 1u : 0u);
    if (!expect(shape, "tile-C3", "wrong number of operands, results or blocks")) return;
    if (has_attr(inst.op, "buffer") &&
        !expect(inst.buffer.index < p_.buffers.size(), "tile-C1", "no such buffer"))
      return;
    const std::string here = where_;
    if (inst.op == Op::for_) loop_(inst);
    if (inst.op == Op::scan) scan(inst);
    where_ = here;
    for (const ValueId v : inst.results) define(v);
    if (!found_.empty()) return;
    for (const ValueId v : inst.results) {
      const Type& t = p_.types[v.index];
      if (f.result != ResultKind::carried && f.result != ResultKind::scanned)
        expect(t.scalar == (f.result == ResultKind::scalar), "tile-C4", "scalar or tile result");
    }
    for (const ValueId v : inst.args)
      if (inst.op != Op::for_ && inst.op != Op::yield)
        expect(!p_.types[v.index].scalar, "tile-C4", "a scalar operand");
    if (found_.empty()) types(inst, loop);
  }

  void loop_(const Inst& inst) {
    for (const IndexId i : {inst.index, inst.index_hi}) {
      if (!expect(i.index < p_.index.size(), "tile-C1", "no such index node")) return;
      if (expect(uniform(i), "tile-C11", "a loop bound is not uniform")) check_index(i, {});
    }
    const Block& body = inst.blocks[0];
    bool ok = body.params.size() == inst.args.size() + 1;
    for (const ValueId v : body.params) ok = ok && v.index < p_.types.size();
    ok = ok && p_.types[body.params[0].index].scalar;
    for (size_t i = 0; ok && i < inst.args.size(); i++)
      ok = same_type(body.params[i + 1], inst.args[i]);
    if (expect(ok, "tile-C9", "the loop's parameters are not (index, carried)")) block(body, &inst);
  }
  void scan(const Inst& inst) {
    const size_t n = scanned_values(inst);
    const Block& body = inst.blocks[0];
    bool ok = n > 0 && inst.args.size() == 3 * n && body.params.size() == 2 * n;
    const Type first = n > 0 ? p_.types[scan_elements(inst)[0].index] : Type{};
    ok = ok && inst.axis < first.axes.size() && first.axes[inst.axis];
    for (size_t i = 0; ok && i < n; i++) {
      const DType d = p_.types[scan_elements(inst)[i].index].dtype;
      const Type element{d, false, first.axes}, none{d, false, {}};
      Type start = element;
      start.axes[inst.axis] = AxisId();
      const auto is = [&](ValueId v, const Type& t) {
        return v.index < p_.types.size() && p_.types[v.index] == t;
      };
      ok = (!is_float(d) || byte_size(d) > 2) && is(scan_elements(inst)[i], element) &&
           is(scan_identities(inst)[i], none) && is(scan_starts(inst)[i], start) &&
           is(inst.results[i], element) && is(inst.results[n + i], start) &&
           is(body.params[i], none) && is(body.params[n + i], none);
    }
    for (const Inst& i : body.insts)
      ok = ok && (i.op == Op::pointwise || i.op == Op::constant || i.op == Op::yield);
    if (expect(ok, "tile-C17", "operands, results or body of a scan")) block(body, &inst);
    for (const Inst& i : body.insts)
      for (const ValueId v : i.results)
        ok = ok && v.index < p_.types.size() && p_.types[v.index].axes.empty();
    expect(ok, "tile-C17", "the body of a scan has axes");
  }
  bool same_type(ValueId a, ValueId b) const { return p_.types[a.index] == p_.types[b.index]; }

  void types(const Inst& inst, const Inst* loop) {
    const Type* arg = inst.args.empty() ? nullptr : &p_.types[inst.args[0].index];
    const Type* out = inst.results.empty() ? nullptr : &p_.types[inst.results[0].index];
    switch (inst.op) {
      case Op::block_id:
        expect(inst.axis < 3, "tile-C15", std::to_string(inst.axis));
        break;
      case Op::scalar_index:
        check_index(inst.index, {});
        break;
      case Op::index_tile:
        check_index(inst.index, out->axes);
        expect(out->dtype == inst.dtype && (out->dtype == DType::I64 || out->dtype == DType::I32),
               "tile-C13", "an index tile of " + std::string(name(out->dtype)));
        break;
      case Op::constant:
        expect(inst.value && inst.value->dtype == out->dtype, "tile-C6", "the literal's dtype");
        break;
      case Op::load:
        check_index(inst.index, out->axes);
        check_mask(inst.mask, out->axes);
        expect(p_.buffers[inst.buffer.index].dtype == out->dtype, "tile-C8", "the buffer's dtype");
        expect(!inst.value || inst.value->dtype == out->dtype, "tile-C8", "dtype of `other`");
        break;
      case Op::combine:
        expect(inst.pointwise == ir::OpCode::add || inst.pointwise == ir::OpCode::maximum ||
                   inst.pointwise == ir::OpCode::minimum,
               "tile-C18", std::string(ir::op_info(inst.pointwise).name) + " combines nothing");
        [[fallthrough]];
      case Op::store:
        check_index(inst.index, arg->axes);
        check_mask(inst.mask, arg->axes);
        expect(p_.buffers[inst.buffer.index].dtype == arg->dtype, "tile-C8", "the buffer's dtype");
        expect(p_.buffers[inst.buffer.index].written, "tile-C8", "the buffer is read-only");
        break;
      case Op::broadcast: {
        bool ok = arg->axes.empty() || arg->axes.size() == out->axes.size();
        for (size_t i = 0; ok && i < arg->axes.size(); i++)
          ok = !arg->axes[i] || arg->axes[i] == out->axes[i];
        expect(ok, "tile-C5", "the operand's axes are neither unit nor the result's");
        expect(arg->dtype == out->dtype, "tile-C6", "a broadcast changes the dtype");
        break;
      }
      case Op::pointwise:
        pointwise(inst, *out);
        break;
      case Op::reduce: {
        const auto& info = ir::op_info(inst.pointwise);
        Type t = *arg;
        const bool ok = info.kind == ir::OpKind::Reduce && inst.axis < t.axes.size();
        if (ok) t.axes[inst.axis] = AxisId();
        expect(ok && t == *out, "tile-C10",
               std::string(info.name) + " over position " + std::to_string(inst.axis));
        expect(inst.order == ir::ReduceOrder::any || inst.pointwise == ir::OpCode::reduce_sum,
               "tile-C10", std::string(info.name) + " in an order");
        break;
      }
      case Op::dot:
        dot(inst, *out);
        break;
      case Op::scan:
        break;
      case Op::check:
        expect(arg->dtype == DType::Bool && inst.code != 0 && (inst.code & (inst.code - 1)) == 0,
               "tile-C12", "not a bool tile and one status bit");
        break;
      case Op::for_:
        for (size_t i = 0; i < inst.args.size(); i++)
          expect(same_type(inst.args[i], inst.results[i]), "tile-C9", "a result's type");
        break;
      case Op::yield: {
        const size_t first = loop && loop->op == Op::for_ ? 1 : 0;
        const size_t count = !loop ? 0 : first == 1 ? loop->args.size() : scanned_values(*loop);
        bool ok = loop && count == inst.args.size();
        for (size_t i = 0; ok && i < count; i++)
          ok = same_type(inst.args[i], loop->blocks[0].params[first + i]);
        expect(ok, "tile-C9", "yielded types are not the carried ones");
        break;
      }
    }
  }

  // Whether the operands broadcast to the axes in `axes`.
  bool join(const Inst& inst, std::vector<AxisId>& axes) const {
    for (const ValueId v : inst.args) {
      const auto& from = p_.types[v.index].axes;
      if (from.empty()) continue;
      if (axes.empty()) axes.resize(from.size());
      if (from.size() != axes.size()) return false;
      for (size_t i = 0; i < from.size(); i++) {
        if (axes[i] && from[i] && axes[i] != from[i]) return false;
        if (from[i]) axes[i] = from[i];
      }
    }
    return true;
  }

  void dot(const Inst& inst, const Type& out) {
    if (!expect(inst.args.size() == 2 || inst.args.size() == 3, "tile-C16", "operands of dot"))
      return;
    const DType dtype = p_.types[inst.args[0].index].dtype;
    if (inst.args.size() == 3) {
      const Type& start = p_.types[inst.args[2].index];
      expect(start.dtype == out.dtype && (start.axes.size() <= inst.axis || !start.axes[inst.axis]),
             "tile-C16", "what a dot starts from");
    }
    expect(is_float(dtype) && p_.types[inst.args[1].index].dtype == dtype &&
               out.dtype == opmath(dtype) && inst.dtype == out.dtype,
           "tile-C16", "dtypes of dot");
    std::vector<AxisId> axes;
    bool ok = join(inst, axes) && inst.axis < axes.size() && axes[inst.axis];
    if (ok) axes[inst.axis] = AxisId();
    expect(ok && axes == out.axes, "tile-C16", "dot over position " + std::to_string(inst.axis));
  }

  void pointwise(const Inst& inst, const Type& out) {
    const auto& info = ir::op_info(inst.pointwise);
    if (!expect(ir::is_pointwise(info.kind) && info.accepts(static_cast<int>(inst.args.size())),
                "tile-C3", "operands of " + std::string(info.name)))
      return;
    std::vector<AxisId> axes;
    bool ok = join(inst, axes);
    expect(ok && axes == out.axes, "tile-C5", "operands of " + std::string(info.name));
    const auto dtype = [&](size_t i) { return p_.types[inst.args[i].index].dtype; };
    const bool sel = info.kind == ir::OpKind::Ternary && inst.pointwise == ir::OpCode::select;
    const size_t first = sel ? 1 : 0;
    ok = out.dtype == inst.dtype && (!sel || dtype(0) == DType::Bool);
    for (size_t i = first + 1; i < inst.args.size(); i++) ok = ok && dtype(i) == dtype(first);
    const bool predicate = info.kind == ir::OpKind::Compare || inst.pointwise == ir::OpCode::is_nan;
    if (predicate)
      ok = ok && out.dtype == DType::Bool;
    else if (info.kind != ir::OpKind::Cast)
      ok = ok && out.dtype == dtype(first);
    expect(ok, "tile-C6", "dtypes of " + std::string(info.name));
  }

  const Program& p_;
  std::string where_;
  std::vector<Violation> found_;
  std::set<ValueId> visible_, defined_;
  std::set<AxisId> axes_;
};

}  // namespace

std::vector<Violation> verify(const Program& p) {
  return Verifier(p).run();
}

void verify_or_throw(const Program& p) {
  const auto found = verify(p);
  if (!found.empty()) throw InvalidGraph(found[0].constraint, found[0].where, found[0].detail);
}

}  // namespace poot::tile
