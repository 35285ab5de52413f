// The graph IR: a flat, typed, topologically ordered list of tensor equations in SSA form.
//
// A Graph is read through accessors and changed only through Builder (new graphs) and GraphEdit
// (rewrites); both verify the whole graph before they hand it over, so a Graph that exists is well
// formed. Ids index flat arrays; there are no pointers between nodes.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "ir/op.h"
#include "support/dim.h"
#include "support/dtype.h"
#include "support/errors.h"
#include "support/hash.h"
#include "support/ids.h"

namespace poot::ir {

using ValueId = Id<struct ValueTag>;
using GroupId = Id<struct GroupTag>;

struct TensorType {
  DType dtype = DType::F32;
  Shape shape;
  friend bool operator==(const TensorType& a, const TensorType& b) = default;
  std::string str() const;  // "f32[s0,8]"
};

// Strides and offset in elements. Belongs to graph inputs and outputs; between them the planner
// decides.
struct Layout {
  Shape strides;
  Dim offset = 0;
  uint32_t align = 1;  // known alignment of the first element, bytes
  friend bool operator==(const Layout& a, const Layout& b) = default;
  static Layout contiguous(const Shape& shape) { return {contiguous_strides(shape), 0, 1}; }
};

// A typed scalar literal: the bits of one element of `dtype` (floats rounded to it).
struct Scalar {
  DType dtype = DType::F32;
  std::variant<double, int64_t> number = 0.0;  // double for floats, int64_t for ints and bool (0/1)
  static Scalar of(DType dtype, double v);     // converts and rounds to dtype
  static Scalar of(DType dtype, int64_t v);
  double as_double() const;
  int64_t as_int() const;
  friend bool operator==(const Scalar& a, const Scalar& b);  // bitwise: -0.0 != 0.0, NaN == NaN
  std::string str() const;  // "f32 1.5", "i64 3", "f32 -inf", "f32 nan"
  // The number of str() without its dtype; nullopt if it is not one or does not fit.
  static std::optional<Scalar> parse(DType dtype, std::string_view number);
};

using Operand = std::variant<ValueId, Scalar>;
inline bool is_value(const Operand& o) {
  return std::holds_alternative<ValueId>(o);
}

using Attr = std::variant<std::monostate, int64_t, double, bool, DType, std::string,
                          std::vector<int64_t>, std::vector<double>, Dim, std::vector<Dim>>;

enum class Storage : uint8_t { Device, Const, Slot, State, Computed };

struct Anonymous {
  friend bool operator==(Anonymous, Anonymous) = default;
};
struct Named {
  std::string name;
  friend bool operator==(const Named&, const Named&) = default;
};
struct WeightRef {
  std::string path;
  friend bool operator==(const WeightRef&, const WeightRef&) = default;
};
struct SlotKey {
  std::string kind;
  friend bool operator==(const SlotKey&, const SlotKey&) = default;
};
using Identity = std::variant<Anonymous, Named, WeightRef, SlotKey>;

struct ValueMeta {
  TensorType type;
  Storage storage = Storage::Device;
  Identity identity;
  std::optional<Layout> layout;  // graph inputs only: how the caller's tensor lies in memory
  std::string spelling;          // graph inputs only: name in the text where identity gives none
};

class Graph;

struct Eqn {
  OpCode op;
  std::vector<Operand> inputs;
  std::vector<Attr> attrs;  // in the order of the op's row; optional ones may be monostate
  std::vector<ValueId> outs;
  std::shared_ptr<const Graph> body;  // Region ops only: inputs and outputs match this equation's
  GroupId group;                      // provenance group it was expanded from, or none
  std::vector<uint32_t> origins;      // indices into Graph::origins()

  const OpInfo& info() const { return op_info(op); }
  template <class T>
  const T& attr(std::string_view name) const {  // throws InternalError if absent or of another type
    return std::get<T>(attrs[info().attr_index(name)]);
  }
  bool flag(std::string_view name) const {  // an optional bool; false where absent
    const bool* set = std::get_if<bool>(&attrs[info().attr_index(name)]);
    return set && *set;
  }
  std::optional<double> number(std::string_view name) const {  // an optional float
    const double* set = std::get_if<double>(&attrs[info().attr_index(name)]);
    return set ? std::optional(*set) : std::nullopt;
  }
  std::string_view text(std::string_view name) const {  // an optional string; empty where absent
    const std::string* set = std::get_if<std::string>(&attrs[info().attr_index(name)]);
    return set ? std::string_view(*set) : std::string_view();
  }
};

enum class OutputKind : uint8_t { Result, Witness, Export, StateNext };

struct GraphOutput {
  ValueId value;
  OutputKind kind = OutputKind::Result;
  ValueId state_input;           // StateNext: the input whose buffer this value overwrites
  std::optional<Layout> layout;  // how the caller wants it; absent: contiguous
};

// Where an equation came from: the FX node and the user's source line ("model.py:12, in forward: x
// + 1").
struct Origin {
  std::string node, source;
};

// Equations that were expanded from one composite (an SDPA call), so that recognition can put it
// back: `kind` names it, inputs and results are the composite's, `size` counts its equations.
struct Group {
  std::string kind;
  std::vector<Operand> inputs;
  std::vector<ValueId> results;
  std::vector<Attr> attrs;  // of the op that `kind` names
  uint32_t size = 0;
};

class Graph {
 public:
  const std::string& name() const { return name_; }
  const SymbolTable& symbols() const { return symbols_; }
  size_t value_count() const { return values_.size(); }
  const ValueMeta& value(ValueId v) const { return values_.at(v.index); }
  const TensorType& type(ValueId v) const { return values_.at(v.index).type; }
  TensorType type(const Operand& o) const;  // a literal is 0-d
  std::span<const ValueId> inputs() const { return inputs_; }
  std::span<const Eqn> eqns() const { return eqns_; }
  std::span<const GraphOutput> outputs() const { return outputs_; }
  std::span<const Origin> origins() const { return origins_; }
  std::span<const Group> groups() const { return groups_; }
  // Index into eqns() of the equation that defines v; -1 for inputs.
  int32_t def(ValueId v) const { return defs_.at(v.index); }
  bool is_input(ValueId v) const { return def(v) < 0; }

  std::string str() const;  // text form; parse_graph(str()) equals this graph
  Hash128 hash() const;     // of the text without origins: equal graphs, equal hash

 private:
  friend class Builder;
  friend class GraphEdit;
  friend struct GraphTables;  // verifier and parser internals
  std::string name_ = "graph";
  SymbolTable symbols_;
  std::vector<ValueMeta> values_;
  std::vector<int32_t> defs_;
  std::vector<ValueId> inputs_;
  std::vector<Eqn> eqns_;
  std::vector<GraphOutput> outputs_;
  std::vector<Origin> origins_;
  std::vector<Group> groups_;
};

// Result types of an equation whose operands have `inputs` types; throws InvalidGraph with the
// violated constraint. `where` names the equation in the message.
std::vector<TensorType> infer(OpCode op, std::span<const TensorType> inputs,
                              std::span<const Attr> attrs, const Graph* body,
                              const std::string& where);

// Builds one graph. Each call infers the result's type and throws InvalidGraph at the first fault.
// Trailing optional attributes may be left out.
class Builder {
 public:
  explicit Builder(std::string name = "graph", SymbolTable symbols = {});
  uint32_t add_symbol(Symbol s);  // returns its index
  ValueId input(TensorType type, Storage storage = Storage::Device, Identity identity = Anonymous{},
                std::optional<Layout> layout = std::nullopt);
  uint32_t origin(Origin o);                    // interned
  void set_origins(std::vector<uint32_t> ids);  // applies to the equations emitted from here on
  // Equations emitted between begin_group and end_group belong to it. Results are set at the end.
  void begin_group(std::string kind, std::vector<Operand> inputs, std::vector<Attr> attrs);
  void end_group(std::vector<ValueId> results);
  std::vector<ValueId> emit_multi(OpCode op, std::vector<Operand> inputs,
                                  std::vector<Attr> attrs = {},
                                  std::shared_ptr<const Graph> body = nullptr);
  ValueId emit(OpCode op, std::vector<Operand> inputs, std::vector<Attr> attrs = {});  // one result
  const TensorType& type(ValueId v) const { return graph_.type(v); }
  const Graph& peek() const { return graph_; }
  void output(ValueId v, OutputKind kind = OutputKind::Result, ValueId state_input = {},
              std::optional<Layout> layout = std::nullopt);
  Graph finish();  // verifies; the builder is empty afterwards

 private:
  Graph graph_;
  std::vector<uint32_t> origins_now_;
  GroupId group_now_;
  std::unordered_map<std::string, uint32_t> origin_ids_;
};

// A draft of a graph. Nothing is visible until commit(), which renumbers, verifies and replaces the
// graph, or throws InvalidGraph and leaves the graph as it was. Refused: losing an output, changing
// an output's type or kind, changing the inputs (edit-C1), a use before its definition (ssa-C2),
// and everything that verify() refuses.
class GraphEdit {
 public:
  explicit GraphEdit(Graph& graph);
  const TensorType& type(ValueId v) const { return draft_.type(v); }
  // The draft's equations, in order. Reorder, erase, insert and modify freely; operands may be
  // changed directly.
  std::vector<Eqn>& eqns() { return draft_.eqns_; }
  // Makes an equation (not yet placed) with fresh result values of inferred types.
  Eqn make(OpCode op, std::vector<Operand> inputs, std::vector<Attr> attrs = {},
           std::shared_ptr<const Graph> body = nullptr);
  ValueId new_value(TensorType type);
  // Every use of `from` (operands, outputs) becomes `to`; resolved once, at commit, through chains.
  void replace_uses(ValueId from, ValueId to);  // of one type (edit-C2)
  void commit();                                // at most once; value ids change

 private:
  Graph& target_;
  Graph draft_;
  std::vector<std::pair<ValueId, ValueId>> replaced_;
};

// What a stage of compilation may contain (kinds of ops, regions) is one table in verify.cpp.
enum class Stage : uint8_t { Imported, Canonical, Fused, Planned };

struct Violation {
  std::string constraint, where, detail;
};
// Every violation in the graph, in order; empty if it is well formed.
std::vector<Violation> verify(const Graph& graph, Stage stage = Stage::Imported);
void verify_or_throw(const Graph& graph, Stage stage = Stage::Imported);

// Number of uses of each value by equations and outputs, indexed by ValueId.
std::vector<uint32_t> use_counts(const Graph& graph);

// Parses the text form; throws InvalidGraph with "line:column" and the constraint.
Graph parse_graph(std::string_view text);
std::vector<Graph> parse_graphs(std::string_view text);  // a file of several

}  // namespace poot::ir
