// Products of a few rows with a matrix in checkpoint order (each of its rows one stretch of the
// reduced axis), which is read once:
//
//   y[m, n] = act(sum_k x[m, k] * w[n, k])   ->   block of rows n:
//     w [r, c] = load w;  x_m [c] = load x;  d_m [r, -] = dot x_m, w   for each m
//     store y[m, r] = act(d_m)
//
// The rows of x are written out: a program holds one dot for each of them and for each product of
// the body, and the lowering keeps all of their accumulators in registers. On a GPU a warp takes a
// row of the matrix, and dots are reductions as any other.
//
// Many rows, and few where the matrix lies the other way round (along n), are an axis of their own:
//
//   x [m, -, c], w [-, n, c];  d [m, n, -] = dot x, w;  store y[m, n] = act(d)
//
// Blocks of a few rows are as wide as their sums leave room for in the first-level cache, so that
// the rows of the matrix are read in long stretches.
#include <algorithm>

#include "codegen/generate/generators.h"
#include "codegen/generate/spread.h"
#include "support/errors.h"

namespace poot::codegen {
namespace {

constexpr int64_t kMaxDots = 8;     // accumulators of a row that fit in registers, two each
constexpr int64_t kBlockRows = 64;  // of the matrix at most
constexpr int64_t kFewestRows = 8;  // of the matrix at least
constexpr int64_t kBlocksPerCore = 8;
constexpr int64_t kWarpRows = 4;                          // of a GPU's block
constexpr int64_t kTileRows = 16, kTileColumns = 64;      // of a step of the matrix unit
constexpr int64_t kMostRows = 256, kFewestTileRows = 64;  // of x in a block
constexpr int64_t kRowsInPlace = 16;                      // of x beside a matrix read in place
constexpr int64_t kPlaceSums = 4096, kPlaceBlocks = 2;    // of a block; a core at least

const ir::Eqn& first_product(const passes::KernelRequest& request) {
  for (const ir::Eqn& e : request.body->eqns())
    if (e.info().kind == ir::OpKind::Contraction) return e;
  throw Unsupported(request.name, "a contraction without a product");
}

Region contraction_region(const passes::KernelRequest& request) {
  const ir::Graph& body = *request.body;
  const ir::Eqn& product = first_product(request);
  const Shape free = body.type(product.outs[0]).shape;
  const Dim depth = body.type(product.inputs[product.inputs.size() - 2]).shape.back();
  std::vector<RootDim> root;
  for (const Dim& d : free) root.push_back({d, Role::Free});
  root.push_back({depth, Role::Reduced});
  return build_region(body.symbols(), root, [&](Region& r, const Coordinates& at) {
    const Coordinates kept(at.begin(), at.end() - 1);
    IndexMap map(body, request.inputs, r.space, r.nodes, {at.back()}, {depth});
    for (uint32_t i = 0; i < body.outputs().size(); i++) {
      const ir::ValueId v = body.outputs()[i].value;
      const Shape& shape = body.type(v).shape;
      const Coordinates c = shape == free ? kept : reshape_coordinates(r.space, kept, free, shape);
      r.results.push_back({map.at(v, c), i, element_index(request.outputs[i], c), {}});
    }
    r.checks = map.checks();
  });
}

class ContractionKernel {
 public:
  ContractionKernel(const passes::KernelRequest& request, const Region& region)
      : request_(request),
        region_(region),
        symbols_(request.body->symbols()),
        b_(request.name, symbols_),
        buffers_(declare_buffers(b_, request)) {
    for (uint32_t i = 0; i < region.nodes.size(); i++)
      if (region.live[i] && region.nodes.at(NodeId(i)).kind == NodeKind::Dot)
        dots_.push_back(NodeId(i));
    split_variables({});
  }

  tile::Program run(const Target& target) {
    const Flat rows = flatten(region_, matrix_vars_), few = flatten(region_, few_vars_);
    const Flat columns = flatten(region_, region_.vars_of(Role::Reduced));
    const int64_t count = few.size.is_const() ? few.size.value() : kRowsInPlace + 1;
    const bool across = target.isa == Isa::X86 && lies_across();
    if (across && count <= kRowsInPlace) return rows_in_place(target, few);
    if (across || count * static_cast<int64_t>(dots_.size()) > kMaxDots) return tiles(target);
    const int64_t height = block_rows(rows.size, target);
    const BlockedAxis r = blocks_of("r", rows.size, height, 0);
    const int64_t longest = std::clamp<int64_t>(columns.size.range(symbols_).hi, 1, 1 << 30);
    const tile::AxisId c = b_.axis("c", longest, b_.dim(columns.size));
    Emitter emit(b_, region_, {r.axis, c}, buffers_.inputs);
    bind_flat(b_, emit, region_, rows, r.index, 1);
    bind_flat(b_, emit, region_, columns, b_.coord(c), 2);
    emit.reduce_over(1);
    emit.dots_as_sums(target.isa == Isa::Ptx);
    read_matrices_once(emit);
    for (int64_t m = 0; m < count; m++) {
      bind_flat(b_, emit, region_, few, b_.cst(m), 0);
      emit_checks(b_, emit, region_.checks);
      for (const Result& result : region_.results) store(emit, result, {r.axis, tile::AxisId()});
    }
    b_.program().block_elems = height * std::max<int64_t>(columns.size.hint(symbols_), 1);
    return b_.finish();
  }

 private:
  // The innermost variable of either side in blocks of rows and columns; the others count blocks.
  tile::Program tiles(const Target& target) {
    if (target.isa != Isa::X86) throw Unsupported(request_.name, "many rows against a matrix");
    split_variables(1);
    std::vector<IterVar> outer = few_vars_;
    if (!outer.empty()) outer.pop_back();
    const Flat rows = flatten(region_, {few_vars_.begin() + outer.size(), few_vars_.end()});
    const Flat columns = last_matrix_variable(outer);
    const int64_t height =
        tile_rows(rows.size, columns.size * flatten(region_, outer).size, target);
    const bool narrow = columns.size.range(symbols_).hi <= kTileColumns / 2 && !target.bf16_tiles;
    return blocks(rows, height, columns, narrow ? kTileColumns / 2 : kTileColumns,
                  flatten(region_, outer));
  }

  // All rows in a block, which is as wide as leaves every core some blocks.
  tile::Program rows_in_place(const Target& target, const Flat& rows) {
    std::vector<IterVar> outer;
    const Flat columns = last_matrix_variable(outer);
    const int64_t few = std::max<int64_t>(rows.size.value(), 1), all = columns.size.hint(symbols_);
    const int64_t share = all / (kPlaceBlocks * target.cores);
    const auto vectors = [](int64_t n) { return std::max<int64_t>(n / 64 * 64, 64); };
    return blocks(rows, few, columns, vectors(std::min(kPlaceSums / few, share + 63)),
                  flatten(region_, outer));
  }

  // The innermost variable of the matrix's rows; adds the others to `outer`.
  Flat last_matrix_variable(std::vector<IterVar>& outer) const {
    if (matrix_vars_.empty()) return {};
    outer.insert(outer.end(), matrix_vars_.begin(), matrix_vars_.end() - 1);
    return flatten(region_, {matrix_vars_.back()});
  }

  tile::Program blocks(const Flat& rows, int64_t height, const Flat& columns, int64_t width,
                       const Flat& outer) {
    const Flat depth = flatten(region_, region_.vars_of(Role::Reduced));
    const BlockedAxis m = blocks_of("m", rows.size, height, 0),
                      n = blocks_of("n", columns.size, width, 1);
    const int64_t longest = std::clamp<int64_t>(depth.size.range(symbols_).hi, 1, 1 << 30);
    const tile::AxisId c = b_.axis("c", longest, b_.dim(depth.size));
    Emitter emit(b_, region_, {m.axis, n.axis, c}, buffers_.inputs);
    bind_flat(b_, emit, region_, rows, m.index, 1);
    bind_flat(b_, emit, region_, columns, n.index, 2);
    bind_flat(b_, emit, region_, depth, b_.coord(c), 4);
    if (!outer.vars.empty()) {
      b_.grid(2, outer.size);
      bind_flat(b_, emit, region_, outer, b_.scalar(b_.block_id(2)), 0);
    }
    emit.reduce_over(2);
    emit.dots_start(m.axis && n.axis);
    emit_checks(b_, emit, region_.checks);
    for (const Result& result : region_.results)
      store(emit, result, {m.axis, n.axis, tile::AxisId()});
    b_.program().block_elems =
        height * width * std::max<int64_t>(depth.size.hint(symbols_) / kTileRows, 1);
    return b_.finish();
  }

  // Whether the rows of the matrix lie side by side, rather than each in one stretch.
  bool lies_across() const {
    const std::vector<IterVar> depth = region_.vars_of(Role::Reduced);
    if (matrix_vars_.empty() || depth.empty()) return false;
    return std::ranges::any_of(dots_, [&](NodeId d) {
      const Node& side = region_.nodes.at(region_.nodes.at(d).args[matrix_]);
      return side.kind == NodeKind::Load &&
             side.index.factor(matrix_vars_.back().atom).is_const(1) &&
             !side.index.factor(depth.back().atom).is_const(1);
    });
  }

  // As blocked_axis; the extent is constant where every block is full.
  BlockedAxis blocks_of(const char* name, const Dim& size, int64_t capacity, uint32_t grid_axis) {
    if (size.range(symbols_).hi <= capacity || !size.divisible_by(capacity))
      return blocked_axis(b_, symbols_, name, size, capacity, grid_axis);
    b_.grid(grid_axis, divide_exactly(size, capacity).value_or(Dim::ceildiv(size, capacity)));
    const tile::IndexId first = b_.mul(b_.scalar(b_.block_id(grid_axis)), b_.cst(capacity));
    const tile::AxisId a = b_.axis(name, capacity, b_.cst(capacity));
    return {a, b_.add(first, b_.coord(a))};
  }

  // Equal blocks of rows, as high as leaves every core some blocks: the matrix is packed anew for
  // each.
  int64_t tile_rows(const Dim& rows, const Dim& columns, const Target& target) const {
    const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
    const int64_t all = std::max<int64_t>(rows.hint(symbols_), 1);
    const int64_t across = up(columns.hint(symbols_), kTileColumns);
    int64_t blocks = up(all, kMostRows);
    while (blocks * across < 2 * target.cores && all / (2 * blocks) >= kFewestTileRows) blocks *= 2;
    const int64_t height = up(up(all, blocks), kTileRows) * kTileRows;
    return rows.is_const() ? height : std::max(height, kFewestTileRows);
  }

  // The variables that one side of every product varies with are the matrix's rows; the other
  // side's are few, and written out. The matrix is the side with more of them, unless given.
  void split_variables(std::optional<size_t> matrix) {
    const auto uses = [&](size_t side, const IterVar& v) {
      return std::any_of(dots_.begin(), dots_.end(),
                         [&](NodeId d) { return reads(region_.nodes.at(d).args[side], v.atom); });
    };
    Dim extents[2] = {1, 1};
    const std::vector<IterVar> free = region_.vars_of(Role::Free);
    for (const IterVar& v : free) {
      if (uses(0, v) && uses(1, v)) throw Unsupported(request_.name, "a batch of matrices");
      for (const size_t side : {0u, 1u})
        if (uses(side, v)) extents[side] = extents[side] * region_.extent(v);
    }
    matrix_ = matrix.value_or(extents[0].hint(symbols_) > extents[1].hint(symbols_) ? 0 : 1);
    few_vars_.clear();
    matrix_vars_.clear();
    for (const IterVar& v : free) (uses(1 - matrix_, v) ? few_vars_ : matrix_vars_).push_back(v);
  }

  bool reads(NodeId n, AtomId var) const {
    const Node& node = region_.nodes.at(n);
    const auto affine = [&](auto&& self, const Affine& a) -> bool {
      return std::any_of(a.terms.begin(), a.terms.end(), [&](const AffineTerm& t) {
        if (t.atom == var) return true;
        const Atom& atom = region_.space.atom(t.atom);
        if (atom.kind == AtomKind::Loaded) return reads(atom.node, var);
        return atom.kind != AtomKind::Var && self(self, atom.operand);
      });
    };
    return affine(affine, node.index) ||
           std::any_of(node.guard.begin(), node.guard.end(),
                       [&](const GuardTerm& t) { return affine(affine, t.index); }) ||
           std::any_of(node.args.begin(), node.args.end(), [&](NodeId a) { return reads(a, var); });
  }

  // A block has few enough rows for every core to get some blocks.
  int64_t block_rows(const Dim& rows, const Target& target) const {
    if (target.isa == Isa::Ptx) return std::clamp<int64_t>(rows.range(symbols_).hi, 1, kWarpRows);
    const int64_t share = rows.hint(symbols_) / (kBlocksPerCore * target.cores);
    const int64_t height = std::clamp(share / 2 * 2, kFewestRows, kBlockRows);
    return std::clamp<int64_t>(rows.range(symbols_).hi, 1, height);
  }

  // What does not vary with the few rows is one tile for all of them.
  void read_matrices_once(Emitter& emit) {
    for (const NodeId d : dots_) {
      const NodeId side = region_.nodes.at(d).args[matrix_];
      const bool fixed = std::none_of(few_vars_.begin(), few_vars_.end(),
                                      [&](const IterVar& v) { return reads(side, v.atom); });
      if (fixed) emit.set(side, emit.value(side));
    }
  }

  void store(Emitter& emit, const Result& result, const std::vector<tile::AxisId>& axes) {
    const tile::ValueId v = b_.broadcast(emit.value(result.value), axes);
    b_.store(buffers_.outputs[result.output], emit.index(result.index), v, emit.mask(result.guard));
  }

  const passes::KernelRequest& request_;
  const Region& region_;
  const SymbolTable& symbols_;
  tile::TileBuilder b_;
  Buffers buffers_;
  std::vector<NodeId> dots_;
  std::vector<IterVar> matrix_vars_, few_vars_;
  size_t matrix_ = 1;  // side of the products that is the matrix
};

}  // namespace

tile::Program generate_contraction(const passes::KernelRequest& request, const Target& target) {
  const Region region = contraction_region(request);
  return ContractionKernel(request, region).run(target);
}

}  // namespace poot::codegen
