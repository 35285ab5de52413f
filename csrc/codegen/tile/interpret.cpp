// Interpreter of tile programs: one element at a time, in row-major order of positions; a reduction
// takes its elements in the order of the axis. Values outside the extents do not exist here.
#include <cstring>

#include "codegen/tile/op_table.h"
#include "ir/moments.h"
#include "ir/scalar_eval.h"
#include "program/kernel_abi.h"
#include "support/errors.h"

namespace poot::tile {
namespace {

using ir::Bits;

struct Element {
  std::vector<int64_t> extents;  // by position; 1 for the unit axis
  std::vector<Bits> bits;        // row-major
};

class Interpreter {
 public:
  Interpreter(const Program& p, std::span<const std::span<std::byte>> buffers,
              std::span<const int64_t> symbols)
      : p_(p),
        buffers_(buffers),
        values_(p.types.size()),
        scalars_(p.types.size()),
        coordinates_(p.axes.size()) {
    if (buffers.size() != p.buffers.size())
      throw InvalidGraph("tile-run-C2", p.name, "not as many buffers as the program declares");
    for (const Dim& d : p.meta) meta_.push_back(d.eval(symbols));
    for (int a = 0; a < 3; a++) grid_[a] = p.grid[a].eval(symbols);
  }

  uint32_t run() {
    for (id_[2] = 0; id_[2] < grid_[2]; id_[2]++)
      for (id_[1] = 0; id_[1] < grid_[1]; id_[1]++)
        for (id_[0] = 0; id_[0] < grid_[0]; id_[0]++) block(p_.body);
    return status_;
  }

 private:
  int64_t eval(IndexId i) const {
    const IndexNode& n = p_.index[i.index];
    switch (n.op) {
      case IndexOp::Const:
        return n.value;
      case IndexOp::Coord:
        return coordinates_[n.ref];
      case IndexOp::Scalar:
        return scalars_[n.ref];
      case IndexOp::Loaded:
        return ir::to_int(element(ValueId(n.ref)), p_.types[n.ref].dtype);
      case IndexOp::Meta:
        return meta_[static_cast<size_t>(n.value)];
      default:
        break;
    }
    const int64_t a = eval(n.a), b = eval(n.b);
    switch (n.op) {
      case IndexOp::Add:
        return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      case IndexOp::Mul:
        return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      case IndexOp::Min:
        return std::min(a, b);
      case IndexOp::Max:
        return std::max(a, b);
      default:
        break;
    }
    if (b <= 0)
      throw InvalidGraph("tile-run-C3", p_.name, "an index divided by " + std::to_string(b));
    const int64_t q = a / b - (a % b < 0);
    return n.op == IndexOp::Div ? q : a - q * b;
  }
  bool inside(const Mask& mask) const {
    for (const MaskTerm& t : mask) {
      const int64_t i = eval(t.index);
      if (i < eval(t.lo) || i >= eval(t.hi)) return false;
    }
    return true;
  }

  int64_t extent(AxisId a) const {
    if (!a) return 1;
    const Axis& axis = p_.axes[a.index];
    const int64_t e = eval(axis.extent);
    if (e < 0 || e > axis.capacity)
      throw InvalidGraph(
          "tile-run-C4", "axis " + axis.name,
          "extent " + std::to_string(e) + " of capacity " + std::to_string(axis.capacity));
    return e;
  }

  // The value's element at the current coordinates.
  Bits element(ValueId v) const {
    const Element& e = values_[v.index];
    return e.bits.at(place(p_.types[v.index], e));
  }
  size_t place(const Type& t, const Element& e) const {
    size_t at = 0;
    for (size_t i = 0; i < t.axes.size(); i++)
      at = at * static_cast<size_t>(e.extents[i]) +
           static_cast<size_t>(t.axes[i] ? coordinates_[t.axes[i].index] : 0);
    return at;
  }

  // Calls f at each position of a tile type, with the coordinates set.
  template <class F>
  void each(const Type& t, F f) {
    std::vector<int64_t> extents;
    for (const AxisId a : t.axes) extents.push_back(extent(a));
    each_from(t, extents, 0, f);
  }
  template <class F>
  void each_from(const Type& t, const std::vector<int64_t>& extents, size_t i, F& f) {
    if (i == extents.size()) return f();
    for (int64_t k = 0; k < extents[i]; k++) {
      if (t.axes[i]) coordinates_[t.axes[i].index] = k;
      each_from(t, extents, i + 1, f);
    }
  }
  template <class F>
  void fill(ValueId v, F f) {
    const Type& t = p_.types[v.index];
    Element out;
    for (const AxisId a : t.axes) out.extents.push_back(extent(a));
    each(t, [&] { out.bits.push_back(f()); });
    values_[v.index] = std::move(out);
  }

  std::byte* address(const Inst& inst) {
    const Buffer& b = p_.buffers[inst.buffer.index];
    const int64_t i = eval(inst.index), size = byte_size(b.dtype);
    const auto bytes = static_cast<int64_t>(buffers_[inst.buffer.index].size());
    if (i < 0 || i >= bytes / size)
      throw InvalidGraph("tile-run-C1", p_.name + ", buffer " + b.name,
                         "index " + std::to_string(i) + " of " + std::to_string(bytes / size));
    return buffers_[inst.buffer.index].data() + i * size;
  }

  void block(const Block& b) {
    for (const Inst& inst : b.insts)
      if (inst.op != Op::yield) instruction(inst);
  }

  void instruction(const Inst& inst) {
    const ValueId out = inst.results.empty() ? ValueId() : inst.results[0];
    switch (inst.op) {
      case Op::block_id:
        scalars_[out.index] = id_[inst.axis];
        break;
      case Op::scalar_index:
        scalars_[out.index] = eval(inst.index);
        break;
      case Op::index_tile:
        fill(out, [&] { return ir::from_int(eval(inst.index), inst.dtype); });
        break;
      case Op::constant:
        fill(out, [&] { return ir::bits_of(*inst.value); });
        break;
      case Op::load:
        fill(out, [&] { return load(inst); });
        break;
      case Op::store:
      case Op::combine:
        store(inst);
        break;
      case Op::broadcast:
        fill(out, [&] { return element(inst.args[0]); });
        break;
      case Op::pointwise:
        fill(out, [&] { return pointwise(inst); });
        break;
      case Op::reduce:
        reduce(inst);
        break;
      case Op::dot:
        dot(inst);
        break;
      case Op::scan:
        scan(inst);
        break;
      case Op::check:
        each(p_.types[inst.args[0].index], [&] {
          if (!element(inst.args[0])) status_ |= inst.code;
        });
        break;
      case Op::for_:
        loop(inst);
        break;
      case Op::yield:
        break;
    }
  }

  Bits load(const Inst& inst) {
    if (!inside(inst.mask)) return inst.value ? ir::bits_of(*inst.value) : 0;
    Bits bits = 0;
    std::memcpy(&bits, address(inst),
                static_cast<size_t>(byte_size(p_.buffers[inst.buffer.index].dtype)));
    return bits;
  }
  void store(const Inst& inst) {
    each(p_.types[inst.args[0].index], [&] {
      if (!inside(inst.mask)) return;
      const DType dtype = p_.buffers[inst.buffer.index].dtype;
      const auto size = static_cast<size_t>(byte_size(dtype));
      Bits bits = element(inst.args[0]);
      if (inst.op == Op::combine) {
        Bits both[2] = {0, bits};
        std::memcpy(both, address(inst), size);
        bits = ir::eval_pointwise(inst.pointwise, dtype, dtype, both, nullptr);
      }
      std::memcpy(address(inst), &bits, size);
    });
  }
  Bits pointwise(const Inst& inst) {
    Bits args[3] = {};
    for (size_t i = 0; i < inst.args.size(); i++) args[i] = element(inst.args[i]);
    const size_t typed = inst.pointwise == ir::OpCode::select ? 1 : 0;
    ir::ScalarFault fault = ir::ScalarFault::None;
    const Bits bits = ir::eval_pointwise(inst.pointwise, p_.types[inst.args[typed].index].dtype,
                                         inst.dtype, {args, inst.args.size()}, &fault);
    if (fault == ir::ScalarFault::DivideByZero) status_ |= program::kDivideByZero;
    return bits;
  }
  void reduce(const Inst& inst) {
    const AxisId axis = p_.types[inst.args[0].index].axes[inst.axis];
    const int64_t n = extent(axis);
    if (ir::is_moment(inst.pointwise)) return moment(inst, axis, n);
    fill(inst.results[0], [&] {
      Bits acc = ir::reduce_identity(inst.pointwise, inst.dtype);
      for (int64_t k = 0; k < n; k++) {
        if (axis) coordinates_[axis.index] = k;
        acc = ir::reduce_step(inst.pointwise, inst.dtype, acc, element(inst.args[0]));
      }
      return acc;
    });
  }
  void moment(const Inst& inst, AxisId axis, int64_t n) {
    fill(inst.results[0], [&] {
      double sum = 0, squares = 0;
      const auto each = [&](const std::function<void(double)>& body) {
        for (int64_t k = 0; k < n; k++) {
          if (axis) coordinates_[axis.index] = k;
          body(ir::to_double(element(inst.args[0]), inst.dtype));
        }
      };
      each([&](double x) { sum += x; });
      const double mean = sum / static_cast<double>(n);
      each([&](double x) { squares += (x - mean) * (x - mean); });
      return ir::from_double(inst.pointwise == ir::OpCode::welford_mean ? mean : squares,
                             inst.dtype);
    });
  }
  void dot(const Inst& inst) {
    const Type& result = p_.types[inst.results[0].index];
    const AxisId axis = joined_axes(p_, inst.args)[inst.axis];
    const DType from = p_.types[inst.args[0].index].dtype, to = result.dtype;
    const int64_t n = extent(axis);
    const auto wide = [&](ValueId v) {
      const Bits bits = element(v);
      return ir::eval_pointwise(ir::OpCode::cast, from, to, {&bits, 1}, nullptr);
    };
    fill(inst.results[0], [&] {
      Bits acc = inst.args.size() > 2 ? element(inst.args[2])
                                      : ir::reduce_identity(ir::OpCode::reduce_sum, to);
      for (int64_t k = 0; k < n; k++) {
        coordinates_[axis.index] = k;
        const Bits terms[3] = {wide(inst.args[0]), wide(inst.args[1]), acc};
        acc = ir::eval_pointwise(ir::OpCode::fma, to, to, terms, nullptr);
      }
      return acc;
    });
  }
  void scan(const Inst& inst) {
    const size_t n = scanned_values(inst);
    const Block& body = inst.blocks[0];
    const Type& elements = p_.types[scan_elements(inst)[0].index];
    Type rows = elements;
    rows.axes[inst.axis] = AxisId();
    const AxisId axis = elements.axes[inst.axis];
    const int64_t length = extent(axis);
    const auto sized = [&](const Type& t) {
      Element e;
      size_t count = 1;
      for (const AxisId a : t.axes) {
        e.extents.push_back(extent(a));
        count *= static_cast<size_t>(e.extents.back());
      }
      e.bits.resize(count);
      return e;
    };
    std::vector<Element> running(n, sized(elements)), ends(n, sized(rows));
    each(rows, [&] {
      std::vector<Bits> before;
      for (const ValueId v : scan_starts(inst)) before.push_back(element(v));
      for (int64_t k = 0; k < length; k++) {
        coordinates_[axis.index] = k;
        for (size_t i = 0; i < n; i++) {
          values_[body.params[i].index] = {{}, {before[i]}};
          values_[body.params[n + i].index] = {{}, {element(scan_elements(inst)[i])}};
        }
        block(body);
        for (size_t i = 0; i < n; i++) {
          before[i] = element(body.insts.back().args[i]);
          running[i].bits[place(elements, running[i])] = before[i];
        }
      }
      for (size_t i = 0; i < n; i++) ends[i].bits[place(rows, ends[i])] = before[i];
    });
    for (size_t i = 0; i < n; i++) {
      values_[inst.results[i].index] = std::move(running[i]);
      values_[inst.results[n + i].index] = std::move(ends[i]);
    }
  }
  void loop(const Inst& inst) {
    const Block& body = inst.blocks[0];
    const int64_t lo = eval(inst.index), hi = eval(inst.index_hi);
    std::vector<Element> carried;
    for (const ValueId v : inst.args) carried.push_back(values_[v.index]);
    for (int64_t i = lo; i < hi; i++) {
      scalars_[body.params[0].index] = i;
      for (size_t k = 0; k < carried.size(); k++)
        values_[body.params[k + 1].index] = std::move(carried[k]);
      block(body);
      for (size_t k = 0; k < carried.size(); k++)
        carried[k] = values_[body.insts.back().args[k].index];
    }
    for (size_t k = 0; k < carried.size(); k++)
      values_[inst.results[k].index] = std::move(carried[k]);
  }

  const Program& p_;
  std::span<const std::span<std::byte>> buffers_;
  std::vector<Element> values_;
  std::vector<int64_t> scalars_, coordinates_, meta_;
  int64_t grid_[3] = {1, 1, 1}, id_[3] = {0, 0, 0};
  uint32_t status_ = 0;
};

}  // namespace

uint32_t interpret(const Program& p, std::span<const std::span<std::byte>> buffers,
                   std::span<const int64_t> symbols) {
  return Interpreter(p, buffers, symbols).run();
}

}  // namespace poot::tile
