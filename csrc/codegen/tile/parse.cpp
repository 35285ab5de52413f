// Reader of the text form (see print.cpp). Builds the program as written, without simplifying, and
// verifies it; a syntax error is InvalidGraph at line:column.
#include "codegen/tile/op_table.h"
#include "ir/op.h"
#include "ir/text_cursor.h"
#include "support/errors.h"

namespace poot::tile {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : c_(text) {}

  Program run() {
    c_.expect_word("tile");
    c_.expect('@');
    p_.name = c_.word();
    c_.expect('{');
    header();
    block(p_.body);
    if (!c_.at_end()) c_.fail("expected the end of the text");
    return std::move(p_);
  }

 private:
  void header() {
    while (c_.take_word("buffer")) {
      Buffer b;
      b.name = c_.word();
      b.dtype = dtype();
      c_.expect_word("align");
      b.align = c_.index();
      b.written = c_.take_word("out");
      b.shared = c_.take_word("shared");
      p_.buffers.push_back(std::move(b));
    }
    while (c_.take_word("meta")) p_.meta.push_back(quoted_dim());
    c_.expect_word("grid");
    for (Dim& d : p_.grid) d = quoted_dim();
    c_.expect_word("elems");
    p_.block_elems = c_.integer();
    p_.schedule.streaming_rows = c_.take_word("streaming");
    p_.schedule.nontemporal = c_.take_word("nontemporal");
  }

  Dim quoted_dim() {
    const size_t at = c_.skip();
    const std::string text = c_.string();
    try {
      return Dim::parse(text);
    } catch (const InvalidGraph& e) {
      c_.fail_at(at, e.constraint(), "size \"" + text + "\"");
    }
  }
  DType dtype() {
    const size_t at = c_.skip();
    const auto d = dtype_from_name(c_.word());
    if (!d) c_.fail_at(at, "parse-C1", "expected an element type");
    return *d;
  }

  IndexId node(IndexNode n) {
    const std::array<uint64_t, 5> key = {
        static_cast<uint64_t>(n.op), static_cast<uint64_t>(n.value), n.ref, n.a.index, n.b.index};
    const auto [it, fresh] =
        interned_.try_emplace(key, IndexId(static_cast<uint32_t>(p_.index.size())));
    if (fresh) p_.index.push_back(n);
    return it->second;
  }

  IndexId index() {
    IndexId sum = product();
    while (c_.take('+')) {
      const IndexId b = product();
      sum = node({.op = IndexOp::Add, .a = sum, .b = b});
    }
    return sum;
  }
  IndexId product() {
    IndexId out = primary();
    while (c_.take('*')) {
      const IndexId b = primary();
      out = node({.op = IndexOp::Mul, .a = out, .b = b});
    }
    return out;
  }
  IndexId primary() {
    if (depth_ > 200) c_.fail("the index is nested too deeply");
    const char next = c_.peek();
    if (next == '-' || (next >= '0' && next <= '9'))
      return node({.op = IndexOp::Const, .value = c_.integer()});
    if (c_.take('$')) return node({.op = IndexOp::Meta, .value = c_.index()});
    if (next == '%') return node({.op = IndexOp::Scalar, .ref = use().index});
    if (c_.take('[')) {
      const ValueId v = use();
      c_.expect(']');
      return node({.op = IndexOp::Loaded, .ref = v.index});
    }
    depth_++;
    IndexId out;
    if (c_.take('(')) {
      out = index();
      c_.expect(')');
    } else {
      out = call_or_axis();
    }
    depth_--;
    return out;
  }
  IndexId call_or_axis() {
    const size_t at = c_.skip();
    const std::string_view word = c_.word();
    constexpr std::pair<std::string_view, IndexOp> calls[] = {{"floordiv", IndexOp::Div},
                                                              {"mod", IndexOp::Mod},
                                                              {"min", IndexOp::Min},
                                                              {"max", IndexOp::Max}};
    for (const auto& [name, op] : calls) {
      if (name != word) continue;
      c_.expect('(');
      const IndexId a = index();
      c_.expect(',');
      const IndexId b = index();
      c_.expect(')');
      return node({.op = op, .a = a, .b = b});
    }
    return node({.op = IndexOp::Coord, .ref = axis(word, at).index});
  }
  AxisId axis(std::string_view name, size_t at) {
    for (size_t i = p_.axes.size(); i-- > 0;)
      if (p_.axes[i].name == name) return AxisId(static_cast<uint32_t>(i));
    c_.fail_at(at, "parse-C1", "no axis " + std::string(name));
  }

  ValueId use() {
    const size_t at = c_.skip();
    const auto it = values_.find(c_.value_name());
    if (it == values_.end()) c_.fail_at(at, "parse-C1", "no such value");
    return it->second;
  }
  ValueId define(std::string_view name, size_t at, Type type) {
    const ValueId v(static_cast<uint32_t>(p_.types.size()));
    if (!values_.emplace(name, v).second) c_.fail_at(at, "parse-C1", "the value is defined twice");
    p_.types.push_back(std::move(type));
    return v;
  }

  Type type() {
    Type t;
    t.dtype = dtype();
    c_.list('[', ']', [&] {
      const size_t at = c_.skip();
      t.axes.push_back(c_.take('-') ? AxisId() : axis(c_.word(), at));
    });
    return t;
  }

  Mask mask() {
    Mask m;
    if (!c_.take_word("where")) return m;
    do {
      MaskTerm t;
      t.lo = index();
      c_.expect("<=");
      t.index = index();
      c_.expect('<');
      t.hi = index();
      m.push_back(t);
    } while (c_.take_word("and"));
    return m;
  }

  void block(Block& b) {
    if (++depth_ > 100) c_.fail("blocks are nested too deeply");
    while (!c_.take('}')) {
      if (c_.take_word("axis")) {
        Axis a;
        const size_t at = c_.skip();
        a.name = c_.word();
        for (const Axis& other : p_.axes)
          if (other.name == a.name) c_.fail_at(at, "parse-C1", "the axis is declared twice");
        a.capacity = c_.integer();
        c_.expect('=');
        a.extent = index();
        b.axis_ids.push_back(AxisId(static_cast<uint32_t>(p_.axes.size())));
        p_.axes.push_back(std::move(a));
      } else if (c_.take_word("for")) {
        loop(b);
      } else if (c_.take_word("scan")) {
        scan(b);
      } else {
        instruction(b);
      }
    }
    depth_--;
  }

  void loop(Block& b) {
    Inst inst{.op = Op::for_};
    Block body;
    const size_t at = c_.skip();
    const std::string_view i = c_.value_name();
    c_.expect('=');
    inst.index = index();
    c_.expect_word("to");
    inst.index_hi = index();
    c_.expect_word("carry");
    body.params.push_back(define(i, at, {DType::I64, true, {}}));
    c_.list('(', ')', [&] {
      const size_t param = c_.skip();
      const std::string_view name = c_.value_name();
      c_.expect('=');
      inst.args.push_back(use());
      body.params.push_back(define(name, param, p_.types[inst.args.back().index]));
    });
    c_.expect('{');
    block(body);
    inst.blocks.push_back(std::move(body));
    if (!inst.args.empty()) c_.expect("->");
    for (size_t k = 0; k < inst.args.size(); k++) {
      if (k > 0) c_.expect(',');
      const size_t result = c_.skip();
      const std::string_view name = c_.value_name();
      inst.results.push_back(define(name, result, p_.types[inst.args[k].index]));
    }
    b.insts.push_back(std::move(inst));
  }

  ValueId typed_value() {
    const size_t at = c_.skip();
    const std::string_view name = c_.value_name();
    c_.expect(':');
    return define(name, at, type());
  }

  void scan(Block& b) {
    Inst inst{.op = Op::scan};
    do inst.args.push_back(use());
    while (c_.take(','));
    c_.expect_word("axis");
    inst.axis = c_.index();
    c_.expect_word("by");
    Block body;
    c_.list('(', ')', [&] { body.params.push_back(typed_value()); });
    c_.expect('{');
    block(body);
    inst.blocks.push_back(std::move(body));
    c_.expect("->");
    do inst.results.push_back(typed_value());
    while (c_.take(','));
    b.insts.push_back(std::move(inst));
  }

  void instruction(Block& b) {
    const size_t at = c_.skip();
    std::string_view result;
    if (c_.peek() == '%') {
      result = c_.value_name();
      c_.expect('=');
    }
    const size_t op_at = c_.skip();
    const std::string_view word = c_.word();
    Inst inst{.op = Op::pointwise};
    if (const auto op = op_from_name(word);
        op && *op != Op::pointwise && *op != Op::for_ && *op != Op::scan) {
      inst.op = *op;
    } else if (const auto scalar = ir::op_from_name(word);
               scalar && ir::is_pointwise(ir::op_info(*scalar).kind)) {
      inst.pointwise = *scalar;
    } else {
      c_.fail_at(op_at, "parse-C1", "no such operation");
    }
    operands(inst);
    const ResultKind kind = facts(inst.op).result;
    if ((kind == ResultKind::none) != result.empty())
      c_.fail_at(at, "parse-C1", "a result where there is none, or none where there is one");
    if (kind == ResultKind::scalar)
      inst.results.push_back(define(result, at, {DType::I64, true, {}}));
    if (kind == ResultKind::tile) {
      c_.expect(':');
      Type t = type();
      inst.dtype = t.dtype;
      inst.results.push_back(define(result, at, std::move(t)));
    }
    b.insts.push_back(std::move(inst));
  }

  void operands(Inst& inst) {
    switch (inst.op) {
      case Op::block_id:
        inst.axis = c_.index();
        break;
      case Op::scalar_index:
      case Op::index_tile:
        inst.index = index();
        break;
      case Op::constant:
        inst.value = c_.scalar();
        break;
      case Op::load:
        access(inst);
        inst.mask = mask();
        if (c_.take_word("else")) inst.value = c_.scalar();
        p_.buffers[inst.buffer.index].read = true;
        break;
      case Op::combine: {
        const size_t at = c_.skip();
        const auto op = ir::op_from_name(c_.word());
        if (!op) c_.fail_at(at, "parse-C1", "no such operation");
        inst.pointwise = *op;
        [[fallthrough]];
      }
      case Op::store:
        access(inst);
        inst.args.push_back(use());
        inst.mask = mask();
        break;
      case Op::reduce: {
        const size_t at = c_.skip();
        const auto op = ir::op_from_name(c_.word());
        if (!op) c_.fail_at(at, "parse-C1", "no such reduction");
        inst.pointwise = *op;
        inst.args.push_back(use());
        c_.expect_word("axis");
        inst.axis = c_.index();
        if (c_.take_word("order")) {
          const size_t name = c_.skip();
          const auto order = ir::reduce_order(c_.word());
          if (!order) c_.fail_at(name, "parse-C1", "no such order");
          inst.order = *order;
        }
        break;
      }
      case Op::dot:
        inst.pointwise = ir::OpCode::reduce_sum;
        inst.args.push_back(use());
        c_.expect(',');
        inst.args.push_back(use());
        if (c_.take_word("from")) inst.args.push_back(use());
        c_.expect_word("axis");
        inst.axis = c_.index();
        break;
      case Op::check:
        inst.args.push_back(use());
        inst.code = c_.index();
        break;
      default:
        if (c_.peek() != '%') break;
        do inst.args.push_back(use());
        while (c_.take(','));
    }
  }
  void access(Inst& inst) {
    const size_t at = c_.skip();
    const std::string_view name = c_.word();
    size_t i = 0;
    while (i < p_.buffers.size() && p_.buffers[i].name != name) i++;
    if (i == p_.buffers.size()) c_.fail_at(at, "parse-C1", "no buffer " + std::string(name));
    inst.buffer = BufferId(static_cast<uint32_t>(i));
    c_.expect('[');
    inst.index = index();
    c_.expect(']');
  }

  ir::TextCursor c_;
  Program p_;
  std::map<std::array<uint64_t, 5>, IndexId> interned_;
  std::map<std::string_view, ValueId> values_;
  int depth_ = 0;
};

}  // namespace

Program parse_program(std::string_view text) {
  Program p = Parser(text).run();
  verify_or_throw(p);
  return p;
}

}  // namespace poot::tile
