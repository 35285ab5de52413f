// Blocks and loops. A row axis that a loop's tiles have becomes a scalar loop
// around the whole block, so that what the loop carries for each row is a KIR scalar; carried tiles
// with a column live in private arrays that the loop's last phase overwrites, unless the target
// runs the whole block for one vector of columns at a time.
#include "codegen/lower/block_lowering.h"

#include <algorithm>

namespace poot::codegen {

namespace lowering {

using KValue = kir::ValueId;

tile::AxisId carried_columns(const tile::Program& p, const tile::Block& b) {
  for (const tile::Inst& inst : b.insts) {
    if (!is_control(inst)) continue;
    for (tile::ValueId v : inst.results)
      if (const auto& axes = p.type(v).axes; !axes.empty() && axes.back()) return axes.back();
    for (const tile::Block& inner : inst.blocks)
      if (const tile::AxisId a = carried_columns(p, inner)) return a;
  }
  return {};
}

BlockLowering::BlockLowering(const tile::Program& program, const Target& target)
    : facts_(program), target_(target), emit_(facts_, kernel_, target) {
  kernel_.name = program.name;
  kernel_.isa = target.isa;
  kernel_.meta_words = static_cast<uint32_t>(program.meta.size());
  for (const tile::Buffer& buffer : program.buffers) {
    kir::Object o;
    o.name = buffer.name;
    o.kind = kir::ObjectKind::Buffer;
    o.elem = storage_elem(buffer.dtype);
    o.writable = buffer.written;
    o.noalias = !buffer.shared;
    kernel_.objects.push_back(std::move(o));
  }
}

// A kernel that begins while the one before it ends takes the places of workgroups that have ended.
// Few do: many would take them from workgroups that still work, and gain nothing.
bool BlockLowering::may_overlap() const {
  const tile::Program& p = facts_.program();
  const Dim blocks = p.grid[0] * p.grid[1] * p.grid[2];
  return target_.overlapped_blocks > 0 && blocks.is_const() &&
         static_cast<uint64_t>(blocks.value()) * kernel_.cluster <= target_.overlapped_blocks;
}

kir::Kernel BlockLowering::run() {
  begin();
  program_body();
  kernel_.dependent = may_overlap();
  kir::verify_or_throw(kernel_);
  return std::move(kernel_);
}

namespace {

struct LoopAxes {
  AxisSet used = 0, declared = 0, stores = ~AxisSet{0};
};

void collect(const TileFacts& facts, const tile::Block& b, LoopAxes& out) {
  for (tile::AxisId a : b.axis_ids) out.declared |= TileFacts::bit(a);
  for (tile::ValueId v : b.params) out.used |= facts.axes(v);
  for (const tile::Inst& inst : b.insts) {
    for (tile::ValueId v : inst.results) out.used |= facts.axes(v);
    if (tile::writes(inst.op) || inst.op == tile::Op::check) out.stores &= facts.axes(inst.args[0]);
    for (const tile::Block& inner : inst.blocks) collect(facts, inner, out);
  }
}

}  // namespace

std::vector<tile::AxisId> BlockLowering::axes_around_loops(const tile::Block& b) const {
  LoopAxes loops, all;
  bool any = false;
  for (const tile::Inst& inst : b.insts)
    if (is_control(inst)) collect(facts_, inst.blocks.at(0), loops), any = true;
  if (!any) return {};
  collect(facts_, b, all);
  std::vector<tile::AxisId> out;
  AxisSet around = loops.used & ~loops.declared & facts_.row_axes() & ~facts_.reduced_axes() &
                   ~emit_.bound_axes();
  for (uint32_t a = 0; around != 0; ++a, around >>= 1) {
    if ((around & 1) == 0) continue;
    if ((all.stores >> a & 1) == 0)
      throw Unsupported("tile program " + facts_.program().name,
                        "a store without axis " + facts_.program().axes[a].name +
                            " beside a loop over tiles that have it");
    out.push_back(tile::AxisId(a));
  }
  return out;
}

void BlockLowering::block(const tile::Block& b, std::span<const std::optional<KeptTile>> carried) {
  const std::vector<tile::AxisId> around = axes_around_loops(b);
  const auto open = [&](auto&& self, size_t d) -> void {
    if (d == around.size()) return block_body(b, carried);
    row_loop(around[d], [&] { self(self, d + 1); });
  };
  open(open, 0);
}

void BlockLowering::block_body(const tile::Block& b,
                               std::span<const std::optional<KeptTile>> carried) {
  Insts insts;
  const tile::Inst* yield = nullptr;
  for (const tile::Inst& inst : b.insts) {
    if (inst.op == tile::Op::yield) {
      yield = &inst;
    } else if (is_control(inst)) {
      lower_run(insts, nullptr, {});
      insts.clear();
      loop(inst);
    } else {
      insts.push_back(&inst);
    }
  }
  lower_run(insts, yield, carried);
}

void BlockLowering::at_coordinate(tile::AxisId axis, KValue i, const std::function<void()>& body) {
  emit_.push_scope();
  emit_.bind(axis, i);
  body();
  emit_.unbind(axis);
  emit_.pop_scope();
}

void BlockLowering::row_loop(tile::AxisId axis, const std::function<void()>& body) {
  if (emit_.static_extent(axis) == 1) return at_coordinate(axis, emit_.i64(0), body);
  const KValue lo = emit_.i64(0), hi = emit_.extent(axis), one = emit_.i64(1);
  emit_.builder().for_loop(lo, hi, one, {}, [&](KValue i, std::span<const KValue>) {
    at_coordinate(axis, i, body);
    return std::vector<KValue>{};
  });
}

// A value with the vector axis that is bound around the loop has a vector's lanes.
uint16_t BlockLowering::lanes_at(tile::ValueId v) const {
  return emit_.varies(facts_.axes(v)) ? emit_.lanes() : uint16_t{1};
}

void BlockLowering::loop(const tile::Inst& inst) {
  const tile::Block& body = inst.blocks.at(0);
  const size_t n = inst.args.size();
  std::vector<std::optional<KeptTile>> arrays(n);
  std::vector<Root> fills;
  std::vector<KValue> init;
  for (size_t i = 0; i < n; ++i) {
    const std::vector<tile::AxisId> axes = unbound_axes(inst.results[i], false);
    if (axes.empty()) {
      init.push_back(emit_.exact(inst.args[i], lanes_at(inst.results[i])));
      continue;
    }
    arrays[i] = new_array(inst.results[i], axes);
    Root r = keep_root(inst.args[i], *arrays[i], {});
    fills.push_back(std::move(r));
  }
  run_roots(std::move(fills));
  const auto pass = [&](KValue i, std::span<const KValue> carried) {
    emit_.push_scope();
    emit_.define(body.params[0], {i, {}});
    for (size_t k = 0, s = 0; k < n; ++k) {
      if (arrays[k])
        emit_.set_kept(body.params[k + 1], arrays[k]);
      else
        emit_.define(body.params[k + 1], {carried[s++], {}});
    }
    block(body, arrays);
    std::vector<KValue> next;
    const tile::Inst& yield = body.insts.back();
    for (size_t k = 0; k < n; ++k)
      if (!arrays[k]) next.push_back(emit_.exact(yield.args[k], lanes_at(inst.results[k])));
    emit_.pop_scope();
    return next;
  };
  KValue lo = emit_.index(inst.index);
  const KValue hi = emit_.index(inst.index_hi);
  kir::KirBuilder& b = emit_.builder();
  const int64_t together = passes_together();
  const bool inner = std::none_of(body.insts.begin(), body.insts.end(), is_control);
  if (together > 1 && inner) {
    // First whole groups, then what is left.
    const KValue count = b.emit(kir::Op::isub, {hi, lo});
    const KValue whole = b.emit(kir::Op::band, {count, emit_.i64(-together)});
    const KValue first =
        b.select(b.icmp(kir::Pred::sgt, count, emit_.i64(0)), emit_.add(lo, whole), lo);
    init = b.for_loop(lo, first, emit_.i64(together), std::move(init),
                      [&](KValue i, std::span<const KValue> carried) {
                        std::vector<KValue> next(carried.begin(), carried.end());
                        emit_.push_scope();
                        for (int64_t u = 0; u < together; ++u)
                          next = pass(emit_.add(i, emit_.i64(u)), next);
                        emit_.pop_scope();
                        return next;
                      });
    lo = first;
  }
  if (inner && passes_ahead() > 0) emit_.loop_ahead(body.params[0], passes_ahead());
  const auto results = b.for_loop(lo, hi, emit_.i64(1), std::move(init), pass);
  emit_.loop_ahead({}, 0);
  for (size_t k = 0, s = 0; k < n; ++k) {
    if (arrays[k])
      emit_.set_kept(inst.results[k], arrays[k]);
    else
      emit_.define(inst.results[k], {results[s++], {}});
  }
}

}  // namespace lowering
}  // namespace poot::codegen
