// Products of two matrices in vector registers:
//
//   for k in 0..K step part                     x [m, k], w [k, n]
//     panel = w[k .., :]                        vectors of columns, one row of w after the other
//     for n in 0..N step vectors
//       for m in 0..M step strip
//         acc[strip, vectors] = 0
//         for k in part                         vectors of the panel; elements of x, splat
//           acc[i, v] += x[m + i, k] * panel[k, v]
//         sums[m .., n ..] += acc
//
// A part of the panel stays in the first-level cache while all strips pass by. Where there are a
// few rows and w lies row by row, it is read in place instead: a part is then a few of its rows,
// which are followed along the columns as so many streams, the rows of the next part asked for
// meanwhile. An operand that is computed, lies otherwise, or has another type than the panel is
// evaluated into one first (cpu_panels.cpp).
//
// bf16 with the instruction for it is taken two of the depth at a time: a vector of the panel holds
// pairs of k, and a pair of x is splat. Types that are otherwise narrower than their sums are
// widened in the panel.
//
// The order of a sum depends on its length and the kernel alone: in a part one after the other,
// then the parts; of a long sum first those of a group, so that its error grows slowly. In f32
// parts are those of the library that eager calls: the same products give the same bits.
#include <algorithm>

#include "codegen/lower/product_lowering.h"

namespace poot::codegen::lowering {

using kir::Elem;
using kir::Op;
using tile::AxisId;
using KValue = kir::ValueId;

namespace {

constexpr int64_t kPartBytes = 24 << 10;  // of a panel that strips share
constexpr int64_t kPartsOfGroup = 8, kLongDepth = 2048, kLongPartDepth = 64;
constexpr int64_t kPartDepth = 128;     // of a sum at most, for its error's sake
constexpr int64_t kLibraryDepth = 192;  // of a part of MKL's sgemm; two parts are equal
constexpr int64_t kStripRows = 6;       // of a block in registers
constexpr int64_t kRowsAtOnce = 64;     // of a matrix that is read in place
constexpr int64_t kRowsInPlace = 16;    // up to which it is
constexpr int64_t kRowsAhead = 64;      // that are asked for
constexpr int64_t kMostVectors = 8;     // of columns in registers

int64_t divided_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t library_part(int64_t depth) {
  if (depth >= 2 * kLibraryDepth) return kLibraryDepth;
  return depth > kLibraryDepth ? depth / 2 : depth;
}

}  // namespace

ProductLowering::ProductLowering(Emitter& emit, const tile::Inst& dot, const KeptTile& sums,
                                 AxisId depth)
    : emit_(emit), b_(emit.builder()), sums_(sums), depth_(depth) {
  const TileFacts& facts = emit_.facts();
  columns_ = sums.axes.back();
  if (sums.axes.size() > 1) rows_ = sums.axes[0];
  const auto uses_columns = [&](size_t side) {
    return (facts.deps(dot.args[side]) & TileFacts::bit(columns_)) != 0;
  };
  const bool swapped = uses_columns(0) && !uses_columns(1);
  left_ = dot.args[swapped ? 1 : 0], right_ = dot.args[swapped ? 0 : 1];
  if (dot.args.size() > 2) start_ = dot.args[2];
  choose_sizes();
}

void ProductLowering::choose_sizes() {
  const Target& target = emit_.target();
  const DType dtype = emit_.program().type(left_).dtype;
  pairs_ = dtype == DType::BF16 && target.bf16_dot;
  sum_elem_ = exact_elem(opmath(dtype));
  elem_ = pairs_ ? Elem::BF16 : sum_elem_;
  step_ = pairs_ ? 2 : 1;
  lanes_ = static_cast<uint16_t>(target.vector_bytes / byte_size(opmath(dtype)));
  const int64_t width = emit_.program().axes.at(columns_.index).capacity;
  if (width % (step_ * lanes_) != 0)
    throw Unsupported("tile program " + emit_.program().name,
                      "columns of sums that end in a vector");
  const int64_t registers = target.vector_bytes == 64 ? 24 : 12;  // for sums
  const int64_t capacity = rows_ ? emit_.program().axes.at(rows_.index).capacity : 1;
  const bool few = capacity <= kRowsInPlace;
  const auto right = source(right_, columns_);
  if (few && right && right->across == 1) {
    right_rows_ = right;
    strip_ = divided_up(capacity, divided_up(capacity, 8));
    vectors_ = std::clamp<int64_t>(registers / strip_ / step_ * step_, step_, kMostVectors);
    part_ = std::max<int64_t>(kRowsAtOnce, lanes_ * step_);
  } else {
    vectors_ = std::min(registers / kStripRows, width / lanes_);
    strip_ = registers / vectors_;
    choose_part(dtype);
  }
  if (part_depth_ == 0) part_depth_ = part_;
  const auto fixed = emit_.static_extent(depth_);
  const auto left = source(left_, rows_);
  const bool whole_pairs = !pairs_ || (fixed && *fixed % 2 == 0 && left && left->along == 1);
  const DType stored = emit_.program().type(left_).dtype;
  if (left && storage_elem(stored) == elem_ && whole_pairs) left_rows_ = left;
  if (!left_rows_)
    left_panel_ = array("left", elem_, divided_up(capacity, lanes_) * lanes_ * part_);
  if (!right_rows_)
    right_panel_ =
        array("right", elem_, divided_up(width, vectors_ * lanes_) * vectors_ * lanes_ * part_);
}

// How deep a part of a panel is, and how much of it parts take.
void ProductLowering::choose_part(DType dtype) {
  const int64_t whole = emit_.program().axes.at(depth_.index).capacity, unit = lanes_ * step_;
  const auto units = [&](int64_t n) { return std::max(divided_up(n, unit), int64_t{1}) * unit; };
  as_library_ = dtype == DType::F32;
  if (as_library_) {
    part_depth_ = std::max<int64_t>(library_part(whole), 1);
    part_ = units(part_depth_);
    return;
  }
  part_ = kPartBytes / (vectors_ * unit * (kir::bit_width(elem_) / 8)) * step_;
  const int64_t most = whole > kLongDepth ? kLongPartDepth : kPartDepth;
  part_ = std::min(part_, most * step_) / unit * unit;
  const int64_t parts = std::max<int64_t>(divided_up(whole, part_), 1);
  part_ = units(divided_up(whole, parts));
}

// Where an operand lies, if it is loaded as it is, at constant distances.
std::optional<ProductLowering::Source> ProductLowering::source(tile::ValueId v,
                                                               AxisId across) const {
  const TileFacts& facts = emit_.facts();
  const tile::Program& p = facts.program();
  const tile::Inst* load = facts.def(v);
  if (load == nullptr || load->op != tile::Op::load || !load->mask.empty()) return std::nullopt;
  const AxisSet axes = (across ? TileFacts::bit(across) : 0) | TileFacts::bit(depth_);
  if ((facts.deps(load->index) & ~axes & ~emit_.bound_axes()) != 0) return std::nullopt;
  const auto apart = across ? tile::const_stride(p, load->index, across) : int64_t{0};
  const auto along = tile::const_stride(p, load->index, depth_);
  if (!apart || !along) return std::nullopt;
  emit_.push_scope();
  if (across) emit_.bind(across, emit_.i64(0));
  emit_.bind(depth_, emit_.i64(0));
  const KValue first = emit_.index(load->index);
  emit_.unbind(depth_);
  if (across) emit_.unbind(across);
  emit_.pop_scope();
  return Source{kir::ObjectId(load->buffer.index), first, *apart, *along};
}

void ProductLowering::for_each(KValue to, int64_t step, const std::function<void(KValue)>& body) {
  b_.for_loop(emit_.i64(0), to, emit_.i64(step), {}, [&](KValue i, std::span<const KValue>) {
    emit_.push_scope();
    body(i);
    emit_.pop_scope();
    return std::vector<KValue>{};
  });
}

KValue ProductLowering::rounded_down(KValue n, int64_t step) {
  if (const auto known = emit_.constant_of(n)) return emit_.i64(*known / step * step);
  const KValue by = emit_.i64(step);
  return b_.emit(Op::imul, {b_.emit(Op::sdiv, {n, by}), by});
}

// Of the depth: every part too.
bool ProductLowering::divides(AxisId axis, int64_t step) const {
  const auto fixed = emit_.static_extent(axis);
  return fixed && *fixed % step == 0 && (axis != depth_ || part_depth_ % step == 0);
}

void ProductLowering::parts(KValue from, KValue to, bool even) {
  b_.for_loop(from, to, emit_.i64(part_depth_), {}, [&](KValue k, std::span<const KValue>) {
    emit_.push_scope();
    from_ = k;
    length_ = emit_.i64(part_depth_);
    if (!even) length_ = b_.emit(Op::smin, {length_, b_.emit(Op::isub, {to, k})});
    part();
    emit_.pop_scope();
    return std::vector<KValue>{};
  });
}

void ProductLowering::run() {
  emit_.push_scope();
  start_ ? start() : clear(sums_.object);
  const KValue depth = emit_.extent(depth_);
  const int64_t group = kPartsOfGroup * part_;
  if (as_library_ || emit_.program().axes.at(depth_.index).capacity <= kLongDepth) {
    parts(emit_.i64(0), depth, divides(depth_, part_depth_));
  } else {
    const kir::ObjectId total = sums_.object;
    sums_.object = array("group", sum_elem_, b_.kernel().objects.at(total.index).size);
    for_each(depth, group, [&](KValue from) {
      clear(sums_.object);
      const KValue end = emit_.add(from, emit_.i64(group));
      parts(from, b_.emit(Op::smin, {end, depth}), divides(depth_, part_));
      all_sums([&](KValue at) {
        const kir::Type t{sum_elem_, lanes_};
        b_.store(total, at,
                 b_.emit(Op::fadd, {b_.load(total, t, at), b_.load(sums_.object, t, at)}));
      });
    });
    sums_.object = total;
  }
  emit_.pop_scope();
}

void ProductLowering::all_sums(const std::function<void(KValue)>& body) {
  const int64_t width = emit_.program().axes.at(columns_.index).capacity;
  const KValue rows = rows_ ? emit_.extent(rows_) : emit_.i64(1);
  for_each(emit_.mul(rows, emit_.i64(width)), lanes_, body);
}

void ProductLowering::clear(kir::ObjectId sums) {
  const KValue zero = b_.constant({sum_elem_, lanes_}, 0);
  all_sums([&](KValue at) { b_.store(sums, at, zero); });
}

// A private array, which the products of a kernel share.
kir::ObjectId ProductLowering::array(const char* name, Elem elem, int64_t size) {
  std::string unique = name;
  for (const kir::Object& o : b_.kernel().objects) {
    if (o.name != unique) continue;
    if (o.elem == elem && o.size == size)
      return kir::ObjectId(static_cast<uint32_t>(&o - b_.kernel().objects.data()));
    unique += "b";
  }
  return b_.add_object({.name = unique,
                        .kind = kir::ObjectKind::Private,
                        .elem = elem,
                        .writable = true,
                        .size = size});
}

void ProductLowering::part() {
  if (!left_rows_) pack_left();
  if (!right_rows_) pack_right();
  const KValue columns = emit_.extent(columns_);
  const int64_t width = vectors_ * lanes_;
  if (!right_rows_) {
    for_each(columns, width, [&](KValue column) { strips(column, vectors_, {}); });
    return;
  }
  const KValue whole = rounded_down(columns, width);
  for_each(whole, width, [&](KValue column) { strips(column, vectors_, {}); });
  if (divides(columns_, width)) return;
  const int64_t narrow = step_ * lanes_;
  const KValue left = b_.emit(Op::isub, {columns, whole});
  for_each(left, narrow, [&](KValue i) {
    const KValue active = first_lanes(b_.emit(Op::isub, {left, i}), static_cast<uint16_t>(narrow));
    strips(emit_.add(whole, i), step_, active);
  });
}

void ProductLowering::strips(KValue column, int64_t vectors, KValue active) {
  Block at{.rows = strip_,
           .vectors = vectors,
           .row = {},
           .column = column,
           .last_row = {},
           .active = active};
  if (!rows_) {
    at.rows = 1, at.row = emit_.i64(0);
    return block(at);
  }
  const KValue rows = emit_.extent(rows_), whole = rounded_down(rows, strip_);
  for_each(whole, strip_, [&](KValue row) {
    at.row = row;
    block(at);
  });
  at.row = whole;
  if (const auto fixed = emit_.static_extent(rows_)) {
    at.rows = *fixed % strip_;
    if (at.rows > 0) block(at);
    return;
  }
  at.last_row = emit_.add(rows, emit_.i64(-1));
  for_each(b_.emit(Op::isub, {rows, whole}), strip_, [&](KValue) { block(at); });
}

KValue ProductLowering::row_of(const Block& at, int64_t i) {
  const KValue row = emit_.add(at.row, emit_.i64(i));
  return at.last_row ? b_.emit(Op::smin, {row, at.last_row}) : row;
}

// An element of the left operand, or a pair of them, in every lane.
KValue ProductLowering::left_element(const Source& from, KValue at) const {
  if (!pairs_) return b_.splat(b_.load(from.object, {elem_, 1}, at), lanes_);
  std::vector<int32_t> lanes;
  for (int32_t l = 0; l < 2 * lanes_; ++l) lanes.push_back(l % 2);
  const KValue pair = b_.load(from.object, {elem_, 2}, at);
  return b_.shuffle(pair, pair, std::move(lanes));
}

// The right operand's vectors at k of the part (`whole`: and at k + 1, where pairs are taken).
ProductLowering::Values ProductLowering::right_vectors(const Block& at, KValue k, bool whole) {
  Values out;
  if (!right_rows_) {
    const int64_t width = vectors_ * lanes_;
    const KValue first =
        emit_.add(emit_.mul(at.column, emit_.i64(part_)), emit_.mul(k, emit_.i64(width)));
    const auto elems = static_cast<uint16_t>(lanes_ * step_);
    for (int64_t v = 0; v < at.vectors; ++v)
      out.push_back(b_.load(right_panel_, {elem_, elems}, emit_.add(first, emit_.i64(v * elems)),
                            alignment()));
    return out;
  }
  const Source& s = *right_rows_;
  const Elem stored = b_.kernel().objects.at(s.object.index).elem;
  const kir::Type t{stored, static_cast<uint16_t>(lanes_ * step_)};
  const KValue row =
      emit_.add(emit_.mul(emit_.add(from_, k), emit_.i64(s.along)), emit_.add(s.first, at.column));
  const auto load = [&](KValue from) {
    if (at.active) return b_.load_masked(s.object, t, from, at.active, b_.constant(t, 0));
    b_.prefetch(s.object, emit_.add(from, emit_.i64(kRowsAhead * s.along)), true);
    return b_.load(s.object, t, from);
  };
  for (int64_t v = 0; v < at.vectors; v += step_) {
    const KValue from = emit_.add(row, emit_.i64(v * lanes_));
    const KValue even = load(from);
    if (!pairs_) {
      out.push_back(stored == elem_ ? even : b_.emit(Op::fpext, t.with(elem_), {even}));
      continue;
    }
    const KValue odd = whole ? load(emit_.add(from, emit_.i64(s.along))) : b_.constant(t, 0);
    for (const KValue pair : weave(even, odd)) out.push_back(pair);
  }
  return out;
}

void ProductLowering::block(const Block& at) {
  Source left{left_panel_, emit_.i64(0), part_, 1};
  if (left_rows_) {
    left = *left_rows_;
    left.first = emit_.add(left.first, emit_.mul(from_, emit_.i64(left.along)));
  }
  Values starts;
  for (int64_t i = 0; i < at.rows; ++i)
    starts.push_back(emit_.add(left.first, emit_.mul(row_of(at, i), emit_.i64(left.across))));
  const auto multiply = [&](KValue k, bool whole, Values acc) {
    emit_.push_scope();
    const Values right = right_vectors(at, k, whole);
    const KValue along = emit_.mul(k, emit_.i64(left.along));
    auto sum = acc.begin();
    for (int64_t i = 0; i < at.rows; ++i) {
      const KValue x = left_element(left, emit_.add(starts[static_cast<size_t>(i)], along));
      for (const KValue w : right) {
        *sum = b_.emit(pairs_ ? Op::dot_pairs : Op::fma,
                       pairs_ ? Values{*sum, x, w} : Values{x, w, *sum});
        ++sum;
      }
    }
    emit_.pop_scope();
    return acc;
  };
  Values acc(static_cast<size_t>(at.rows * at.vectors), b_.constant({sum_elem_, lanes_}, 0));
  // A panel has a zero beside the last of an odd depth; the matrix itself has not.
  const bool odd = pairs_ && right_rows_ && !divides(depth_, 2);
  const KValue end = odd ? rounded_down(length_, 2) : length_;
  acc = b_.for_loop(emit_.i64(0), end, emit_.i64(step_), acc,
                    [&](KValue k, std::span<const KValue> carried) {
                      return multiply(k, true, {carried.begin(), carried.end()});
                    });
  if (odd)
    acc = b_.for_loop(end, length_, emit_.i64(step_), acc,
                      [&](KValue k, std::span<const KValue> carried) {
                        return multiply(k, false, {carried.begin(), carried.end()});
                      });
  const int64_t width = emit_.program().axes.at(columns_.index).capacity;
  const kir::Type t{sum_elem_, lanes_};
  Values places;
  for (int64_t i = 0; i < at.rows; ++i) {
    const KValue row = emit_.add(emit_.mul(row_of(at, i), emit_.i64(width)), at.column);
    for (int64_t v = 0; v < at.vectors; ++v)
      places.push_back(emit_.add(row, emit_.i64(v * lanes_)));
  }
  for (size_t i = 0; i < acc.size(); ++i)
    acc[i] = b_.emit(Op::fadd, {b_.load(sums_.object, t, places[i]), acc[i]});
  for (size_t i = 0; i < acc.size(); ++i) b_.store(sums_.object, places[i], acc[i]);
}

}  // namespace poot::codegen::lowering
