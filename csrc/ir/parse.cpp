// Parser of the text form (print.cpp shows it). One pass over the characters; positions are offsets
// and become line:column only in an error. Each equation is inferred as it is read, so an op's own
// constraint is reported at its equation; what only the whole graph shows (output pairs, groups) is
// the verifier's, mapped back to the place of the offending part.
#include <unordered_map>

#include "ir/graph_tables.h"
#include "ir/print.h"
#include "ir/text_cursor.h"
#include "ir/verify.h"

namespace poot::ir {
namespace {

constexpr int kMaxBodyDepth = 4;

class GraphParser {
 public:
  GraphParser(TextCursor& cursor, int depth) : c_(cursor), depth_(depth) {}

  Graph parse_top() {
    c_.expect_word("graph");
    c_.expect('@');
    GraphTables::name(g_) = c_.name();
    parse_signature(true);
    return finish();
  }

  std::shared_ptr<const Graph> parse_body(const SymbolTable& symbols) {
    if (depth_ > kMaxBodyDepth) c_.fail("bodies nest too deep");
    if (c_.take('@')) GraphTables::name(g_) = c_.name();
    GraphTables::symbols(g_) = symbols;
    parse_signature(false);
    return std::make_shared<const Graph>(finish());
  }

 private:
  struct Places {
    std::vector<size_t> symbols, inputs, eqns, outputs, groups;
  };

  // ---- signature

  void parse_signature(bool top) {
    places_.symbols.assign(g_.symbols().size(), c_.position());
    c_.list('(', ')', [&] {
      if (top && c_.peek() == 's' && g_.inputs().empty())
        parse_symbol();
      else
        parse_input();
    });
    if (c_.take("->")) {
      signed_ = true;
      c_.list('(', ')', [&] { parse_output(); });
    } else if (top) {
      c_.fail("expected -> and the outputs' types");
    }
  }

  void parse_symbol() {
    places_.symbols.push_back(c_.skip());
    SymbolTable& table = GraphTables::symbols(g_);
    c_.expect_word("s" + std::to_string(table.size()));
    Symbol s;
    c_.expect_word("in");
    c_.expect('[');
    s.range.lo = c_.bound();
    c_.expect(',');
    s.range.hi = c_.bound();
    c_.expect(']');
    c_.expect_word("hint");
    s.hint = c_.integer();
    table.push_back(s);
  }

  void parse_input() {
    places_.inputs.push_back(c_.skip());
    ValueMeta m;
    const std::string_view spelled = c_.value_name();
    c_.expect(':');
    m.type = c_.type();
    for (Storage s : {Storage::Const, Storage::Slot, Storage::State, Storage::Computed})
      if (c_.take_word(storage_name(s))) m.storage = s;
    if (c_.take_word("named"))
      m.identity = Named{c_.string()};
    else if (c_.take_word("weight"))
      m.identity = WeightRef{c_.string()};
    else if (c_.take_word("key"))
      m.identity = SlotKey{c_.string()};
    else if (!is_reserved_input_name(spelled) && is_identifier(spelled))
      m.identity = Named{std::string(spelled)};
    if (!std::holds_alternative<Anonymous>(m.identity) && !is_reserved_input_name(spelled))
      m.spelling = spelled;
    if (c_.take_word("layout")) m.layout = c_.layout();
    GraphTables::inputs(g_).push_back(define(spelled, std::move(m), -1, places_.inputs.back()));
  }

  void parse_output() {
    places_.outputs.push_back(c_.skip());
    GraphOutput o;
    declared_.push_back(c_.type());
    if (c_.take_word("witness")) o.kind = OutputKind::Witness;
    if (c_.take_word("export")) o.kind = OutputKind::Export;
    if (c_.take_word("state_next")) {
      o.kind = OutputKind::StateNext;
      c_.expect('(');
      o.state_input = use();
      c_.expect(')');
    }
    if (c_.take_word("layout")) o.layout = c_.layout();
    GraphTables::outputs(g_).push_back(std::move(o));
  }

  // ---- lines

  Graph finish() {
    c_.expect('{');
    while (!c_.take_word("return")) {
      places_.eqns.push_back(c_.skip());
      if (c_.take_word("group"))
        parse_group();
      else if (c_.take_word("origin"))
        parse_origin();
      else
        parse_eqn();
    }
    parse_return();
    c_.expect('}');
    verify_parsed();
    return std::move(g_);
  }

  void parse_return() {
    std::vector<ValueId> values;
    std::vector<size_t> at;
    if (c_.skip(), c_.peek() == '%') do {
        at.push_back(c_.skip());
        values.push_back(use());
      } while (c_.take(','));
    auto& outputs = GraphTables::outputs(g_);
    if (!signed_) {
      outputs.resize(values.size());
      places_.outputs = at;
    }
    if (outputs.size() != values.size())
      c_.fail("returns " + std::to_string(values.size()) + " values instead of " +
              std::to_string(outputs.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      outputs[i].value = values[i];
      if (signed_ && g_.type(values[i]) != declared_[i])
        c_.fail_at(at[i], "parse-C1",
                   "returns " + g_.type(values[i]).str() + " as " + declared_[i].str());
    }
  }

  void parse_eqn() {
    const size_t at = places_.eqns.back();
    std::vector<std::string_view> names;
    if (c_.peek() == '%') {
      do names.push_back(c_.value_name());
      while (c_.take(','));
      c_.expect('=');
    }
    const size_t op_at = c_.skip();
    const std::string_view word = c_.word();
    const auto op = op_from_name(word);
    if (!op) c_.fail_at(op_at, "parse-C1", "there is no op '" + std::string(word) + "'");
    Eqn e;
    e.op = *op;
    if (at_operand()) do
        e.inputs.push_back(operand());
      while (c_.take(','));
    e.attrs.resize(e.info().attrs.size());
    if (c_.peek() == '{') c_.list('{', '}', [&] { parse_attr(e); });
    if (c_.take_word("body")) e.body = GraphParser(c_, depth_ + 1).parse_body(g_.symbols());
    infer_results(e, names, at);
    if (c_.take('@')) e.group = GroupId(c_.index());
    if (c_.take_word("loc")) c_.list('(', ')', [&] { e.origins.push_back(c_.index()); });
    GraphTables::eqns(g_).push_back(std::move(e));
  }

  void infer_results(Eqn& e, const std::vector<std::string_view>& names, size_t at) {
    std::vector<TensorType> operands, results;
    for (const Operand& o : e.inputs) operands.push_back(g_.type(o));
    try {
      results = infer(e.op, operands, e.attrs, e.body.get(), "");
    } catch (const InvalidGraph& error) {
      c_.fail_at(at, error.constraint(), error.detail());
    }
    if (results.size() != names.size())
      c_.fail_at(
          at, "eqn-C3",
          std::string(e.info().name) + " yields " + std::to_string(results.size()) + " results");
    if (c_.take(':')) {
      size_t i = 0;
      auto check = [&] {
        const size_t type_at = c_.skip();
        const TensorType t = c_.type();
        if (i < results.size() && results[i] != t)
          c_.fail_at(
              type_at, "eqn-C3",
              std::string(e.info().name) + " yields " + results[i].str() + ", not " + t.str());
        ++i;
      };
      if (results.empty())
        c_.list('(', ')', check);
      else
        do check();
        while (c_.take(','));
      if (i != results.size()) c_.fail("expected " + std::to_string(results.size()) + " types");
    }
    const auto eqn = static_cast<int32_t>(g_.eqns().size());
    for (size_t i = 0; i < results.size(); ++i) {
      ValueMeta m;
      m.type = std::move(results[i]);
      e.outs.push_back(define(names[i], std::move(m), eqn, at));
    }
  }

  void parse_attr(Eqn& e) {
    const size_t at = c_.skip();
    const std::string_view key = c_.word();
    const auto& infos = e.info().attrs;
    for (size_t i = 0; i < infos.size(); ++i) {
      if (infos[i].name != key) continue;
      c_.expect('=');
      e.attrs[i] = c_.attr(infos[i].type);
      return;
    }
    c_.fail_at(at, "eqn-C2",
               std::string(e.info().name) + " has no attribute '" + std::string(key) + "'");
  }

  void parse_group() {
    places_.groups.push_back(places_.eqns.back());
    places_.eqns.pop_back();
    c_.expect('@');
    if (c_.index() != g_.groups().size()) c_.fail("groups are numbered in order");
    Group g;
    g.kind = c_.name();
    c_.list('(', ')', [&] { g.inputs.push_back(c_.take('_') ? Operand(ValueId()) : operand()); });
    if (c_.peek() == '{') c_.list('{', '}', [&] { g.attrs.push_back(c_.typed_attr()); });
    c_.expect_word("size");
    g.size = c_.index();
    c_.expect("->");
    c_.list('(', ')', [&] { g.results.push_back(c_.take('_') ? ValueId() : use()); });
    GraphTables::groups(g_).push_back(std::move(g));
  }

  void parse_origin() {
    places_.eqns.pop_back();
    if (c_.index() != g_.origins().size()) c_.fail("origins are numbered in order");
    Origin o;
    o.node = c_.string();
    o.source = c_.string();
    GraphTables::origins(g_).push_back(std::move(o));
  }

  // ---- values

  bool at_operand() {
    if (c_.peek() == '%') return true;
    return dtype_from_name(c_.peek_word()).has_value();
  }

  Operand operand() {
    if (c_.peek() == '%') return use();
    return c_.scalar();
  }

  ValueId use() {
    const size_t at = c_.skip();
    const std::string_view spelled = c_.value_name();
    auto it = values_.find(spelled);
    if (it == values_.end())
      c_.fail_at(at, "ssa-C2", "%" + std::string(spelled) + " is used before it is defined");
    return it->second;
  }

  ValueId define(std::string_view spelled, ValueMeta meta, int32_t eqn, size_t at) {
    const ValueId v(static_cast<uint32_t>(g_.value_count()));
    if (!values_.emplace(spelled, v).second)
      c_.fail_at(at, "ssa-C1", "%" + std::string(spelled) + " is defined again");
    GraphTables::values(g_).push_back(std::move(meta));
    GraphTables::defs(g_).push_back(eqn);
    return v;
  }

  void verify_parsed() {
    const auto found = verify_located(g_, Stage::Planned);
    if (found.empty()) return;
    const Located& l = found.front();
    const std::vector<size_t>* places = l.part == Located::Part::Symbol   ? &places_.symbols
                                        : l.part == Located::Part::Input  ? &places_.inputs
                                        : l.part == Located::Part::Eqn    ? &places_.eqns
                                        : l.part == Located::Part::Output ? &places_.outputs
                                                                          : &places_.groups;
    const size_t at = l.index < places->size() ? (*places)[l.index] : c_.position();
    c_.fail_at(at, l.violation.constraint, l.violation.where + ": " + l.violation.detail);
  }

  TextCursor& c_;
  int depth_;
  Graph g_;
  Places places_;
  std::unordered_map<std::string_view, ValueId> values_;
  std::vector<TensorType> declared_;
  bool signed_ = false;  // the outputs were declared
};

}  // namespace

std::vector<Graph> parse_graphs(std::string_view text) {
  TextCursor cursor(text);
  std::vector<Graph> graphs;
  while (!cursor.at_end()) graphs.push_back(GraphParser(cursor, 0).parse_top());
  return graphs;
}

Graph parse_graph(std::string_view text) {
  TextCursor cursor(text);
  Graph g = GraphParser(cursor, 0).parse_top();
  if (!cursor.at_end()) cursor.fail("expected the end of the text after one graph");
  return g;
}

}  // namespace poot::ir
