// A sum over a million elements to one number is one block's work, and one thread's. Split, every
// block reduces one part of the positions, and a second, small kernel the partial results:
//
//   %1 = mul %x, %x                        partial: %1 = mul %x, %x
//   %2 = reduce_sum %1 {axes=[0,1]}   =>            return reduce_sum %1 {axes=[0,1]}  (of a part)
//   %3 = div %2, 1e6                       total:   %2 = reduce_sum %partial {axes=[0]}
//   return %3                                       return div %2, 1e6
//
// On a GPU, sums down a few columns are first taken down several times as many, so that a block's
// threads all have one: x [n, c] is read as [n / f, f, c], and the f sums of a column are added
// with the parts.
//
// Partial results have the accumulating dtype and are rounded once, after the last sum. How many
// parts there are follows from the shape (for symbolic sizes, from their run-time values), never
// from the number of threads. A CPU's sums of several rows that ask for an order of addition are
// not split: it would be another one. That of one row is given up, as eager's depends on its
// threads.
#include "passes/split_reduce.h"

#include <algorithm>
#include <map>

#include "ir/moments.h"
#include "ir/reduce_order.h"
#include "passes/request.h"

namespace poot::passes {
namespace {

using ir::Eqn;
using ir::Operand;
using ir::OpKind;
using ir::ValueId;

constexpr int64_t kPart = 32768;  // elements of a part, about
constexpr int64_t kEnoughBlocks = 16;
constexpr int64_t kColumns = 64;  // kept elements side by side that one block takes together
constexpr int64_t kMostParts = 4096;
// A GPU wants this many blocks, and parts that are long enough to be worth a block: for rows,
// elements; for columns, positions, of which a thread takes all.
constexpr int64_t kGpuBlocks = 264;
constexpr int64_t kGpuColumns = 1024;  // of a block
constexpr int64_t kGpuRowPart = 65536, kGpuColumnPart = 64;

bool is_reduction(const Eqn& e) {
  return e.info().kind == OpKind::Reduce;
}

// Values that depend on a reduction.
std::vector<bool> after_reductions(const ir::Graph& body) {
  std::vector<bool> after(body.value_count(), false);
  for (const Eqn& e : body.eqns()) {
    bool is = is_reduction(e);
    for (const Operand& o : e.inputs)
      is = is || (ir::is_value(o) && after[std::get<ValueId>(o).index]);
    for (const ValueId v : e.outs) after[v.index] = is;
  }
  return after;
}

std::optional<Dim> gpu_parts(int64_t rows, const Dim& reduced, bool trailing,
                             const SymbolTable& symbols) {
  const int64_t blocks = trailing ? rows : (rows + kGpuColumns - 1) / kGpuColumns;
  const int64_t wanted = (kGpuBlocks + blocks - 1) / blocks;
  const int64_t least = trailing ? kGpuRowPart : kGpuColumnPart;
  const int64_t hint = reduced.hint(symbols);
  if (2 * blocks > kGpuBlocks || hint < 2 * least) return std::nullopt;
  const int64_t positions = std::max(least, (hint + wanted - 1) / wanted);
  if (!reduced.is_const()) return Dim::max(Dim::ceildiv(reduced, positions), 1);
  return Dim((hint + positions - 1) / positions);
}

// Parts of whole accumulators of at most so many positions each: adding parts is what adding
// accumulators would be.
std::optional<Dim> cascade_parts(const Dim& reduced, int64_t positions) {
  const int64_t steps = cascade_steps(reduced);
  int64_t part = steps;
  while (part * steps <= positions) part *= steps;
  if (!reduced.is_const()) return Dim::max(Dim::ceildiv(reduced, part), 1);
  while ((reduced.value() + part - 1) / part > kMostParts) part *= steps;
  if (reduced.value() <= part) return std::nullopt;
  return Dim((reduced.value() + part - 1) / part);
}

// The parts of a reduction of `shape` over `axes`; nullopt: do not split.
std::optional<Dim> parts_of(const Shape& shape, std::vector<int64_t> axes,
                            const SymbolTable& symbols, Isa isa) {
  Dim kept = 1, reduced = 1;
  bool trailing = true, seen = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool is = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    (is ? reduced : kept) *= shape[i];
    trailing = trailing && (is || !seen);
    seen = seen || is;
  }
  if (!kept.is_const()) return std::nullopt;
  const int64_t rows = std::max<int64_t>(kept.value(), 1);
  if (isa == Isa::Ptx) return gpu_parts(rows, reduced, trailing, symbols);
  const int64_t blocks = trailing ? rows : (rows + kColumns - 1) / kColumns;
  if (blocks >= kEnoughBlocks || rows * reduced.hint(symbols) < 2 * kPart) return std::nullopt;
  const int64_t positions = std::max<int64_t>(kPart * blocks / rows, 1);  // of a part
  if (!trailing) return cascade_parts(reduced, positions);
  if (!reduced.is_const()) return Dim::max(Dim::ceildiv(reduced, positions), 1);
  return std::clamp<int64_t>((reduced.value() + positions - 1) / positions, 2, kMostParts);
}

// How many times as many columns a GPU's block takes, where whole rows are reduced over the leading
// axes and their number is a multiple; else 1.
int64_t fold_of(const Shape& shape, const std::vector<int64_t>& axes) {
  Dim kept = 1, reduced = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i < axes.size() && axes[i] != static_cast<int64_t>(i)) return 1;
    (i < axes.size() ? reduced : kept) *= shape[i];
  }
  if (!kept.is_const() || kept.value() < 2) return 1;
  int64_t fold = 1;
  while (2 * fold * kept.value() <= kGpuColumns && reduced.divisible_by(2 * fold)) fold *= 2;
  return fold;
}

class Splitter {
 public:
  Splitter(const ir::Graph& body, Isa isa)
      : body_(body), isa_(isa), after_(after_reductions(body)) {}

  std::optional<SplitReduction> run() {
    for (const Eqn& e : body_.eqns()) {
      if (is_reduction(e) && (ir::is_moment(e.op) || !add(e))) return std::nullopt;
    }
    if (reductions_.empty()) return std::nullopt;
    for (const ir::GraphOutput& o : body_.outputs())
      if (!after_[o.value.index] || numel(body_.type(o.value).shape) != numel(kept_))
        return std::nullopt;
    SplitReduction split{*parts_, partial(), {}, {}};
    split.total = total(split.operands);
    return split;
  }

 private:
  // False if the body is not to be split because of this reduction.
  bool add(const Eqn& e) {
    if (!ir::is_value(e.inputs[0]) || after_[std::get<ValueId>(e.inputs[0]).index]) return false;
    std::vector<int64_t> axes = e.attr<std::vector<int64_t>>("axes");
    if (isa_ == Isa::X86 && keeps_order(e)) return false;
    if (isa_ == Isa::Ptx) fold_ = fold_of(body_.type(e.inputs[0]).shape, axes);
    const auto parts = fold_ == 1
                           ? parts_of(body_.type(e.inputs[0]).shape, axes, body_.symbols(), isa_)
                           : parts_of(folded(e), {0}, body_.symbols(), isa_);
    if (!parts) return false;
    Shape kept;
    const Shape& shape = body_.type(e.inputs[0]).shape;
    for (size_t i = 0; i < shape.size(); ++i)
      if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end())
        kept.push_back(shape[i]);
    const Eqn& first = reductions_.empty() ? e : *reductions_[0];
    if (shape != body_.type(first.inputs[0]).shape ||
        axes != first.attr<std::vector<int64_t>>("axes"))
      return false;
    kept_ = std::move(kept);
    parts_ = parts;
    reductions_.push_back(&e);
    return true;
  }

  // Sums along memory, that is, and of more than one row, or of positions one after the other.
  bool keeps_order(const Eqn& e) const {
    if (e.op != ir::OpCode::reduce_sum || e.text("order").empty()) return false;
    if (ir::is_sequential(ir::reduce_order(e.text("order")).value())) return true;
    const Shape& out = body_.type(e.outs[0]).shape;
    const auto last = static_cast<int64_t>(body_.type(e.inputs[0]).shape.size()) - 1;
    const auto& axes = e.attr<std::vector<int64_t>>("axes");
    return !numel(out).is_const(1) && std::find(axes.begin(), axes.end(), last) != axes.end();
  }

  // [n / fold, fold, kept…]
  Shape folded(const Eqn& e) const {
    const Shape& shape = body_.type(e.inputs[0]).shape;
    const size_t reduced = e.attr<std::vector<int64_t>>("axes").size();
    Dim rows = 1;
    for (size_t i = 0; i < reduced; ++i) rows = rows * shape[i];
    Shape out = {Dim::floordiv(rows, fold_), fold_};
    out.insert(out.end(), shape.begin() + static_cast<ptrdiff_t>(reduced), shape.end());
    return out;
  }

  static bool accumulates(const Eqn& e) { return e.info().rounding == ir::Rounding::Accumulate; }
  DType partial_dtype(const Eqn& e) const {
    const DType d = body_.type(e.outs[0]).dtype;
    return accumulates(e) ? opmath(d) : d;
  }

  std::shared_ptr<const ir::Graph> partial() const {
    ir::Builder b(body_.name(), body_.symbols());
    std::map<uint32_t, ValueId> made;
    for (const ValueId v : body_.inputs()) made[v.index] = b.input(body_.type(v));
    const auto operands = [&](const Eqn& e) {
      std::vector<Operand> out;
      for (const Operand& o : e.inputs)
        out.push_back(ir::is_value(o) ? Operand(made.at(std::get<ValueId>(o).index)) : o);
      return out;
    };
    for (const Eqn& e : body_.eqns()) {
      if (is_reduction(e)) {
        std::vector<Operand> in = operands(e);
        if (partial_dtype(e) != body_.type(e.inputs[0]).dtype)
          in = {b.emit(ir::OpCode::cast, in, {partial_dtype(e)})};
        std::vector<int64_t> axes = e.attr<std::vector<int64_t>>("axes");
        if (fold_ > 1) {
          in = {b.emit(ir::OpCode::reshape, in, {folded(e)})};
          axes = {0};
        }
        b.output(b.emit(e.op, in, {axes, false}));
      } else if (!after_[e.outs[0].index]) {
        const std::vector<ValueId> outs = b.emit_multi(e.op, operands(e), e.attrs);
        for (size_t i = 0; i < outs.size(); ++i) made[e.outs[i].index] = outs[i];
      }
    }
    return std::make_shared<ir::Graph>(b.finish());
  }

  // Which equations the results need besides the reductions and what those need.
  std::vector<bool> rest() const {
    std::vector<bool> needed(body_.value_count(), false);
    for (const ir::GraphOutput& o : body_.outputs()) needed[o.value.index] = true;
    for (size_t i = body_.eqns().size(); i-- > 0;) {
      const Eqn& e = body_.eqns()[i];
      if (is_reduction(e) || !needed[e.outs[0].index]) continue;
      for (const Operand& o : e.inputs)
        if (ir::is_value(o)) needed[std::get<ValueId>(o).index] = true;
    }
    return needed;
  }

  std::shared_ptr<const ir::Graph> total(std::vector<uint32_t>& used) const {
    ir::Builder b(body_.name() + "_total", body_.symbols());
    const std::vector<bool> needed = rest();
    std::map<uint32_t, ValueId> made;
    std::vector<ValueId> partials;
    for (const Eqn* e : reductions_) {
      Shape shape = kept_;
      if (fold_ > 1) shape.insert(shape.begin(), fold_);
      shape.insert(shape.begin(), *parts_);
      partials.push_back(b.input({partial_dtype(*e), shape}));
    }
    for (uint32_t i = 0; i < body_.inputs().size(); ++i) {
      const ValueId v = body_.inputs()[i];
      if (!needed[v.index]) continue;
      made[v.index] = b.input(body_.type(v));
      used.push_back(i);
    }
    for (const Eqn& e : body_.eqns()) {
      if (!needed[e.outs[0].index]) continue;
      if (is_reduction(e)) {
        const auto i = std::find(reductions_.begin(), reductions_.end(), &e) - reductions_.begin();
        ValueId v =
            b.emit(e.op, {partials[static_cast<size_t>(i)]},
                   {fold_ > 1 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0}, false});
        const auto& [d, shape] = body_.type(e.outs[0]);
        if (d != partial_dtype(e)) v = b.emit(ir::OpCode::cast, {v}, {d});
        if (shape != kept_) v = b.emit(ir::OpCode::reshape, {v}, {shape});
        made[e.outs[0].index] = v;
        continue;
      }
      std::vector<Operand> in;
      for (const Operand& o : e.inputs)
        in.push_back(ir::is_value(o) ? Operand(made.at(std::get<ValueId>(o).index)) : o);
      const std::vector<ValueId> outs = b.emit_multi(e.op, in, e.attrs);
      for (size_t k = 0; k < outs.size(); ++k) made[e.outs[k].index] = outs[k];
    }
    for (const ir::GraphOutput& o : body_.outputs()) b.output(made.at(o.value.index));
    return std::make_shared<ir::Graph>(b.finish());
  }

  const ir::Graph& body_;
  const Isa isa_;
  const std::vector<bool> after_;
  std::vector<const Eqn*> reductions_;
  std::optional<Dim> parts_;
  int64_t fold_ = 1;
  Shape kept_;  // of the reductions' results, without the axes that they keep
};

}  // namespace

std::optional<SplitReduction> split_reduction(const ir::Graph& body, const Target& target) {
  return Splitter(body, target.isa).run();
}

}  // namespace poot::passes
