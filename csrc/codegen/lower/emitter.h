// Evaluates tile values, index expressions and masks at one position (or one vector of positions)
// of the loop nest that the driver has opened. Evaluation is on demand and memoised in scopes that
// follow the open KIR blocks, so that a value is computed once where it is first needed and
// everything it can see from outside is reused.
//
// Position: every bound axis has a scalar coordinate; at most one axis is bound as a vector, whose
// lanes are consecutive coordinates. A value that does not vary with the vector axis is a scalar,
// splat where a vector needs it.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/codegen.h"
#include "codegen/lower/tile_facts.h"
#include "codegen/math/math.h"

namespace poot::codegen::lowering {

// A value in registers. `narrow` is its own type (bool: i1); `wide` is the f32 view of a f16 or
// bf16 value. Either may be missing; the other gives it exactly.
struct Reg {
  kir::ValueId narrow, wide;
};

// A tile kept in an array of the thread or the workgroup, row-major over `axes`. In a workgroup's
// array of rows r and columns c, groups of `swizzle` columns may lie at places that differ from one
// group of as many rows to the next: column c at c ^ swizzle * (r / swizzle % groups).
struct KeptTile {
  kir::ObjectId object;
  std::vector<tile::AxisId> axes;
  int64_t swizzle = 0;
};

class Emitter {
 public:
  Emitter(const TileFacts& facts, kir::Kernel& kernel, const Target& target);

  const TileFacts& facts() const { return facts_; }
  const tile::Program& program() const { return facts_.program(); }
  kir::KirBuilder& builder() { return b_; }
  const Target& target() const { return target_; }

  // --- scopes: one for each open KIR block, or for a position that is returned to
  struct Reciprocal {
    kir::ValueId value, usable;  // 1 / divisor; whether the divisor is of moderate size
  };
  struct Scope {
    std::unordered_map<uint32_t, Reg> values;
    std::map<std::pair<uint32_t, uint32_t>, kir::ValueId> index;   // (node, zeroed axis)
    std::unordered_map<uint32_t, kir::ValueId> index_lanes;        // node
    std::map<std::pair<uint32_t, uint16_t>, kir::ValueId> splats;  // (KIR value, lanes)
    std::map<int64_t, kir::ValueId> constants;
    std::map<uint32_t, Reciprocal> reciprocals;  // tile value
  };
  void push_scope(Scope s = {}) { scopes_.push_back(std::move(s)); }
  Scope pop_scope() {
    Scope s = std::move(scopes_.back());
    scopes_.pop_back();
    return s;
  }
  void define(tile::ValueId v, Reg r) { scopes_.back().values[v.index] = r; }

  // --- position
  void bind(tile::AxisId a, kir::ValueId coordinate);
  void unbind(tile::AxisId a);
  bool bound(tile::AxisId a) const { return (bound_ & TileFacts::bit(a)) != 0; }
  AxisSet bound_axes() const { return bound_; }
  struct VectorAxis {
    tile::AxisId axis;
    kir::ValueId base;  // coordinate of lane 0
    uint16_t lanes = 1;
    kir::ValueId active;  // mask of lanes inside the extent; none: all
  };
  void bind_vector(const VectorAxis& v);
  void unbind_vector(tile::AxisId a);
  uint16_t lanes() const { return vector_.lanes; }
  kir::ValueId active() const { return vector_.active; }
  // A scalar condition under which the position exists: where it fails nothing is read, written or
  // reported, and values are arbitrary. None: it exists.
  kir::ValueId predicate() const { return predicate_; }
  void set_predicate(kir::ValueId p) { predicate_ = p; }
  kir::ValueId both(kir::ValueId a, kir::ValueId b);  // conjunction; none: true

  // --- values
  // The value in its own type; `lanes` > 1 splats a scalar.
  kir::ValueId exact(tile::ValueId v, uint16_t lanes = 0);
  // The value in the type that arithmetic uses (f32 for f16 and bf16).
  kir::ValueId compute(tile::ValueId v, uint16_t lanes = 0);
  bool varies(AxisSet deps) const {
    return vector_.axis && (deps & TileFacts::bit(vector_.axis)) != 0;
  }
  // Evaluates, in the open scope, everything under v (or under the index and mask of an
  // instruction) that does not vary with axes that are still unbound; `column` is the axis about to
  // become the vector axis.
  void hoist(tile::ValueId v, tile::AxisId column);
  void hoist_access(const tile::Inst& inst, tile::AxisId column);
  void hoist_extent(tile::AxisId a);
  void end_hoist() { hoisted_.clear(); }

  // This value is e^x of a difference from a maximum: terms of a sum, or a quotient by it.
  void note_term(tile::ValueId v) { terms_.insert(v.index); }
  // While set, this value is computed by the function for terms of a sum.
  void cheap_function(tile::ValueId v) { cheap_ = v; }

  // --- memory
  // While set, consecutive loads of a CPU also ask for what lies `rows` further along this row
  // axis.
  void prefetch_ahead(tile::AxisId row, int64_t rows = 1) { ahead_ = row, rows_ahead_ = rows; }
  // While set, consecutive loads that vary with the row also ask for what lies `bytes` further, and
  // for the second-level cache for what lies `far` bytes further.
  void stream_ahead(tile::AxisId row, int64_t bytes, int64_t far = 0) {
    stream_ = row, stream_bytes_ = bytes, far_bytes_ = far;
  }
  // While set, vectors stored by `store` also ask for what `loads` read at that column of the next
  // row, for the second-level cache.
  void ask_with(const tile::Inst* store, tile::AxisId row, std::vector<const tile::Inst*> loads) {
    asks_ = store, next_row_ = row, next_loads_ = std::move(loads);
  }
  // While set, consecutive loads also ask for what they read `passes` later of the loop with this
  // index.
  void loop_ahead(tile::ValueId index, int64_t passes) { loop_ = index, passes_ = passes; }
  // While set, a GPU's vectors of a row's own data pass through the cache: nobody reads them soon.
  void last_walk(bool yes) { last_walk_ = yes; }
  void store(const tile::Inst& inst);
  void combine(const tile::Inst& inst);
  // Stores even and odd elements of a store of stride 2; the position is that of the first pair.
  void store_woven(const tile::Inst& inst, kir::ValueId even, kir::ValueId odd);
  void check(const tile::Inst& inst);
  void keep(tile::ValueId v, const KeptTile& array, kir::ValueId value);  // writes the position
  kir::ValueId read_kept(const KeptTile& array);                          // in storage type
  kir::ValueId swizzled(const KeptTile& array, kir::ValueId row, kir::ValueId column);
  void set_kept(tile::ValueId v, std::optional<KeptTile> array);
  bool is_kept(tile::ValueId v) const { return kept_.contains(v.index); }
  KeptTile new_array(tile::ValueId v, std::vector<tile::AxisId> axes, int64_t elems);

  // --- index expressions
  kir::ValueId index(tile::IndexId i, tile::AxisId zeroed = {});  // i64 scalar
  kir::ValueId index_lanes(tile::IndexId i);                      // i64 vector
  kir::ValueId extent(tile::AxisId a) { return index(program().axes.at(a.index).extent); }
  std::optional<int64_t> static_extent(tile::AxisId a) const;
  struct Guard {
    kir::ValueId scalar, lanes;  // i1; none: true
    bool never = false;          // known to be false at every position
  };
  Guard guard(const tile::Mask& mask);

  // --- scalar i64 arithmetic with constant folding
  kir::ValueId i64(int64_t v);
  kir::ValueId add(kir::ValueId a, kir::ValueId b);
  kir::ValueId mul(kir::ValueId a, kir::ValueId b);
  std::optional<int64_t> constant_of(kir::ValueId v) const;

  kir::ValueId to_storage(DType d, kir::ValueId exact);     // bool: i1 -> i8
  kir::ValueId from_storage(DType d, kir::ValueId stored);  // bool: i8 -> i1

 private:
  const Reg* find(tile::ValueId v) const;
  Reg eval(tile::ValueId v);
  Reg eval_pointwise(const tile::Inst& inst);
  std::optional<Reg> eval_packed(const tile::Inst& inst, uint16_t lanes);
  math::Accuracy accuracy(const tile::Inst& inst, DType from) const;
  std::optional<Reg> eval_with_erf(const tile::Inst& inst, uint16_t lanes);
  std::optional<Reg> eval_below_maximum(const tile::Inst& inst, uint16_t lanes);
  Reg eval_select(const tile::Inst& inst, uint16_t lanes);
  Reg eval_cast(const tile::Inst& inst, uint16_t lanes);
  Reg eval_constant(const ir::Scalar& value);
  Reg from_integer(kir::ValueId i64_value, DType dtype);
  void report_zero_divisor(kir::ValueId divisor);
  bool divides_by_uniform(const tile::Inst& inst, AxisSet varying) const;
  bool multiplies_by_reciprocal(const tile::Inst& inst) const;
  Reciprocal reciprocal(tile::ValueId divisor);
  bool sums_exponentials(tile::ValueId v) const;
  kir::ValueId divide_by_uniform(kir::ValueId a, tile::ValueId divisor);
  kir::ValueId splat(kir::ValueId v, uint16_t lanes);

  struct Access {
    enum Kind { Scalar, Contiguous, EverySecond, Reversed, Indexed } kind;
    kir::ValueId index;  // of lane 0; Indexed: of every lane
    uint32_t align = 0;
  };
  uint32_t alignment(const tile::Buffer& buffer) const;  // of element 0
  template <class Read>
  kir::ValueId read_if(kir::ValueId condition, kir::ValueId other, Read&& read);
  template <class Write>
  void write_if(kir::ValueId condition, Write&& write);
  Access access(tile::BufferId buffer, tile::IndexId i, bool vector);
  kir::ValueId load_shuffled(kir::ObjectId object, kir::Type t, const Access& a);
  Reg load(const tile::Inst& inst);
  void prefetch(const tile::Inst& inst, kir::ValueId at, int64_t n);
  bool asked_before(const tile::Inst& inst, int64_t n);
  void ask_next_row();
  kir::ValueId read_vector(const tile::Inst& inst, const Guard& g, kir::Type t);
  void write_vector(const tile::Inst& inst, const Guard& g, kir::ValueId stored);
  bool bypasses(const tile::Inst& inst, const Access& a) const;
  void report(kir::ValueId bad, uint32_t code);  // in active lanes
  kir::ValueId lane_mask(const Guard& g);        // with active; none: all lanes
  kir::ValueId kept_index(const KeptTile& array, int64_t* vector_stride);
  void hoist_index(tile::IndexId i, tile::AxisId column);
  kir::ValueId divide(tile::IndexOp op, const tile::IndexNode& n, kir::ValueId a, kir::ValueId b);

  const TileFacts& facts_;
  const Target& target_;
  kir::KirBuilder b_;
  std::vector<Scope> scopes_;
  std::vector<kir::ValueId> coordinates_;  // by axis
  AxisSet bound_ = 0;
  VectorAxis vector_;
  kir::ValueId predicate_;
  tile::AxisId ahead_, stream_, next_row_;
  int64_t rows_ahead_ = 1, stream_bytes_ = 0, far_bytes_ = 0, passes_ = 0;
  const tile::Inst* asks_ = nullptr;
  std::vector<const tile::Inst*> next_loads_;
  struct Asked {
    tile::BufferId buffer;
    std::vector<uint32_t> terms;   // of the index, without its constant
    std::vector<kir::ValueId> at;  // coordinates of its axes
    int64_t first = 0, n = 0;
  };
  std::vector<Asked> asked_;  // at the present position of the vector axis
  tile::ValueId loop_, cheap_;
  bool last_walk_ = false;
  std::unordered_map<uint32_t, KeptTile> kept_;
  std::unordered_map<uint32_t, int64_t> known_;  // constants by KIR value
  std::map<uint32_t, char> hoisted_;
  std::unordered_set<uint32_t> terms_;
};

kir::Elem storage_elem(DType d);  // bool: i8
kir::Elem exact_elem(DType d);    // bool: i1
inline bool is_half(DType d) {
  return d == DType::F16 || d == DType::BF16;
}

}  // namespace poot::codegen::lowering
