// Symbols are bound by int arguments and tensor sizes that are plain symbols, then by those that
// are linear in one, then by such strides. All expressions are checked against the call, since
// neither guards nor AOTAutograd promise them (strides of tangents, for one).

#include "runtime/bind_args.h"

#include <algorithm>

#include "support/errors.h"

namespace poot::runtime {
namespace {

using What = ArgumentMismatch::What;

std::string list(std::span<const int64_t> v) {
  std::string s = "[";
  for (size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + std::to_string(v[i]);
  return s + "]";
}

// First and last byte that a strided tensor touches; false if it is empty.
bool extent(const TensorRef& t, intptr_t& lo, intptr_t& hi) {
  lo = hi = reinterpret_cast<intptr_t>(t.data);
  for (size_t d = 0; d < t.sizes.size(); ++d) {
    if (t.sizes[d] == 0) return false;
    const intptr_t span = (t.sizes[d] - 1) * t.strides[d] * byte_size(t.dtype);
    (span < 0 ? lo : hi) += span;
  }
  hi += byte_size(t.dtype);
  return true;
}

}  // namespace

ArgumentMismatch::ArgumentMismatch(What what, uint32_t arg, const std::string& detail)
    : Error("argument " + std::to_string(arg) + ": " + detail), what_(what), arg_(arg) {}

ArgBinder::ArgBinder(const program::Program& program) : program_(program) {
  std::vector<bool> bound(program.symbols.size(), false);
  sources_.resize(program.symbols.size());
  auto bind = [&](const Dim& d, uint32_t arg, int32_t dim, bool plain) {
    const auto linear = plain && !d.is_symbol() ? std::nullopt : d.linear();
    if (!linear || bound[linear->symbol]) return;
    bound[linear->symbol] = true;
    sources_[linear->symbol] = {arg, dim, linear->factor, linear->offset};
  };
  for (const bool plain : {true, false}) {
    for (uint32_t a = 0; a < program.args.size(); ++a)
      if (const auto* i = std::get_if<program::ArgInt>(&program.args[a]))
        bind(i->value, a, -1, plain);
    for (uint32_t a = 0; a < program.args.size(); ++a)
      if (const auto* t = std::get_if<program::ArgTensor>(&program.args[a]))
        for (size_t d = 0; d < t->shape.size(); ++d)
          bind(t->shape[d], a, static_cast<int32_t>(d), plain);
  }
  for (uint32_t a = 0; a < program.args.size(); ++a) {
    const auto* t = std::get_if<program::ArgTensor>(&program.args[a]);
    if (!t) continue;
    if (t->mutated) mutated_.push_back(a);
    for (size_t d = 0; d < t->strides.size(); ++d)
      bind(t->strides[d], a, -2 - static_cast<int32_t>(d), false);
  }
  for (size_t s = 0; s < bound.size(); ++s)
    if (!bound[s])
      throw InvalidGraph("program-C3", "s" + std::to_string(s), "no argument binds this symbol");
}

std::vector<int64_t> ArgBinder::symbols(std::span<const CallArg> args) const {
  std::vector<int64_t> out(sources_.size());
  for (size_t s = 0; s < sources_.size(); ++s) {
    const Source& from = sources_[s];
    const CallArg& arg = args[from.arg];
    int64_t found = arg.integer;
    if (from.dim != -1) {
      const auto& dims = from.dim >= 0 ? arg.tensor.sizes : arg.tensor.strides;
      const size_t d = from.dim >= 0 ? from.dim : -2 - from.dim;
      if (d >= dims.size())
        throw ArgumentMismatch(What::Sizes, from.arg,
                               "has " + std::to_string(dims.size()) + " dims");
      found = dims[d];
    }
    out[s] = (found - from.offset) / from.factor;  // check() refuses what leaves a remainder
  }
  return out;
}

void ArgBinder::check(std::span<const CallArg> args, std::span<const int64_t> symbols) const {
  for (uint32_t a = 0; a < program_.args.size(); ++a) {
    if (const auto* t = std::get_if<program::ArgTensor>(&program_.args[a])) {
      check_tensor(*t, args[a].tensor, a, symbols);
    } else if (const auto* i = std::get_if<program::ArgInt>(&program_.args[a])) {
      const int64_t want = i->value.eval(symbols);
      if (args[a].integer != want)
        throw ArgumentMismatch(What::Kind, a,
                               "is " + std::to_string(args[a].integer) + ", the program needs " +
                                   i->value.str() + " = " + std::to_string(want));
    }
  }
  check_overlap(args);
}

void ArgBinder::check_tensor(const program::ArgTensor& want, const TensorRef& got, uint32_t arg,
                             std::span<const int64_t> symbols) const {
  if (got.dtype != want.dtype)
    throw ArgumentMismatch(What::Dtype, arg,
                           "is " + std::string(name(got.dtype)) + ", the program needs " +
                               std::string(name(want.dtype)));
  bool sizes_right = got.sizes.size() == want.shape.size();
  bool strides_right = true;
  for (size_t d = 0; sizes_right && d < want.shape.size(); ++d) {
    sizes_right = got.sizes[d] == want.shape[d].eval(symbols);
    // The stride of a dim of size 0 or 1 says nothing.
    if (got.sizes[d] > 1 && got.strides[d] != want.strides[d].eval(symbols)) strides_right = false;
  }
  if (!sizes_right)
    throw ArgumentMismatch(
        What::Sizes, arg,
        "has sizes " + list(got.sizes) + ", the program needs " + str(want.shape));
  const bool empty = std::find(got.sizes.begin(), got.sizes.end(), 0) != got.sizes.end();
  if (!strides_right && !empty)
    throw ArgumentMismatch(
        What::Strides, arg,
        "has strides " + list(got.strides) + ", the program needs " + str(want.strides));
}

void ArgBinder::check_overlap(std::span<const CallArg> args) const {
  for (uint32_t m : mutated_) {
    intptr_t lo, hi;
    if (!extent(args[m].tensor, lo, hi)) continue;
    for (uint32_t a = 0; a < program_.args.size(); ++a) {
      intptr_t other_lo, other_hi;
      if (a == m || !std::holds_alternative<program::ArgTensor>(program_.args[a])) continue;
      if (!extent(args[a].tensor, other_lo, other_hi)) continue;
      if (lo < other_hi && other_lo < hi)
        throw ArgumentMismatch(What::Overlap, m,
                               "is written by the graph and overlaps argument " +
                                   std::to_string(a) +
                                   ", which it did not when the graph was compiled");
    }
  }
}

}  // namespace poot::runtime
