// Operand letters and result rules come from kir.def; the table below the letters holds what they
// cannot say: which element types a conversion joins, which objects an access takes.
#include "codegen/kir/rules.h"

#include <algorithm>
#include <bit>

namespace poot::kir {
namespace {

using Result = std::optional<Broken>;

bool is_int(Elem e) {
  return e >= Elem::I8 && e <= Elem::I64;
}
bool is_arith_float(Elem e) {
  return e == Elem::F32 || e == Elem::F64;
}
bool is_reduction(Op op) {
  return op >= Op::reduce_fadd && op <= Op::reduce_and;
}
bool takes_mask(Op op) {
  return op == Op::band || op == Op::bor || op == Op::bxor || op == Op::reduce_or ||
         op == Op::reduce_and || op == Op::zext || op == Op::uitofp;
}
bool takes_small_float(Op op) {
  return op == Op::fpext || op == Op::fptrunc;
}

// kir-C2, kir-C3: how many operands, and of which kind.
Result check_operands(const Kernel& k, const Inst& inst, const OpInfo& info) {
  std::string_view letters = info.operands;
  const bool open = letters.ends_with('*');
  if (open) letters.remove_suffix(1);
  if (open ? inst.args.size() < letters.size() : inst.args.size() != letters.size())
    return Broken{"kir-C2", std::string(info.name) + " takes " + std::to_string(letters.size()) +
                                " operands, not " + std::to_string(inst.args.size())};
  for (size_t i = 0; i < letters.size(); ++i) {
    const Type t = k.type(inst.args[i]);
    bool ok = true;
    switch (letters[i]) {
      case 'f':
        ok = takes_small_float(inst.op) ? is_float(t.elem) : is_arith_float(t.elem);
        break;
      case 'h':
        ok = t.elem == Elem::F16 || t.elem == Elem::BF16;
        break;
      case 'i':
        ok = is_int(t.elem) || (t.elem == Elem::I1 && takes_mask(inst.op));
        break;
      case 'm':
        ok = t.elem == Elem::I1;
        break;
      case 's':
        ok = t == Type{Elem::I64, 1};
        break;
      default:
        break;
    }
    if (!ok)
      return Broken{"kir-C3", "operand " + std::to_string(i) + " of " + std::string(info.name) +
                                  " has type " + t.str()};
  }
  return std::nullopt;
}

// kir-C3: operands of the lane-by-lane instructions have one type.
Result check_equal_operands(const Kernel& k, const Inst& inst, const OpInfo& info) {
  const bool alike = (info.result == "same" || info.result == "mask") && inst.args.size() > 1 &&
                     inst.op != Op::insert;
  if (!alike) return std::nullopt;
  const Type t = k.type(inst.args[0]);
  const bool pairs = inst.op == Op::dot_pairs;
  if (pairs && (t.elem != Elem::F32 || t.lanes < 4))
    return Broken{"kir-C3", "dot_pairs adds to " + t.str() + ", not to 4 or more f32"};
  for (size_t i = 1; i < inst.args.size(); ++i) {
    const Type want = inst.op == Op::fscale ? t.with(Elem::I32)
                      : pairs               ? Type{Elem::BF16, static_cast<uint16_t>(2 * t.lanes)}
                                            : t;
    if (k.type(inst.args[i]) != want)
      return Broken{"kir-C3", "operand " + std::to_string(i) + " of " + std::string(info.name) +
                                  " is " + k.type(inst.args[i]).str() + ", not " + want.str()};
  }
  return std::nullopt;
}

bool conversion_ok(Op op, Type from, Type to) {
  if (from.lanes != to.lanes) return false;
  const int64_t wf = bit_width(from.elem), wt = bit_width(to.elem);
  switch (op) {
    case Op::fpext:
      return (wf == 16 && to.elem == Elem::F32) || (from.elem == Elem::F32 && to.elem == Elem::F64);
    case Op::fptrunc:
      return (from.elem == Elem::F64 && to.elem == Elem::F32) ||
             (from.elem == Elem::F32 && is_float(to.elem) && wt == 16);
    case Op::sitofp:
    case Op::uitofp:
      return is_arith_float(to.elem);
    case Op::fptosi:
      return to.elem == Elem::I32 || to.elem == Elem::I64;
    case Op::sext:
    case Op::zext:
      return is_int(to.elem) && wt > wf;
    case Op::itrunc:
      return (is_int(to.elem) || to.elem == Elem::I1) && wt < wf;
    default:  // bitcast
      return wf == wt && wf > 1;
  }
}

bool own_type_ok(const Kernel& k, const Inst& inst) {
  const Type t = inst.type;
  auto arg = [&](size_t i) { return k.type(inst.args[i]); };
  switch (inst.op) {
    case Op::constant:
      return true;
    case Op::fexponent:
      return t == arg(0).with(Elem::I32);
    case Op::select:
      return t == arg(1) && t == arg(2) && (arg(0).lanes == 1 || arg(0).lanes == t.lanes);
    case Op::fpext:
    case Op::fptrunc:
    case Op::sitofp:
    case Op::uitofp:
    case Op::fptosi:
    case Op::sext:
    case Op::zext:
    case Op::itrunc:
    case Op::bitcast:
      return conversion_ok(inst.op, arg(0), t);
    case Op::splat:
      return arg(0).lanes == 1 && t.elem == arg(0).elem && t.lanes > 1;
    case Op::lane_ids:
      return is_int(t.elem);
    case Op::extract:
      return arg(0).lanes > 1 && t == arg(0).scalar();
    case Op::shuffle:
      return arg(0) == arg(1) && arg(0).lanes > 1 && t.elem == arg(0).elem &&
             t.lanes == inst.mask.size();
    case Op::lookup:
      return t.lanes == arg(0).lanes;
    case Op::load_masked:
      return arg(1).lanes == t.lanes && arg(2) == t;
    case Op::gather:
      return arg(0).lanes == t.lanes && arg(1).lanes == t.lanes && arg(2) == t;
    case Op::meta:
    case Op::block_id:
    case Op::grid_size:
      return t == Type{Elem::I64, 1};
    case Op::thread_id:
    case Op::workgroup_rank:
      return t == Type{Elem::I32, 1};
    default:  // load: any vector of the object's element (kir-C7); reductions
      return !is_reduction(inst.op) || (arg(0).lanes > 1 && t == arg(0).scalar() &&
                                        std::has_single_bit(unsigned{arg(0).lanes}));
  }
}

// kir-C4, kir-C5: the result.
Result check_result(const Kernel& k, const Inst& inst, const OpInfo& info) {
  if (inst.op == Op::for_ || inst.op == Op::if_) return std::nullopt;
  const size_t results = info.result == "none" ? 0 : 1;
  if (inst.results.size() != results)
    return Broken{"kir-C4", std::string(info.name) + " has " + std::to_string(results) +
                                " results, not " + std::to_string(inst.results.size())};
  if (results == 0) return std::nullopt;
  if (inst.type.lanes < 1 || inst.type.lanes > kMaxLanes)
    return Broken{"kir-C5", std::to_string(inst.type.lanes) + " lanes"};
  const std::optional<Type> inferred = inferred_type(k, inst);
  bool ok = inferred ? *inferred == inst.type : true;
  if (info.result == "own") ok = own_type_ok(k, inst);
  if (inst.op == Op::insert)
    ok = ok && inst.type.lanes > 1 && k.type(inst.args[1]) == inst.type.scalar();
  if (!ok)
    return Broken{"kir-C4", std::string(info.name) + " cannot yield " + inst.type.str() +
                                " from these operands"};
  return std::nullopt;
}

bool uses_tiles(Op op) {
  return op >= Op::tile_rows && op <= Op::tile_release;
}

// kir-C7: bf16 or f32 in a tile that is loaded, f32 in one that is stored.
Result check_tile_object(const Inst& inst, const Object& o) {
  const bool stores = inst.op == Op::tile_store;
  if (o.elem != Elem::F32 && (stores || o.elem != Elem::BF16))
    return Broken{"kir-C7", "%" + o.name + " holds " + std::string(name(o.elem)) + ", which no " +
                                (stores ? "stored" : "loaded") + " tile does"};
  return std::nullopt;
}

// kir-C7: the object of an access.
Result check_object(const Kernel& k, const Inst& inst, const OpInfo& info) {
  const bool table = info.has("table");
  if (!table && !info.has("object")) return std::nullopt;
  if (inst.object.index >= k.objects.size())
    return Broken{"kir-C7", std::string(info.name) + " names no object"};
  const Object& o = k.objects[inst.object.index];
  if (table != (o.kind == ObjectKind::Table))
    return Broken{"kir-C7", "%" + o.name + (table ? " is not a table" : " is a table")};
  const bool stores = info.result == "none" && !is_prefetch(inst.op) && inst.op != Op::tile_load;
  if (stores && o.kind == ObjectKind::Buffer && !o.writable)
    return Broken{"kir-C7", "buffer %" + o.name + " is not an output"};
  if (uses_tiles(inst.op)) return check_tile_object(inst, o);
  if (inst.op == Op::store_peer &&
      (o.kind != ObjectKind::Workgroup || k.type(inst.args[2]).lanes != 1))
    return Broken{"kir-C7", "store_peer stores one element of a workgroup array"};
  Type value = inst.type;
  if (stores) value = k.type(inst.args.back());
  if (inst.op == Op::store_masked) {
    if (k.type(inst.args[1]).lanes != value.lanes)
      return Broken{"kir-C3", "the mask's lanes are not the value's"};
  }
  if (is_atomic(inst.op)) {
    const bool of_float = inst.op <= Op::atomic_fmin;
    const bool known = inst.op == Op::atomic_fadd ? is_float(value.elem)
                       : of_float                 ? is_arith_float(value.elem)
                                                  : is_int(value.elem);
    if (!known || o.kind != ObjectKind::Buffer)
      return Broken{"kir-C7", std::string(info.name) + " of " + value.str() + " in %" + o.name};
  }
  if ((inst.op == Op::scatter || is_atomic(inst.op)) &&
      (k.type(inst.args[0]).lanes != value.lanes || k.type(inst.args[1]).lanes != value.lanes))
    return Broken{"kir-C3", "index, mask and value differ in lanes"};
  if (!is_prefetch(inst.op) && value.elem != o.elem)
    return Broken{"kir-C7", "%" + o.name + " holds " + std::string(name(o.elem)) + ", not " +
                                std::string(name(value.elem))};
  return std::nullopt;
}

// kir-C9, kir-C10, kir-C11: attributes.
Result check_attrs(const Kernel& k, const Inst& inst, const OpInfo& info) {
  if (info.has("align") && inst.align != 0 &&
      (!std::has_single_bit(inst.align) || inst.align > 4096))
    return Broken{"kir-C9", "align " + std::to_string(inst.align)};
  uint64_t limit = ~uint64_t{0};
  if (info.has("value")) limit = low_bits(bit_width(inst.type.elem));
  if (info.has("word")) limit = uint64_t{k.meta_words} - 1;
  if (info.has("axis")) limit = 2;
  if (info.has("code")) limit = low_bits(32);
  if (inst.op == Op::extract || inst.op == Op::insert) limit = k.type(inst.args[0]).lanes - 1u;
  if (inst.op == Op::shuffle_xor || inst.op == Op::shuffle_down) limit = 31;
  if (inst.imm > limit || (info.has("word") && k.meta_words == 0))
    return Broken{"kir-C10",
                  std::string(info.name) + " " + std::to_string(inst.imm) + " is out of range"};
  if (info.has("code") && inst.imm == 0) return Broken{"kir-C10", "fail needs a code"};
  if (uses_tiles(inst.op)) {
    const bool three = inst.op != Op::tile_dot || inst.mask.size() == 3;
    const bool known = std::ranges::all_of(inst.mask, [](int32_t t) { return t >= 0 && t <= 7; });
    if (inst.imm > 7 || !three || !known)
      return Broken{"kir-C10", std::string(info.name) + " names tiles that are not 0 to 7"};
  } else if (info.has("mask")) {
    for (int32_t lane : inst.mask)
      if (lane < 0 || lane >= 2 * k.type(inst.args[0]).lanes)
        return Broken{"kir-C10", "shuffle picks lane " + std::to_string(lane)};
  }
  if (info.has("pred") && is_float(inst.pred) != (inst.op == Op::fcmp))
    return Broken{"kir-C11", std::string(info.name) + " " + std::string(name(inst.pred))};
  return std::nullopt;
}

}  // namespace

std::optional<Type> inferred_type(const Kernel& k, const Inst& inst) {
  const OpInfo& info = op_info(inst.op);
  if (inst.args.empty()) return std::nullopt;
  const Type t = k.type(inst.args[0]);
  if (info.result == "same") return t;
  if (info.result == "mask") return t.with(Elem::I1);
  if (is_reduction(inst.op) || inst.op == Op::extract) return t.scalar();
  if (inst.op == Op::fexponent) return t.with(Elem::I32);
  if (inst.op == Op::select && inst.args.size() == 3) return k.type(inst.args[1]);
  return std::nullopt;
}

std::optional<Broken> check_inst(const Kernel& k, const Inst& inst) {
  const OpInfo& info = op_info(inst.op);
  if (!info.supports(k.isa))
    return Broken{"kir-C6",
                  std::string(info.name) + " is for " + std::string(info.targets) + " only"};
  for (auto* rule :
       {&check_operands, &check_equal_operands, &check_result, &check_object, &check_attrs})
    if (auto broken = (*rule)(k, inst, info)) return broken;
  return std::nullopt;
}

}  // namespace poot::kir
