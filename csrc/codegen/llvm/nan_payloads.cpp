// Which f32 values may be narrowed to bf16 without looking for NaN.
//
// Rounding by integer arithmetic adds up to 0x8000 to the bits. A NaN survives that if the low half
// of its payload is zero and it is quiet: nothing carries into the sign, and the upper half alone
// says NaN. x86 makes no other NaN out of such operands: the result of an instruction is an
// operand's NaN, quieted, or the default NaN. So the property starts at values widened from bf16,
// constants and integers, and holds through arithmetic and through private arrays; an f32 that
// comes from other memory has it not.
#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace poot::codegen {

using kir::Elem;
using kir::Op;

namespace {

bool narrowable(uint64_t bits) {
  const bool nan = (bits & 0x7fffffff) > 0x7f800000;
  return !nan || ((bits & 0xffff) == 0 && (bits & 0x400000) != 0);
}

}  // namespace

bool Emitter::nan_is_narrowable(const kir::Inst& i) const {
  const auto operands = [&](size_t first = 0) {
    return std::all_of(
        i.args.begin() + static_cast<std::ptrdiff_t>(first), i.args.end(),
        [&](kir::ValueId a) { return kernel_.type(a).elem != Elem::F32 || narrowable_[a.index]; });
  };
  switch (i.op) {
    case Op::constant:
      return narrowable(i.imm);
    case Op::lookup: {
      const auto& bits = kernel_.objects[i.object.index].bits;
      return std::all_of(bits.begin(), bits.end(), narrowable);
    }
    case Op::load:
    case Op::load_masked:
      return narrowable_array_[i.object.index] &&
             (i.op == Op::load || narrowable_[i.args[2].index]);
    case Op::fpext:
      return arg_type(i, 0).elem == Elem::BF16;
    case Op::sitofp:
    case Op::uitofp:
    case Op::fadd:
    case Op::fsub:
    case Op::fmul:
    case Op::fdiv:
    case Op::fma:
    case Op::fneg:
    case Op::fabs:
    case Op::fsqrt:
    case Op::ffloor:
    case Op::fceil:
    case Op::ftrunc:
    case Op::frint:
    case Op::fmin:
    case Op::fmax:
    case Op::fcopysign:
    case Op::frecip:
    case Op::fmaximum:
    case Op::fminimum:
    case Op::fexp2_approx:
    case Op::fexp2_flush:
    case Op::frecip_approx:
    case Op::fdiv_approx:
    case Op::fsqrt_approx:
    case Op::splat:
    case Op::extract:
    case Op::insert:
    case Op::shuffle:
    case Op::select:
    case Op::reduce_fadd:
    case Op::reduce_fmul:
    case Op::reduce_fmax:
    case Op::reduce_fmin:
      return operands();
    case Op::fscale:
    case Op::fscale_whole:
      return features_.avx512 && operands();
    default:
      return false;
  }
}

// Arrays are taken to have the property until a store shows otherwise.
void Emitter::note_nans() {
  for (const kir::Object& o : kernel_.objects)
    narrowable_array_.push_back(o.kind == kir::ObjectKind::Private && o.elem == Elem::F32);
  for (std::vector<char> before; before != narrowable_array_;) {
    before = narrowable_array_;
    note_nans(kernel_.body);
  }
}

void Emitter::note_nans(const kir::Block& block) {
  for (const kir::Inst& i : block.insts) note_nans(i);
}

// What a loop carries has the property if it starts with it and each pass keeps it: assumed, then
// looked after, until nothing more is found without it.
void Emitter::note_nans_of_loop(const kir::Inst& i) {
  const kir::Block& body = i.blocks[0];
  const auto carried = [&](size_t c) { return body.params[c + 1].index; };
  for (size_t c = 0; c < i.results.size(); ++c)
    narrowable_[carried(c)] = narrowable_[i.args[c + 3].index];
  for (bool changed = true; changed;) {
    changed = false;
    note_nans(body);
    for (size_t c = 0; c < i.results.size(); ++c) {
      if (!narrowable_[carried(c)] || narrowable_[body.insts.back().args[c].index]) continue;
      narrowable_[carried(c)] = 0;
      changed = true;
    }
  }
  for (size_t c = 0; c < i.results.size(); ++c)
    narrowable_[i.results[c].index] = narrowable_[carried(c)];
}

void Emitter::note_nans(const kir::Inst& i) {
  if (i.op == Op::for_) return note_nans_of_loop(i);
  for (const kir::Block& block : i.blocks) note_nans(block);
  if (i.op == Op::if_) {
    for (size_t r = 0; r < i.results.size(); ++r)
      narrowable_[i.results[r].index] = std::all_of(
          i.blocks.begin(), i.blocks.end(),
          [&](const kir::Block& b) { return narrowable_[b.insts.back().args.at(r).index]; });
    return;
  }
  if (i.op == Op::store || i.op == Op::store_masked || i.op == Op::scatter) {
    char& array = narrowable_array_[i.object.index];
    array = array && narrowable_[i.args.back().index];
  }
  if (i.op == Op::tile_store) narrowable_array_[i.object.index] = 0;
  if (i.results.size() == 1 && kernel_.type(i.results[0]).elem == Elem::F32)
    narrowable_[i.results[0].index] = nan_is_narrowable(i);
}

}  // namespace poot::codegen
