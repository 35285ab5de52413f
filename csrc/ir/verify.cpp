// The verifier. It trusts nothing but the tables' existence, so it also accepts what an edit or the
// parser left half broken, and it reports every violation. One walk over inputs, equations in
// order, and outputs; linear in the size of the graph.
//
// Invariants
//   symbol-C1  a size uses a symbol of the graph's table
//   symbol-C2  a symbol's range is not empty and holds its hint
//   ssa-C1     a value is defined once, by an input or an equation
//   ssa-C2     a value is defined before it is used
//   ssa-C3     a value id is in the table
//   type-C1    no constant size is negative
//   eqn-C1     the op takes this many operands
//   eqn-C2     attributes are those of the op's row, of their types
//   eqn-C3     result types are those that inference yields
//   eqn-C4     only regions have a body
//   layout-C1  a layout has one stride an axis and an alignment that is a power of two
//   output-C1  an output names a value; StateNext, and no other kind, names an input of its type
//   output-C2  an input is overwritten by one StateNext at most
//   order-C1   sequential_fma adds products of f32 that an equation mul of the same graph makes
//   group-C1   an equation's group is in the table; a group has no more equations than its size
//   origin-C1  an equation's origins are in the table
//   stage-C1   the stage allows this kind of op (table below)
//   region-C1  a body has its parent's symbol table (and what infer_region.cpp lists)
// and each op's own constraints (ops.def). Bodies are verified the same way.
//
// Not checked: that an Ordered equation kept its place, and that symbolic sizes are not negative.
#include "ir/verify.h"

#include <algorithm>
#include <bit>

#include "ir/infer.h"
#include "ir/print.h"
#include "ir/reduce_order.h"

namespace poot::ir {
namespace {

constexpr Rule kRules[] = {
    {"symbol-C1", "a size uses a symbol of the graph's table"},
    {"symbol-C2", "a symbol's range is not empty and holds its hint"},
    {"ssa-C1", "a value is defined once"},
    {"ssa-C2", "a value is defined before it is used"},
    {"ssa-C3", "a value id is in the table"},
    {"type-C1", "no constant size is negative"},
    {"eqn-C1", "the op takes this many operands"},
    {"eqn-C2", "attributes are those of the op's row"},
    {"eqn-C3", "result types are those that inference yields"},
    {"eqn-C4", "only regions have a body"},
    {"layout-C1", "one stride an axis, alignment a power of two"},
    {"output-C1", "an output names a value; StateNext an input of its type"},
    {"output-C2", "an input is overwritten once at most"},
    {"order-C1", "sequential_fma adds products of f32 made in the same graph"},
    {"group-C1", "groups are in the table and no larger than their size"},
    {"origin-C1", "origins are in the table"},
    {"stage-C1", "the stage allows this kind of op"},
    {"edit-C1", "an edit keeps inputs and the outputs' number, types and kinds"},
    {"edit-C2", "replacements have one type and no cycle"},
    {"parse-C1", "the text follows the grammar"},
};

// What a stage may contain: kinds that it refuses.
struct StageRow {
  Stage stage;
  std::string_view name;
  bool regions;
};
constexpr StageRow kStages[] = {
    {Stage::Imported, "imported", false},
    {Stage::Canonical, "canonical", false},
    {Stage::Fused, "fused", true},
    {Stage::Planned, "planned", true},
};

bool same_symbols(const SymbolTable& a, const SymbolTable& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Symbol& x, const Symbol& y) {
    return x.range.lo == y.range.lo && x.range.hi == y.range.hi && x.hint == y.hint;
  });
}

class Verifier {
 public:
  Verifier(const Graph& graph, Stage stage) : graph_(graph), stage_(stage) {}

  std::vector<Located> run() {
    defined_.assign(graph_.value_count(), false);
    check_symbols();
    check_inputs();
    group_sizes_.assign(graph_.groups().size(), 0);
    for (size_t i = 0; i < graph_.eqns().size(); ++i) {
      enter(Part::Eqn, i);
      check_eqn(graph_.eqns()[i]);
    }
    check_outputs();
    check_groups();
    return std::move(found_);
  }

 private:
  using Part = Located::Part;

  void enter(Part part, size_t index) {
    part_ = part;
    index_ = static_cast<uint32_t>(index);
  }

  std::string where() {
    if (names_.empty()) names_ = value_names(graph_);
    const std::string number = std::to_string(index_);
    switch (part_) {
      case Part::Symbol:
        return "s" + number;
      case Part::Input:
        return "input " + name(graph_.inputs()[index_]);
      case Part::Output:
        return "output " + number;
      case Part::Group:
        return "group @" + number;
      case Part::Eqn: {
        const Eqn& e = graph_.eqns()[index_];
        return e.outs.empty() ? "equation " + number : name(e.outs[0]);
      }
      default:
        return "@" + graph_.name();
    }
  }
  std::string name(ValueId v) const { return v.index < names_.size() ? names_[v.index] : "%?"; }

  void report(std::string constraint, std::string detail) {
    found_.push_back({part_, index_, {std::move(constraint), where(), std::move(detail)}});
  }

  bool in_table(ValueId v) {
    if (v.index < graph_.value_count()) return true;
    report("ssa-C3", "value id " + std::to_string(v.index) + " is not in the table");
    return false;
  }

  bool check_use(ValueId v) {
    if (!v) {
      report("ssa-C2", "uses a value that nothing defines");
      return false;
    }
    if (!in_table(v)) return false;
    if (!defined_[v.index]) {
      if (names_.empty()) names_ = value_names(graph_);
      report("ssa-C2", name(v) + " is used before it is defined");
    }
    return defined_[v.index];
  }

  bool define(ValueId v) {
    if (!in_table(v)) return false;
    if (defined_[v.index]) report("ssa-C1", "a value is defined again");
    defined_[v.index] = true;
    return true;
  }

  void check_dim(const Dim& d) {
    if (d.is_const()) return;
    scratch_.clear();
    d.collect_symbols(scratch_);
    if (scratch_.back() >= graph_.symbols().size())
      report("symbol-C1", "s" + std::to_string(scratch_.back()) + " is not a symbol of the graph");
  }

  void check_type(const TensorType& t) {
    for (const Dim& d : t.shape) {
      if (d.is_const() && d.value() < 0) report("type-C1", "negative size in " + t.str());
      check_dim(d);
    }
  }

  void check_layout(const std::optional<Layout>& layout, const TensorType& type) {
    if (!layout) return;
    if (layout->strides.size() != type.shape.size() || !std::has_single_bit(layout->align))
      report("layout-C1", "strides " + str(layout->strides) + ", alignment " +
                              std::to_string(layout->align) + " for " + type.str());
    for (const Dim& d : layout->strides) check_dim(d);
    check_dim(layout->offset);
  }

  void check_symbols() {
    for (size_t i = 0; i < graph_.symbols().size(); ++i) {
      enter(Part::Symbol, i);
      const Symbol& s = graph_.symbols()[i];
      if (s.range.lo > s.range.hi || !s.range.contains(s.hint))
        report("symbol-C2", "hint " + std::to_string(s.hint) + " is not in [" +
                                std::to_string(s.range.lo) + ", " + std::to_string(s.range.hi) +
                                "]");
    }
  }

  void check_inputs() {
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      enter(Part::Input, i);
      const ValueId v = graph_.inputs()[i];
      if (!define(v)) continue;
      const ValueMeta& meta = graph_.value(v);
      check_type(meta.type);
      check_layout(meta.layout, meta.type);
    }
  }

  void check_eqn(const Eqn& e) {
    const OpInfo& info = e.info();
    check_stage(info);
    bool usable = true;
    types_.clear();
    for (const Operand& o : e.inputs) {
      if (const ValueId* v = std::get_if<ValueId>(&o)) usable = check_use(*v) && usable;
      if (usable) types_.push_back(graph_.type(o));
    }
    for (const Attr& a : e.attrs) {
      if (const Dim* d = std::get_if<Dim>(&a)) check_dim(*d);
      if (const auto* dims = std::get_if<std::vector<Dim>>(&a))
        for (const Dim& d : *dims) check_dim(d);
    }
    if (usable) check_results(e);
    if (usable && adds_unrounded(e) && (types_[0].dtype != DType::F32 || product_of(graph_, e) < 0))
      report("order-C1", "what it adds is no product of f32 that this graph makes");
    for (ValueId v : e.outs)
      if (define(v)) check_type(graph_.type(v));
    for (uint32_t o : e.origins)
      if (o >= graph_.origins().size())
        report("origin-C1", "origin " + std::to_string(o) + " is not in the table");
    if (!e.group) return;
    if (e.group.index < group_sizes_.size())
      ++group_sizes_[e.group.index];
    else
      report("group-C1", "group @" + std::to_string(e.group.index) + " is not in the table");
  }

  void check_stage(const OpInfo& info) {
    const StageRow& row = kStages[static_cast<size_t>(stage_)];
    if (info.kind == OpKind::Region && !row.regions)
      report("stage-C1", std::string(info.name) + " in a graph at stage " + std::string(row.name));
  }

  void check_results(const Eqn& e) {
    static const std::string kNoPlace;
    if (e.body) check_body(*e.body);
    std::vector<TensorType> inferred;
    try {
      inferred = infer(e.op, types_, e.attrs, e.body.get(), kNoPlace);
    } catch (const InvalidGraph& error) {
      return report(error.constraint(), error.detail());
    }
    bool same = inferred.size() == e.outs.size();
    for (size_t i = 0; same && i < inferred.size(); ++i)
      same = e.outs[i].index >= graph_.value_count() || graph_.type(e.outs[i]) == inferred[i];
    if (same) return;
    std::string types;
    for (const TensorType& t : inferred) types += (types.empty() ? "" : ", ") + t.str();
    report("eqn-C3", std::string(e.info().name) + " yields " + (types.empty() ? "()" : types));
  }

  void check_body(const Graph& body) {
    if (!same_symbols(body.symbols(), graph_.symbols()))
      report("region-C1", "the body's symbol table differs from its parent's");
    for (Located& l : Verifier(body, Stage::Planned).run())
      report(std::move(l.violation.constraint),
             "in the body, at " + l.violation.where + ": " + l.violation.detail);
  }

  void check_outputs() {
    std::vector<bool> overwritten(graph_.value_count(), false);
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      enter(Part::Output, i);
      const GraphOutput& o = graph_.outputs()[i];
      if (!o.value) {
        report("output-C1", "names no value");
        continue;
      }
      if (!check_use(o.value)) continue;
      check_layout(o.layout, graph_.type(o.value));
      const bool state = o.kind == OutputKind::StateNext;
      if (!state && !o.state_input) continue;
      const ValueId in = o.state_input;
      if (!state || in.index >= graph_.value_count() || !graph_.is_input(in) ||
          graph_.type(in) != graph_.type(o.value)) {
        report("output-C1",
               state ? "the state input is not an input of type " + graph_.type(o.value).str()
                     : "only state_next names a state input");
        continue;
      }
      if (overwritten[in.index]) report("output-C2", "the state input is overwritten twice");
      overwritten[in.index] = true;
    }
  }

  void check_groups() {
    for (size_t i = 0; i < group_sizes_.size(); ++i) {
      enter(Part::Group, i);
      const Group& g = graph_.groups()[i];
      if (group_sizes_[i] > g.size)
        report("group-C1", std::to_string(group_sizes_[i]) + " equations in a group of " +
                               std::to_string(g.size));
      for (const Operand& o : g.inputs)
        if (const ValueId* v = std::get_if<ValueId>(&o); v && *v) check_use(*v);
      for (ValueId v : g.results)
        if (v) check_use(v);
    }
  }

  const Graph& graph_;
  Stage stage_;
  Part part_ = Part::Graph;
  uint32_t index_ = 0;
  std::vector<bool> defined_;
  std::vector<uint32_t> group_sizes_;
  std::vector<TensorType> types_;
  std::vector<uint32_t> scratch_;
  std::vector<std::string> names_;
  std::vector<Located> found_;
};

}  // namespace

std::span<const Rule> graph_rules() {
  return kRules;
}

std::vector<Located> verify_located(const Graph& graph, Stage stage) {
  return Verifier(graph, stage).run();
}

std::vector<Violation> verify(const Graph& graph, Stage stage) {
  std::vector<Violation> out;
  for (Located& l : verify_located(graph, stage)) out.push_back(std::move(l.violation));
  return out;
}

void verify_or_throw(const Graph& graph, Stage stage) {
  const std::vector<Located> found = verify_located(graph, stage);
  if (found.empty()) return;
  const Located& first = found.front();
  std::string detail = first.violation.detail;
  if (found.size() > 1) detail += " (and " + std::to_string(found.size() - 1) + " more)";
  if (first.part == Located::Part::Eqn)
    for (size_t i = first.index > 0 ? first.index - 1 : 0;
         i < std::min<size_t>(first.index + 2, graph.eqns().size()); ++i)
      detail += (i == first.index ? "\n> " : "\n  ") + eqn_text(graph, i);
  throw InvalidGraph(first.violation.constraint, first.violation.where, detail);
}

}  // namespace poot::ir
