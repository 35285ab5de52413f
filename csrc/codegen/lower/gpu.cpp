// The layout of threads, the rows, and who writes.
#include <algorithm>
#include <bit>

#include "codegen/lower/gpu_lowering.h"

namespace poot::codegen {

kir::Kernel lower_gpu(const tile::Program& program, const Target& target) {
  return lowering::GpuLowering(program, target).run();
}

namespace lowering {

using kir::Op;
using kir::Pred;
using tile::AxisId;
using KValue = kir::ValueId;

namespace {

template <class F>
void each_instruction(const tile::Block& b, F&& visit) {
  for (const tile::Inst& inst : b.insts) {
    visit(inst);
    for (const tile::Block& inner : inst.blocks) each_instruction(inner, visit);
  }
}

template <class F>
void each_access(const tile::Block& b, F&& visit) {
  each_instruction(b, [&](const tile::Inst& inst) {
    if (inst.op == tile::Op::load || tile::writes(inst.op)) visit(inst);
  });
}

constexpr int64_t kScannedBytes = 4;  // where no access is consecutive

bool has_loops(const tile::Block& b) {
  return std::any_of(b.insts.begin(), b.insts.end(), is_control);
}

}  // namespace

// As long as the narrowest consecutive access allows, and no longer than all of them are aligned.
uint32_t GpuLowering::choose_vector(AxisSet columns, int64_t capacity) const {
  const tile::Program& p = facts_.program();
  int64_t narrowest = 0;
  bool atomic = false;
  uint64_t aligned = kLongestVector;
  each_access(p.body, [&](const tile::Inst& inst) {
    if (inst.op == tile::Op::load && !facts_.live(inst.results[0])) return;
    atomic = atomic || inst.op == tile::Op::combine;
    const AxisSet deps = facts_.deps(inst.index) & columns;
    for (uint32_t a = 0; a < p.axes.size(); ++a) {
      if ((deps >> a & 1) == 0 || tile::const_stride(p, inst.index, AxisId(a)) != 1) continue;
      const int64_t bytes = byte_size(p.buffers.at(inst.buffer.index).dtype);
      narrowest = narrowest == 0 ? bytes : std::min(narrowest, bytes);
      if (const uint64_t factor = facts_.known_factor(inst.index, AxisId(a)); factor != 0)
        aligned = std::min(aligned, factor);
    }
  });
  // A warp's atomic accesses meet in lines of the cache where its threads are neighbours.
  if (atomic || (narrowest == 0 && !scans_)) return 1;
  // Threads scan elements side by side even if they are loaded one by one.
  const uint64_t most = scans_ ? gpu_vector(narrowest == 0 ? kScannedBytes : narrowest)
                               : std::min<uint64_t>(aligned, gpu_vector(narrowest));
  return static_cast<uint32_t>(std::min(most, std::bit_floor(static_cast<uint64_t>(capacity))));
}

// Something is stored along the columns that are reduced.
bool GpuLowering::rereads(AxisSet columns) const {
  bool found = false;
  each_access(facts_.program().body, [&](const tile::Inst& inst) {
    found = found || (inst.op == tile::Op::store && (facts_.deps(inst.index) & columns) != 0);
  });
  return found && (facts_.reduced_axes() & columns) != 0;
}

void GpuLowering::begin() {
  const tile::Program& p = facts_.program();
  AxisSet named = 0;
  for (const tile::Type& t : p.types) named |= TileFacts::axes_of(t);
  const AxisSet columns = named & ~facts_.row_axes();
  int64_t rows = 1, capacity = 1;
  for (uint32_t a = 0; a < p.axes.size(); ++a) {
    if (columns >> a & 1) capacity = std::max(capacity, p.axes[a].capacity);
    if (facts_.row_axes() >> a & 1) {
      row_axis_ = AxisId(a);
      rows = p.axes[a].capacity;
      looped_ = looped_ || rows > 1;
    }
  }
  has_loops_ = has_loops(p.body);
  looped_ = looped_ || has_loops_;
  each_instruction(p.body, [&](const tile::Inst& i) { scans_ = scans_ || i.op == tile::Op::scan; });
  vector_ = static_cast<uint16_t>(choose_vector(columns, capacity));
  columns_around_ = carried_columns(p, p.body);
  // Vectors do not reach over the end of the row.
  if (columns_around_ && !whole_vectors(columns_around_)) vector_ = 1;
  int reductions = 0;
  each_instruction(p.body, [&](const tile::Inst& inst) { reductions += facts_.reduces(inst); });
  threads_ = gpu_threads(rows, capacity, vector_, reductions);
  kernel_.threads = threads_.count();
  const int64_t hint = std::min(capacity, p.block_elems);
  if (target_.clusters && threads_.rows == 1 && !looped_ && rereads(columns))
    kernel_.cluster = gpu_cluster(hint);

  kir::KirBuilder& b = emit_.builder();
  const KValue t = b.emit(Op::sext, kir::Type{kir::Elem::I64, 1}, {b.thread_id()});
  column_ = t;
  if (threads_.rows > 1) {
    column_ = b.emit(Op::band, {t, emit_.i64(int64_t{threads_.columns} - 1)});
    row_ = b.emit(Op::lshr, {t, emit_.i64(std::countr_zero(threads_.columns))});
    first_row_ = b.icmp(Pred::eq, row_, emit_.i64(0));
  }
  local_column_ = column_;
  if (kernel_.cluster > 1) {
    rank_ = b.emit(Op::sext, kir::Type{kir::Elem::I64, 1}, {b.workgroup_rank()});
    column_ = emit_.add(emit_.mul(rank_, emit_.i64(threads_.columns)), column_);
    b.cluster_barrier();  // all have started before one writes the memory of another
  }
  first_column_ = b.icmp(Pred::eq, column_, emit_.i64(0));
  first_element_ = emit_.mul(column_, emit_.i64(vector_));
}

// Tiles of columns that loops carry are registers: each position of a thread runs the whole block.
// Nothing is exchanged between threads then.
void GpuLowering::program_body() {
  if (!columns_around_) return BlockLowering::program_body();
  kir::KirBuilder& b = emit_.builder();
  const KValue n = emit_.extent(columns_around_);
  const auto at = [&](KValue base) {
    b.if_else(
        b.icmp(Pred::slt, base, n),
        [&] {
          emit_.push_scope();
          emit_.bind_vector({columns_around_, base, vector_, {}});
          BlockLowering::program_body();
          emit_.unbind_vector(columns_around_);
          emit_.pop_scope();
          return std::vector<KValue>{};
        },
        [] { return std::vector<KValue>{}; });
  };
  if (positions_of(columns_around_) == 1) return at(first_element_);
  b.for_loop(emit_.i64(0), n, emit_.i64(stride()), {}, [&](KValue first, std::span<const KValue>) {
    emit_.push_scope();
    at(emit_.add(first, first_element_));
    emit_.pop_scope();
    return std::vector<KValue>{};
  });
}

void GpuLowering::row_loop(AxisId axis, const std::function<void()>& body) {
  if (threads_.rows == 1 || axis != row_axis_) return BlockLowering::row_loop(axis, body);
  kir::KirBuilder& b = emit_.builder();
  const int64_t capacity = facts_.program().axes.at(axis.index).capacity;
  const KValue extent = emit_.extent(axis);
  const auto fixed = emit_.static_extent(axis);
  const auto at = [&](KValue i) {
    const KValue before = emit_.predicate();
    if (!fixed || *fixed % threads_.rows != 0)
      emit_.set_predicate(emit_.both(before, b.icmp(Pred::slt, i, extent)));
    at_coordinate(axis, i, body);
    emit_.set_predicate(before);
  };
  if (capacity <= threads_.rows) return at(row_);
  b.for_loop(emit_.i64(0), extent, emit_.i64(threads_.rows), {},
             [&](KValue first, std::span<const KValue>) {
               at(emit_.add(first, row_));
               return std::vector<KValue>{};
             });
}

// What has no column is written by the first thread of the row, what has no row by the first row.
void GpuLowering::effects(const Root& root) {
  const KValue before = emit_.predicate();
  KValue writer = before;
  if (root.kind == Root::Store || root.kind == Root::Check) {
    if (!root.column && !columns_around_) writer = emit_.both(writer, first_column_);
    if (threads_.rows > 1 && !emit_.bound(row_axis_)) writer = emit_.both(writer, first_row_);
  }
  if (writer == before) return BlockLowering::effects(root);
  emit_.set_predicate(writer);
  emit_.push_scope();
  BlockLowering::effects(root);
  emit_.pop_scope();
  emit_.set_predicate(before);
}

}  // namespace lowering
}  // namespace poot::codegen
