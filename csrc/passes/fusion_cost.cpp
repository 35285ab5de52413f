// Measured on one AVX-512 core: exp 0.35 ns an element, sqrt and division 0.1 ns, simple arithmetic
// hidden behind the loads; a byte stored and loaded again about 0.05 ns; a launch 1.5 us.
#include "passes/fusion_cost.h"

#include <algorithm>

#include "ir/cost_class.h"

namespace poot::passes {
namespace {

constexpr double kSimple = 3, kDivide = 100, kTranscendental = 350, kPower = 1400, kScalar = 1000,
                 kLookup = 500;
constexpr double kBytePs = 50, kLaunchPs = 1.5e6, kGpuLaunchPs = 3e6;
// Rows up to which a product is bound by reading its matrix, for two-byte types and for wider ones;
// and columns below which blocks of rows of the matrix leave cores idle.
constexpr int64_t kFewNarrowRows = 4, kFewRows = kMostDots, kFewColumns = 8, kFewAcross = 64;
constexpr int64_t kFewGpuColumns = 64, kShortGpuDepth = 128;
constexpr double kVectorLoop = 32;  // shortest trailing run for which hoisting counts

bool widens(DType from, DType to) {
  if (from == to) return true;
  if (is_float(from) && is_float(to)) return byte_size(from) < byte_size(to);
  return !is_float(from) && !is_float(to) && byte_size(from) < byte_size(to);
}

double float_cost(ir::OpCode op) {
  switch (ir::cost_class(op)) {
    case ir::CostClass::Transcendental:
      return kTranscendental;
    case ir::CostClass::Power:
      return kPower;
    case ir::CostClass::Divide:
      return kDivide;
    case ir::CostClass::Modulo:
      return kScalar;
    case ir::CostClass::Simple:
      return kSimple;
  }
  return kSimple;
}

}  // namespace

double hinted_numel(const Shape& shape, const SymbolTable& symbols) {
  double n = 1;
  for (const Dim& d : shape) n *= static_cast<double>(d.hint(symbols));
  return n;
}

double evaluation_cost(const ir::Graph& graph, const ir::Eqn& eqn) {
  if (is_free(graph, eqn)) return 0;
  const double simple = float_cost(eqn.op);
  switch (eqn.info().kind) {
    case ir::OpKind::Movement:
      return eqn.op == ir::OpCode::gather || eqn.op == ir::OpCode::take ? kLookup : kSimple;
    case ir::OpKind::Binary:
      // Integer division and powers have no vector form.
      return !is_float(graph.type(eqn.inputs[0]).dtype) && simple >= kScalar ? kScalar : simple;
    default:
      return simple;
  }
}

double materialisation_cost(const ir::TensorType& type, const SymbolTable& symbols,
                            const Target& target) {
  const double bytes =
      hinted_numel(type.shape, symbols) * static_cast<double>(byte_size(type.dtype));
  return bytes * kBytePs + (target.isa == Isa::Ptx ? kGpuLaunchPs : kLaunchPs);
}

bool pays_to_recompute(const ir::Graph& graph, const ir::Eqn& eqn, double evaluations,
                       const Target& target) {
  const ir::TensorType& type = graph.type(eqn.outs[0]);
  const double extra = evaluations - hinted_numel(type.shape, graph.symbols());
  return extra * evaluation_cost(graph, eqn) <= materialisation_cost(type, graph.symbols(), target);
}

namespace {

// On a GPU a warp reads a row of the matrix, for each of the vectors once.
ProductChoice choose_on_gpu(const Product& p, const SymbolTable& symbols) {
  if (!is_float(p.dtype) || byte_size(p.dtype) > 4)
    return {false, "products of this type are the library's"};
  if (!p.one_matrix) return {false, "a batch of matrices"};
  if (!p.rows.is_const(1)) return {false, "several rows are the library's on this target"};
  if (!p.checkpoint_order) return {false, "the matrix is not stored vector by vector"};
  if (p.columns.hint(symbols) < kFewGpuColumns || p.depth.hint(symbols) < kShortGpuDepth)
    return {false, "too small a matrix to share out"};
  return {true, "1 row: the matrix is read once, at memory speed"};
}

// The matrix unit takes 16 rows and 32 of the depth a step; each column of the matrix is packed
// once for up to 256 rows, which costs as much as multiplying it with 50 rows or so. The library
// does the same and is as fast or faster, clearly so below these sizes: the target has tiles only
// where the option asks for them.
std::optional<ProductChoice> choose_tiles(const Product& p, const SymbolTable& symbols,
                                          const Target& target) {
  constexpr int64_t kDepthStep = 32, kFewestRows = 32, kFewestColumns = 64, kShallowest = 512;
  if (!target.bf16_tiles || p.dtype != DType::BF16 || !p.in_stretches || !p.followed)
    return std::nullopt;
  const Dim &rows = p.swapped ? p.columns : p.rows, &columns = p.swapped ? p.rows : p.columns;
  if (rows.hint(symbols) < kFewestRows || !columns.is_const() || !p.depth.is_const() ||
      columns.value() < kFewestColumns || p.depth.value() < kShallowest ||
      p.depth.value() % kDepthStep != 0)
    return std::nullopt;
  return ProductChoice{true, rows.str() + " rows: tiles of the matrix unit, packed as they go"};
}

}  // namespace

namespace {

// GFLOP/s of one core in a product of many rows, and what a library call costs besides. Measured on
// Zen 4, code and library held to each level of instructions; with the matrix unit on Sapphire
// Rapids.
struct ProductRates {
  double generated, library, call_ps;
};
std::optional<ProductRates> product_rates(DType dtype, const Target& target) {
  const bool unit = target.cpu == "sapphirerapids";
  if (dtype == DType::F32) return unit ? ProductRates{108, 120, 6e6} : ProductRates{96, 88, 6e6};
  if (dtype == DType::F64) return unit ? ProductRates{54, 60, 6e6} : ProductRates{48, 44, 6e6};
  if (dtype == DType::BF16 && unit) return ProductRates{190, 330, 15e6};
  if (dtype == DType::BF16 && target.bf16_dot) return ProductRates{190, 205, 15e6};
  if (dtype == DType::BF16) return ProductRates{92, 36, 15e6};
  if (dtype == DType::F16 && !unit) return ProductRates{88, 19, 15e6};
  return std::nullopt;
}

// An element that is copied into another order, once for each block of rows (of the matrix) or of
// columns (of the rows, where they do not lie one after the other); the library does so too.
constexpr double kPackPs = 120;
constexpr int64_t kBlockRows = 256, kFewestBlockRows = 64, kBlockColumns = 64, kVectors = 32;

ProductChoice choose_registers(const Product& p, const SymbolTable& symbols, const Target& target) {
  const auto rates = product_rates(p.dtype, target);
  if (!rates) return {false, "products of this type are the library's on this processor"};
  const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t m = (p.swapped ? p.columns : p.rows).hint(symbols),
                n = (p.swapped ? p.rows : p.columns).hint(symbols);
  if (m < 1 || n < 1) return {false, "an empty product"};
  const int64_t down = up(m, kBlockRows), across = up(n, kBlockColumns);
  const auto rows = static_cast<double>(m), columns = static_cast<double>(n),
             taken = static_cast<double>(up(n, kVectors) * kVectors),
             depth = static_cast<double>(p.depth.hint(symbols)),
             cores = static_cast<double>(target.cores);
  const double busy =
      std::min(cores, static_cast<double>(across * std::max(down, m / kFewestBlockRows)));
  const double packed = static_cast<double>(down) * columns * depth * kPackPs;
  double generated = 2 * rows * taken * depth * 1e3 / rates->generated + packed;
  if (!p.left_in_rows) generated += static_cast<double>(across) * rows * depth * kPackPs;
  generated = generated / busy + kLaunchPs;
  double library =
      (2 * rows * columns * depth * 1e3 / rates->library + packed) / cores + rates->call_ps;
  if (p.followed)
    library += rows * columns * static_cast<double>(byte_size(p.dtype)) * kBytePs + kLaunchPs;
  const auto us = [](double ps) { return std::to_string(static_cast<int64_t>(ps * 1e-6)); };
  const std::string reason = "tiles of registers, estimated at " + us(generated) + " us, not " +
                             us(library) + " in the library" +
                             (p.followed ? " with what follows" : "");
  if (generated >= library) return {false, reason};
  return {true, reason, true, static_cast<double>(across), static_cast<double>(down)};
}

}  // namespace

ProductChoice choose_product(const Product& p, const SymbolTable& symbols, const Target& target) {
  if (target.isa == Isa::Ptx) return choose_on_gpu(p, symbols);
  if (!is_float(p.dtype)) return {false, "products of integers are the library's"};
  if (!p.one_matrix) return {false, "a batch of matrices"};
  if (p.packed && p.rows.hint(symbols) > kMostDots)
    return {false, "the library computes with a packed weight"};
  if (const auto tiled = choose_tiles(p, symbols, target)) return *tiled;
  const bool constant = p.rows.is_const() && p.rows.value() >= 1;
  if (constant) {
    const std::string rows =
        std::to_string(p.rows.value()) + (p.rows.is_const(1) ? " row" : " rows");
    if (p.across && !p.swapped && byte_size(p.dtype) <= 4 && p.rows.value() <= kMostAcross &&
        p.columns.hint(symbols) >= kFewAcross)
      return {true, rows + ": the matrix is read once, across its columns, at memory speed"};
    const int64_t most = byte_size(p.dtype) == 2 ? kFewNarrowRows : kFewRows;
    if (p.checkpoint_order && p.rows.value() <= most && p.columns.hint(symbols) >= kFewColumns)
      return {true, rows + ": the matrix is read once, at memory speed"};
  }
  return choose_registers(p, symbols, target);
}

// The columns then have at most a quarter of the weight's elements. Measured on 512 channels of
// 7 x 7, two images: the library's convolution takes twice the time that it takes with a weight
// packed before; the product takes about that time.
bool pays_as_product(const Shape& result, const SymbolTable& symbols) {
  constexpr int64_t kChannelsOverPositions = 4;
  const int64_t positions = (result[0] * result[2] * result[3]).hint(symbols);
  return result[1].hint(symbols) >= kChannelsOverPositions * positions;
}

// Picoseconds for each query, key and channel, measured on Zen 4: generated 50 to 90. The library's
// fall with the number of queries, which share its packing: 150 with one and 53 with four in f32,
// 200 with two and 64 with eight in bf16, 270 with eight in f16.
bool pays_as_kernels(const ir::Graph& graph, const ir::Eqn& attention, const Target& target) {
  const ir::TensorType &q = graph.type(attention.inputs[0]), &k = graph.type(attention.inputs[1]);
  if (target.isa != Isa::X86 || byte_size(q.dtype) > byte_size(DType::F32)) return false;
  if (!q.shape[1].is_const() || !k.shape[1].is_const() || !q.shape[2].is_const()) return false;
  const int64_t most = q.dtype == DType::F32 ? 2 : q.dtype == DType::BF16 ? 4 : 8;
  return q.shape[2].value() <= most;
}

bool is_free(const ir::Graph& graph, const ir::Eqn& eqn) {
  switch (eqn.info().kind) {
    case ir::OpKind::View:
      return true;
    case ir::OpKind::Source:
      return eqn.inputs.empty() || !ir::is_value(eqn.inputs[0]);
    case ir::OpKind::Cast:
      return widens(graph.type(eqn.inputs[0]).dtype, graph.type(eqn.outs[0]).dtype);
    default:
      return false;
  }
}

double broadcast_evaluations(const Shape& value, const Shape& space, double evaluations,
                             const SymbolTable& symbols) {
  double run = 1;
  for (size_t i = 0; i < space.size(); ++i) {
    const size_t from_end = i + 1;
    const bool constant = from_end > value.size() || value[value.size() - from_end].is_const(1);
    if (!constant) break;
    run *= static_cast<double>(space[space.size() - from_end].hint(symbols));
  }
  return run >= kVectorLoop ? evaluations / run : evaluations;
}

}  // namespace poot::passes
