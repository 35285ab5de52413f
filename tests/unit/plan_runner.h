// Runs a plan without code generation: each kernel launch evaluates its request's body with the
// oracle over strided memory, each library call the equation that it stands for. What the plan adds
// (places, order, in-place updates, live ranges) is thereby checked against the oracle's evaluation
// of the graph. Memory outside a buffer's live range is filled with garbage.
#pragma once

#include <cstring>
#include <map>
#include <vector>

#include "ir/oracle.h"
#include "passes/plan.h"

namespace poot::testing {

using ir::HostArray;

class PlanRunner {
 public:
  using Opaque = std::function<std::vector<HostArray>(const ir::Eqn&, std::span<const HostArray>)>;

  PlanRunner(const passes::PlanResult& plan, std::vector<int64_t> symbols,
             const std::vector<ir::Eqn>& opaque_eqns, Opaque opaque)
      : plan_(plan),
        p_(plan.program),
        symbols_(std::move(symbols)),
        opaque_eqns_(opaque_eqns),
        opaque_(std::move(opaque)) {
    for (const program::Buffer& b : p_.buffers) {
      memory_.emplace_back(static_cast<size_t>(b.bytes.eval(symbols_)), char(0xFF));
      if (b.cls == program::BufferClass::Const) memory_.back().assign(b.data.begin(), b.data.end());
    }
  }

  // Puts a dense array into the memory of argument `arg`, in the argument's strides.
  void set_argument(uint32_t arg, const HostArray& array) {
    for (uint32_t i = 0; i < p_.buffers.size(); ++i) {
      const program::Buffer& b = p_.buffers[i];
      if (b.cls == program::BufferClass::Input && b.index == arg)
        write({program::BufferId(i), array.dtype, {}, {}, 0}, array.shape,
              eval(std::get<program::ArgTensor>(p_.args[arg]).strides), 0, array);
    }
  }
  HostArray argument(uint32_t arg) const {
    const auto& t = std::get<program::ArgTensor>(p_.args[arg]);
    for (uint32_t i = 0; i < p_.buffers.size(); ++i) {
      const program::Buffer& b = p_.buffers[i];
      if (b.cls == program::BufferClass::Input && b.index == arg)
        return read({program::BufferId(i), t.dtype, t.shape, t.strides, 0});
    }
    throw InternalError("the argument has no buffer");
  }

  void run() {
    uint32_t now = 0;
    for (const program::Segment& s : p_.segments) {
      for (const program::Launch& l : s.launches) {
        std::visit([&](const auto& body) { launch(body); }, l.body);
        spoil(now++);
      }
    }
  }

  HostArray result(size_t i) const {
    if (const auto* a = std::get_if<program::ResultArg>(&p_.results[i])) return argument(a->arg);
    return read(p_.views[std::get<program::ResultView>(p_.results[i]).view.index]);
  }

 private:
  std::vector<int64_t> eval(const Shape& dims) const {
    std::vector<int64_t> out;
    for (const Dim& d : dims) out.push_back(d.eval(symbols_));
    return out;
  }

  // Calls f(dense index, byte offset) for each element of a window.
  template <class F>
  void each(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, int64_t offset,
            int64_t size, F&& f) const {
    int64_t n = 1;
    for (const int64_t s : shape) n *= s;
    std::vector<int64_t> at(shape.size(), 0);
    for (int64_t i = 0; i < n; ++i) {
      int64_t where = offset;
      for (size_t k = 0; k < at.size(); ++k) where += at[k] * strides[k];
      f(i, where * size);
      for (size_t k = at.size(); k-- > 0;) {
        if (++at[k] < shape[k]) break;
        at[k] = 0;
      }
    }
  }

  HostArray read(const program::View& v) const {
    HostArray a = HostArray::zeros(v.dtype, eval(v.shape));
    const auto size = byte_size(v.dtype);
    const std::vector<char>& m = memory_.at(v.buffer.index);
    each(a.shape, eval(v.strides), v.offset.eval(symbols_), size, [&](int64_t i, int64_t byte) {
      if (byte < 0 || byte + size > static_cast<int64_t>(m.size()))
        throw InternalError("a read outside buffer " + std::to_string(v.buffer.index));
      std::memcpy(a.data.data() + i * size, m.data() + byte, static_cast<size_t>(size));
    });
    return a;
  }

  void write(const program::View& v, const std::vector<int64_t>& shape,
             const std::vector<int64_t>& strides, int64_t offset, const HostArray& a) {
    const auto size = byte_size(a.dtype);
    std::vector<char>& m = memory_.at(v.buffer.index);
    each(shape, strides, offset, size, [&](int64_t i, int64_t byte) {
      if (byte < 0 || byte + size > static_cast<int64_t>(m.size()))
        throw InternalError("a write outside buffer " + std::to_string(v.buffer.index));
      std::memcpy(m.data() + byte, a.data.data() + i * size, static_cast<size_t>(size));
    });
  }
  void write(const program::View& v, const HostArray& a) {
    if (a.shape != eval(v.shape) || a.dtype != v.dtype)
      throw InternalError("a result does not have its view's type");
    write(v, a.shape, eval(v.strides), v.offset.eval(symbols_), a);
  }

  void launch(const program::KernelLaunch& l) {
    const passes::KernelRequest& q = plan_.requests[l.kernel.index];
    const ir::Graph& body = *q.body;
    const bool scatter = q.kind == passes::RequestKind::Scatter;
    const size_t inputs = body.inputs().size();
    // A scatter's base is its output buffer, and no slot of its own.
    auto view = [&](const program::KernelLaunch::Slot& s, const ir::TensorType& t,
                    const ir::Layout& layout) {
      const int64_t size = byte_size(t.dtype);
      const int64_t byte = s.byte_offset.eval(symbols_);
      if (byte % size) throw InternalError("a slot's offset is no whole element");
      return program::View{s.buffer, t.dtype, t.shape, layout.strides, layout.offset + byte / size};
    };
    std::vector<HostArray> in;
    size_t slot = 0;
    for (size_t i = 0; i < inputs; ++i) {
      const auto& s = scatter && i == 0 ? l.buffers.back() : l.buffers.at(slot++);
      in.push_back(read(view(s, body.type(body.inputs()[i]), q.inputs.at(i))));
    }
    const std::vector<HostArray> out = ir::evaluate(body, in, symbols_);
    for (size_t i = 0; i < out.size(); ++i)
      write(view(l.buffers.at(slot + i), body.type(body.outputs()[i].value), q.outputs.at(i)),
            out[i]);
  }

  void launch(const program::LibraryLaunch& l) {
    ir::Builder b("call", p_.symbols);
    std::vector<ir::Operand> operands;
    std::vector<HostArray> in;
    for (const program::ViewId v : l.inputs) {
      if (!v) continue;
      const program::View& view = p_.views[v.index];
      operands.push_back(b.input({view.dtype, view.shape}));
      in.push_back(read(view));
    }
    const bool folded = l.op == program::LibraryOp::convolution_packed && l.inputs.size() > 3;
    const bool biased = l.op == program::LibraryOp::linear_packed && l.inputs.size() == 3;
    const ir::OpCode op = folded   ? ir::OpCode::convolution_folded
                          : biased ? ir::OpCode::addmm
                                   : op_of(l.op);
    for (const ir::ValueId v : b.emit_multi(op, operands, attributes(l))) b.output(v);
    const std::vector<HostArray> out = ir::evaluate(b.finish(), in, symbols_);
    for (size_t i = 0; i < l.outs.size(); ++i) write(p_.views[l.outs[i].index], out[i]);
  }

  static ir::OpCode op_of(program::LibraryOp op) {
    using program::LibraryOp;
    switch (op) {
      case LibraryOp::mm:
      case LibraryOp::bmm:
        return ir::OpCode::matmul;
      case LibraryOp::addmm:
      case LibraryOp::baddbmm:
        return ir::OpCode::addmm;
      case LibraryOp::convolution:
      case LibraryOp::convolution_packed:
        return ir::OpCode::convolution;
      case LibraryOp::linear_packed:
        return ir::OpCode::matmul;
      case LibraryOp::max_pool2d:
        return ir::OpCode::max_pool;
      case LibraryOp::sdpa:
        return ir::OpCode::attention;
    }
    throw InternalError("no such library op");
  }

  static std::vector<ir::Attr> attributes(const program::LibraryLaunch& l) {
    using program::LibraryOp;
    auto ints = [&](size_t at, size_t n) {
      return std::vector<int64_t>(l.ints.begin() + static_cast<ptrdiff_t>(at),
                                  l.ints.begin() + static_cast<ptrdiff_t>(at + n));
    };
    switch (l.op) {
      case LibraryOp::mm:
      case LibraryOp::bmm:
        return {};
      case LibraryOp::linear_packed:
        return l.inputs.size() == 3 ? std::vector<ir::Attr>{1.0, 1.0} : std::vector<ir::Attr>{};
      case LibraryOp::addmm:
      case LibraryOp::baddbmm:
        return {l.floats[1], l.floats[0]};
      case LibraryOp::convolution: {
        const auto n = static_cast<size_t>(l.ints[0]);
        return {ints(1, n),         ints(1 + n, n),   ints(1 + 2 * n, n), l.ints[1 + 3 * n] != 0,
                ints(2 + 3 * n, n), l.ints[2 + 4 * n]};
      }
      case LibraryOp::convolution_packed: {
        const auto n = static_cast<size_t>(l.ints[0]);
        if (l.inputs.size() > 3)
          return {ints(1, n), ints(1 + n, n), ints(1 + 2 * n, n), l.ints[1 + 3 * n],
                  l.ints[2 + 3 * n] != 0};
        return {
            ints(1, n),       ints(1 + n, n), ints(1 + 2 * n, n), false, std::vector<int64_t>(n, 0),
            l.ints[1 + 3 * n]};
      }
      case LibraryOp::max_pool2d:
        return {ints(0, 2), ints(2, 2), ints(4, 2), ints(6, 2), l.ints[8] != 0};
      case LibraryOp::sdpa:
        return {l.floats.empty() ? ir::Attr() : ir::Attr(l.floats[0]), l.ints[0] != 0};
    }
    return {};
  }

  void launch(const program::OpaqueLaunch& l) {
    std::vector<HostArray> in;
    for (const program::ViewId v : l.inputs) in.push_back(read(p_.views[v.index]));
    const std::vector<HostArray> out = opaque_(opaque_eqns_.at(l.call), in);
    for (size_t i = 0; i < l.outs.size(); ++i) write(p_.views[l.outs[i].index], out[i]);
  }

  void spoil(uint32_t now) {
    for (size_t i = 0; i < p_.buffers.size(); ++i) {
      const program::Buffer& b = p_.buffers[i];
      const bool transient =
          b.cls == program::BufferClass::Arena || b.cls == program::BufferClass::Owned;
      const bool shown = std::any_of(p_.results.begin(), p_.results.end(), [&](const auto& r) {
        const auto* v = std::get_if<program::ResultView>(&r);
        return v && p_.views[v->view.index].buffer.index == i;
      });
      if (transient && !shown && b.last == now)
        std::fill(memory_[i].begin(), memory_[i].end(), char(0xFF));
    }
  }

  const passes::PlanResult& plan_;
  const program::Program& p_;
  std::vector<int64_t> symbols_;
  const std::vector<ir::Eqn>& opaque_eqns_;
  Opaque opaque_;
  std::vector<std::vector<char>> memory_;
};

}  // namespace poot::testing
