// Tile programs: block-level, target-neutral kernels. A program is the work of one block, repeated
// over a grid. Values are i64 scalars or tiles; a tile's shape is a list of *axes* of the program,
// each with a static capacity and a run-time extent (a trip count on the CPU, a predicate on a
// GPU), or the unit axis of size 1. Memory is reached through index expressions, quasi-affine in
// the axes' coordinates, scalars, metadata words and loaded indices, so that lowerings can see
// strides and contiguity.
//
// Generators (codegen/generate) write tile programs, one generator a request kind for all targets;
// lowerings (codegen/lower) turn them into KIR: on the CPU vectors in a loop nest, on GPUs lanes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/reduce_order.h"
#include "ir/scalar_eval.h"
#include "support/dim.h"
#include "support/ids.h"

namespace poot::tile {

using ValueId = Id<struct TileValueTag>;
using AxisId = Id<struct TileAxisTag>;    // none(): the unit axis
using IndexId = Id<struct TileIndexTag>;  // node of the program's index-expression pool
using BufferId = Id<struct TileBufferTag>;

enum class IndexOp : uint8_t {
  Const,   // value
  Coord,   // coordinate along an axis, 0 .. extent-1
  Scalar,  // an i64 scalar value (block_id, loop index, scalar_index)
  Loaded,  // an integer tile's element at this position (indirect access)
  Meta,    // metadata word
  Add,
  Mul,
  Div,
  Mod,  // floor division and modulo by a positive divisor
  Min,
  Max,
};
struct IndexNode {
  IndexOp op = IndexOp::Const;
  int64_t value = 0;  // Const; Meta word
  uint32_t ref = 0;   // Coord axis, Scalar or Loaded value
  IndexId a, b;
  friend bool operator==(const IndexNode&, const IndexNode&) = default;
};

// Conjunction of lo <= index < hi.
struct MaskTerm {
  IndexId index, lo, hi;
  friend bool operator==(const MaskTerm&, const MaskTerm&) = default;
};
using Mask = std::vector<MaskTerm>;

struct Type {
  DType dtype = DType::I64;
  bool scalar = false;       // i64 scalar, `axes` empty
  std::vector<AxisId> axes;  // rank <= 3
  friend bool operator==(const Type&, const Type&) = default;
};

struct Axis {
  std::string name;
  int64_t capacity = 1;
  IndexId extent;  // uniform; 0 <= extent <= capacity
};

enum class Op : uint8_t {
#define TILE(name, ...) name,
#include "codegen/tile/tile.def"
#undef TILE
};

// A position of the buffer gets its value from the instruction.
inline constexpr bool writes(Op op) {
  return op == Op::store || op == Op::combine;
}

struct Block;

struct Inst {
  Op op;
  std::vector<ValueId> args;
  std::vector<ValueId> results;
  BufferId buffer;
  IndexId index, index_hi;  // load/store/index_tile/scalar_index; for_: lo and hi
  Mask mask;
  std::optional<ir::Scalar> value;               // constant; load's `other`
  ir::OpCode pointwise = ir::OpCode::add;        // pointwise, reduce, combine; dot: reduce_sum
  ir::ReduceOrder order = ir::ReduceOrder::any;  // reduce
  DType dtype = DType::F32;                      // result dtype of pointwise and index_tile
  uint32_t axis = 0;  // reduce, scan, dot: position in the operand's axes; block_id: grid axis
  uint32_t code = 0;  // check
  std::vector<Block> blocks;
};

struct Block {
  std::vector<ValueId> params;
  std::vector<AxisId> axis_ids;  // axes declared here: their extents' scalars are in scope
  std::vector<Inst> insts;
};

struct Buffer {
  std::string name;
  DType dtype = DType::F32;
  bool written = false;
  bool read = false;
  uint32_t align = 1;  // bytes, of element 0
  // May lie in the memory of another shared buffer (updates in place): each element is then loaded
  // only by who stores it. Buffers that are not shared overlap no buffer that is written.
  bool shared = false;
};

// What the generator leaves to the target, all with safe defaults.
struct Schedule {
  bool streaming_rows = false;  // row kernels: loop over column chunks with carried reductions
  bool nontemporal = false;     // stores bypass the cache
};

struct Program {
  std::string name;
  std::vector<Buffer> buffers;  // kernel ABI order: inputs, then outputs
  std::vector<Dim> meta;        // what the launch puts in each metadata word
  Dim grid[3] = {1, 1, 1};      // number of blocks
  int64_t block_elems = 0;      // elements touched by a full block (cost of a block)
  Schedule schedule;
  std::vector<Axis> axes;        // all axes of the program, by AxisId
  std::vector<IndexNode> index;  // interned pool
  std::vector<Type> types;       // of each value
  Block body;

  const Type& type(ValueId v) const { return types.at(v.index); }
  std::string str() const;
};

Program parse_program(std::string_view text);  // throws InvalidGraph tile-… with line:column

struct Violation {
  std::string constraint, where, detail;
};
std::vector<Violation> verify(const Program& p);
void verify_or_throw(const Program& p);

// Inclusive interval of an index expression.
struct Bounds {
  int64_t lo = INT64_MIN, hi = INT64_MAX;
};

// Builds a program; index expressions are simplified and interned (constants fold; (c*D + r) / D =
// c and % D = r when 0 <= r < D is known from axis capacities).
class TileBuilder {
 public:
  // `symbols`: ranges of the symbols in the Dims passed in; unknown ones are unbounded.
  explicit TileBuilder(std::string name, SymbolTable symbols = {});
  BufferId buffer(std::string name, DType dtype, bool written, uint32_t align = 1);
  void grid(uint32_t axis, Dim blocks);
  // index expressions
  IndexId cst(int64_t v);
  IndexId dim(const Dim& d);  // symbols become metadata words, deduplicated
  IndexId coord(AxisId a);
  IndexId scalar(ValueId v);
  IndexId loaded(ValueId v);
  IndexId add(IndexId a, IndexId b);
  IndexId mul(IndexId a, IndexId b);
  IndexId div(IndexId a, IndexId b);
  IndexId mod(IndexId a, IndexId b);
  IndexId min(IndexId a, IndexId b);
  IndexId max(IndexId a, IndexId b);
  // Inclusive bounds known from constants, capacities and symbol ranges; INT64_MIN and INT64_MAX
  // stand for "unbounded".
  Bounds bounds(IndexId i) const;
  // structure
  AxisId axis(std::string name, int64_t capacity, IndexId extent);
  ValueId block_id(uint32_t grid_axis);
  ValueId scalar_index(IndexId i);
  ValueId index_tile(IndexId i, DType dtype, std::vector<AxisId> axes);
  ValueId constant(ir::Scalar value, std::vector<AxisId> axes = {});
  ValueId load(BufferId b, IndexId index, std::vector<AxisId> axes, Mask mask = {},
               std::optional<ir::Scalar> other = std::nullopt);
  void store(BufferId b, IndexId index, ValueId v, Mask mask = {});
  void combine(ir::OpCode op, BufferId b, IndexId index, ValueId v, Mask mask = {});
  ValueId broadcast(ValueId v, std::vector<AxisId> axes);  // v itself if it has these axes
  ValueId pointwise(ir::OpCode op, DType result, std::vector<ValueId> args);
  ValueId reduce(ir::OpCode op, ValueId v, uint32_t axis,
                 ir::ReduceOrder order = ir::ReduceOrder::any);
  // a or b has the axis, `start`, if there is one, has not.
  ValueId dot(ValueId a, ValueId b, uint32_t axis, ValueId start = {});
  // `fold` emits the fold of what it is given, (before, next).
  using Values = std::vector<ValueId>;
  using Fold = std::function<Values(const Values& before, const Values& next)>;
  struct Scanned {
    Values running, ends;
  };
  Scanned scan(const Values& identities, const Values& starts, const Values& elements,
               uint32_t axis, const Fold& fold);
  void check(ValueId all_true, uint32_t code);
  void begin_for(IndexId lo, IndexId hi, std::vector<ValueId> init);
  ValueId for_index() const;
  std::vector<ValueId> for_carried() const;
  std::vector<ValueId> end_for(std::vector<ValueId> yielded);
  Program finish();  // verifies
  const Type& type(ValueId v) const;
  Program& program() { return program_; }

 private:
  IndexId intern(IndexNode n);
  IndexId divmod(IndexOp op, IndexId a, IndexId b);
  struct Steps {
    int64_t k;
    IndexId big, small;
  };
  std::optional<Steps> whole_steps(IndexId i, int64_t d);
  ValueId value(Type t);
  Inst& push(Inst inst);
  Block& block();
  Program program_;
  SymbolTable symbols_;
  std::map<std::array<uint64_t, 5>, IndexId> interned_;
  std::map<ValueId, Bounds> scalar_bounds_;
  struct Open;  // a for_ or a scan under construction
  std::vector<std::shared_ptr<Open>> open_;
};

// Coefficient of coord(a) in an index expression, if the expression is affine in it with a uniform
// coefficient: nullopt otherwise. `step` form used by lowerings to see contiguity.
std::optional<int64_t> const_stride(const Program& p, IndexId index, AxisId a);
// A scan's operands: as many identities, starts and elements as its body folds.
inline size_t scanned_values(const Inst& scan) {
  return scan.args.size() / 3;
}
inline std::span<const ValueId> scan_identities(const Inst& scan) {
  return std::span(scan.args).first(scanned_values(scan));
}
inline std::span<const ValueId> scan_starts(const Inst& scan) {
  return std::span(scan.args).subspan(scanned_values(scan), scanned_values(scan));
}
inline std::span<const ValueId> scan_elements(const Inst& scan) {
  return std::span(scan.args).last(scanned_values(scan));
}
// The axes of a tile that is computed from these tiles position by position.
std::vector<AxisId> joined_axes(const Program& p, std::span<const ValueId> args);
// Whether the expression depends on coord(a) at all, through loaded tiles too.
bool depends_on(const Program& p, IndexId index, AxisId a);

// Interpreter: the meaning of a tile program. Runs every block in order. Buffers are byte spans; an
// access outside one throws InvalidGraph tile-run-C1 (C2: number of buffers, C3: division by
// a size that is not positive, C4: an extent over its capacity). `symbols` evaluates grid and
// metadata. Returns the status word.
uint32_t interpret(const Program& p, std::span<const std::span<std::byte>> buffers,
                   std::span<const int64_t> symbols);

}  // namespace poot::tile
