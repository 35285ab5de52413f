// The interpreter runs the threads of a workgroup in step: each instruction is done by every active
// thread before the next one, and control flow splits the set of active threads. A barrier or a
// shuffle that part of the threads reach is therefore seen as such, and no thread needs a stack of
// its own. The CPU's kernels are the case of one thread. Where a cluster of workgroups runs a
// block, the threads of all of them go in step, counted through.
#include <algorithm>

#include "codegen/kir/lane_eval.h"
#include "codegen/kir/object_memory.h"
#include "codegen/kir/tile_unit.h"

namespace poot::kir {
namespace {

constexpr uint32_t kWarp = 32;

using Threads = std::vector<uint32_t>;  // ascending

class Machine {
 public:
  Machine(const Kernel& k, const RunArgs& args)
      : k_(k), args_(args), count_(k.threads * k.cluster), memory_(k, args.buffers) {
    if (args.meta.size() < k.meta_words)
      throw InvalidGraph("kir-run-C6", "@" + k.name, "fewer metadata words than the kernel has");
    size_t lanes = 0;
    for (Type t : k.types) {
      base_.push_back(lanes);
      lanes += t.lanes * count_;
    }
    values_.resize(lanes);
    for (uint32_t t = 0; t < count_; ++t) all_.push_back(t);
  }

  uint32_t run(uint32_t first, uint32_t last) {
    for (uint32_t b = first; b < last; ++b) {
      block_[0] = b % args_.grid[0];
      block_[1] = b / args_.grid[0] % args_.grid[1];
      block_[2] = b / args_.grid[0] / args_.grid[1];
      memory_.begin_block();
      block(k_.body, all_);
    }
    return status_;
  }

 private:
  uint64_t* lanes(ValueId v, uint32_t thread) {
    return values_.data() + base_[v.index] + size_t{k_.types[v.index].lanes} * thread;
  }
  uint64_t scalar(ValueId v, uint32_t thread) { return lanes(v, thread)[0]; }
  int64_t index(ValueId v, uint32_t thread, size_t lane) {
    return sign_extend(lanes(v, thread)[lane], bit_width(k_.type(v).elem));
  }
  void copy(ValueId from, ValueId to, uint32_t thread) {
    std::copy_n(lanes(from, thread), k_.type(from).lanes, lanes(to, thread));
  }

  // Runs a block; the operands of its yield stay where they are, for the caller to copy.
  void block(const Block& b, const Threads& active) {
    for (const Inst& i : b.insts) {
      if (i.op == Op::for_) {
        loop(i, active);
      } else if (i.op == Op::if_) {
        branch(i, active);
      } else if (i.op == Op::barrier || i.op == Op::cluster_barrier) {
        if (active.size() != count_)
          throw InvalidGraph("kir-run-C3", std::string(op_info(i.op).name),
                             std::to_string(active.size()) + " of " + std::to_string(count_) +
                                 " threads reach it");
        i.op == Op::barrier ? memory_.barrier() : memory_.cluster_barrier();
      } else if (i.op == Op::shuffle_xor || i.op == Op::shuffle_down) {
        warp_shuffle(i, active);
      } else if (i.op != Op::yield) {
        for (uint32_t t : active) inst(i, t);
      }
    }
  }

  void loop(const Inst& i, const Threads& active) {
    const Block& body = i.blocks[0];
    std::vector<int64_t> at(count_);
    for (uint32_t t : active) {
      at[t] = index(i.args[0], t, 0);
      if (index(i.args[2], t, 0) <= 0)
        throw InvalidGraph("kir-run-C5", "for", "the step is not positive");
      for (size_t c = 0; c < i.results.size(); ++c) copy(i.args[c + 3], body.params[c + 1], t);
    }
    for (;;) {
      Threads in;
      for (uint32_t t : active)
        if (at[t] < index(i.args[1], t, 0)) in.push_back(t);
      if (in.empty()) break;
      for (uint32_t t : in) lanes(body.params[0], t)[0] = static_cast<uint64_t>(at[t]);
      block(body, in);
      const std::vector<ValueId>& yielded = body.insts.back().args;
      for (uint32_t t : in) {
        // Through the results, since a yielded value may be another parameter.
        for (size_t c = 0; c < yielded.size(); ++c) copy(yielded[c], i.results[c], t);
        for (size_t c = 0; c < yielded.size(); ++c) copy(i.results[c], body.params[c + 1], t);
        if (__builtin_add_overflow(at[t], index(i.args[2], t, 0), &at[t])) at[t] = INT64_MAX;
      }
    }
    for (uint32_t t : active)
      for (size_t c = 0; c < i.results.size(); ++c) copy(body.params[c + 1], i.results[c], t);
  }

  void branch(const Inst& i, const Threads& active) {
    Threads taken[2];
    for (uint32_t t : active) taken[scalar(i.args[0], t) ? 0 : 1].push_back(t);
    for (int side = 0; side < 2; ++side) {
      if (taken[side].empty()) continue;
      block(i.blocks[side], taken[side]);
      const std::vector<ValueId>& yielded = i.blocks[side].insts.back().args;
      for (uint32_t t : taken[side])
        for (size_t r = 0; r < yielded.size(); ++r) copy(yielded[r], i.results[r], t);
    }
  }

  void warp_shuffle(const Inst& i, const Threads& active) {
    for (uint32_t t : active) {
      const uint32_t first = t / kWarp * kWarp;
      const uint32_t last = std::min(first + kWarp, count_);
      for (uint32_t peer = first; peer < last; ++peer)
        if (!std::ranges::binary_search(active, peer))
          throw InvalidGraph("kir-run-C3", std::string(op_info(i.op).name),
                             "thread " + std::to_string(peer) + " of the warp is not here");
      const auto lane = static_cast<uint32_t>(i.imm);
      uint32_t from = i.op == Op::shuffle_xor ? t ^ lane : t + lane;
      if (from >= last) {
        if (i.op == Op::shuffle_xor)
          throw InvalidGraph("kir-run-C3", "shuffle_xor", "no thread " + std::to_string(from));
        from = t;
      }
      std::copy_n(lanes(i.args[0], from), i.type.lanes, lanes(i.results[0], t));
    }
  }

  void inst(const Inst& i, uint32_t t) {
    const OpInfo& info = op_info(i.op);
    if (i.op >= Op::tile_rows && i.op <= Op::tile_release) return tile(i);
    if (info.has("object") || info.has("table")) return access(i, t);
    if (i.op == Op::fail) {
      if (scalar(i.args[0], t)) status_ |= static_cast<uint32_t>(i.imm);
      return;
    }
    uint64_t* out = lanes(i.results[0], t);
    if (i.op >= Op::reduce_fadd && i.op <= Op::reduce_and) {
      out[0] = reduce(i, t);
      return;
    }
    if (rearrange(i, t, out)) return;
    const Elem to = i.type.elem, from = i.args.empty() ? to : k_.type(i.args[0]).elem;
    const uint64_t* arg[3] = {};
    size_t stride[3] = {};
    for (size_t a = 0; a < i.args.size() && a < 3; ++a) {
      arg[a] = lanes(i.args[a], t);
      stride[a] = k_.type(i.args[a]).lanes > 1;
    }
    for (size_t l = 0; l < i.type.lanes; ++l)
      out[l] = eval_lane(i, from, to, arg[0] ? arg[0][l * stride[0]] : 0,
                         arg[1] ? arg[1][l * stride[1]] : 0, arg[2] ? arg[2][l * stride[2]] : 0);
  }

  void tile(const Inst& i) {
    const bool accesses = i.op == Op::tile_load || i.op == Op::tile_store;
    const size_t width =
        accesses ? static_cast<size_t>(bit_width(k_.objects[i.object.index].elem) / 8) : 1;
    const auto place = [&](size_t row, size_t byte) {
      return index(i.args[0], 0, 0) + static_cast<int64_t>(row) * index(i.args[1], 0, 0) +
             static_cast<int64_t>(byte / width);
    };
    switch (i.op) {
      case Op::tile_rows:
        return tiles_.configure(index(i.args[0], 0, 0));
      case Op::tile_zero:
        return tiles_.zero(i.imm);
      case Op::tile_load:
        return tiles_.load(i.imm, width, [&](size_t row, size_t byte) {
          return memory_.load(i.object, place(row, byte), 0);
        });
      case Op::tile_store:
        return tiles_.store(i.imm, [&](size_t row, size_t byte, uint32_t bits) {
          memory_.store(i.object, place(row, byte), bits, 0);
        });
      case Op::tile_dot:
        return tiles_.dot(static_cast<size_t>(i.mask[0]), static_cast<size_t>(i.mask[1]),
                          static_cast<size_t>(i.mask[2]));
      default:
        return tiles_.release();
    }
  }

  uint64_t reduce(const Inst& i, uint32_t t) {
    const uint64_t* in = lanes(i.args[0], t);
    std::vector<uint64_t> v(in, in + k_.type(i.args[0]).lanes);
    for (size_t half = v.size() / 2; half > 0; half /= 2)
      for (size_t l = 0; l < half; ++l) v[l] = combine_lanes(i.op, i.type.elem, v[l], v[l + half]);
    return v[0];
  }

  // Instructions that move lanes or read the launch; false for the others.
  bool rearrange(const Inst& i, uint32_t t, uint64_t* out) {
    switch (i.op) {
      case Op::splat:
        std::fill_n(out, i.type.lanes, scalar(i.args[0], t));
        return true;
      case Op::lane_ids:
        for (size_t l = 0; l < i.type.lanes; ++l) out[l] = l;
        return true;
      case Op::extract:
        out[0] = lanes(i.args[0], t)[i.imm];
        return true;
      case Op::insert:
        copy(i.args[0], i.results[0], t);
        out[i.imm] = scalar(i.args[1], t);
        return true;
      case Op::shuffle: {
        const size_t n = k_.type(i.args[0]).lanes;
        for (size_t l = 0; l < i.mask.size(); ++l) {
          const auto pick = static_cast<size_t>(i.mask[l]);
          out[l] = pick < n ? lanes(i.args[0], t)[pick] : lanes(i.args[1], t)[pick - n];
        }
        return true;
      }
      case Op::dot_pairs:
        for (size_t l = 0; l < i.type.lanes; ++l)
          out[l] = dot_pair(lanes(i.args[0], t)[l], lanes(i.args[1], t) + 2 * l,
                            lanes(i.args[2], t) + 2 * l);
        return true;
      case Op::meta:
        out[0] = static_cast<uint64_t>(args_.meta[i.imm]);
        return true;
      case Op::block_id:
        out[0] = block_[i.imm];
        return true;
      case Op::grid_size:
        out[0] = args_.grid[i.imm];
        return true;
      case Op::thread_id:
        out[0] = t % k_.threads;
        return true;
      case Op::workgroup_rank:
        out[0] = t / k_.threads;
        return true;
      default:
        return false;
    }
  }

  void access(const Inst& i, uint32_t t) {
    if (is_prefetch(i.op)) return;
    if (i.op == Op::store_peer) return store_peer(i, t);
    const bool stores = i.results.empty();
    const bool indexed =
        i.op == Op::gather || i.op == Op::scatter || i.op == Op::lookup || is_atomic(i.op);
    const bool masked = i.op == Op::load_masked || i.op == Op::gather || i.op == Op::store_masked ||
                        i.op == Op::scatter || is_atomic(i.op);
    const uint64_t* value = stores ? lanes(i.args.back(), t) : nullptr;
    uint64_t* out = stores ? nullptr : lanes(i.results[0], t);
    const size_t n = stores ? k_.type(i.args.back()).lanes : i.type.lanes;
    if (i.align > 1 && !indexed) {
      const int64_t bytes =
          index(i.args[0], t, 0) * (bit_width(k_.objects[i.object.index].elem) / 8);
      if (bytes % i.align != 0)
        throw InvalidGraph(
            "kir-run-C7", "%" + k_.objects[i.object.index].name,
            "byte " + std::to_string(bytes) + " is not aligned to " + std::to_string(i.align));
    }
    for (size_t l = 0; l < n; ++l) {
      if (masked && !lanes(i.args[1], t)[l]) {
        if (out) out[l] = lanes(i.args[2], t)[l];
        continue;
      }
      const int64_t at =
          indexed ? index(i.args[0], t, l) : index(i.args[0], t, 0) + static_cast<int64_t>(l);
      if (is_atomic(i.op)) {
        memory_.combine(i.object, at, [&](uint64_t there) {
          return combine_atomically(i.op, k_.objects[i.object.index].elem, there, value[l]);
        });
      } else if (stores) {
        memory_.store(i.object, at, value[l], t);
      } else {
        out[l] = memory_.load(i.object, at, t);
      }
    }
  }

  void store_peer(const Inst& i, uint32_t t) {
    const int64_t rank = index(i.args[0], t, 0);
    if (rank < 0 || rank >= k_.cluster)
      throw InvalidGraph("kir-run-C1", "store_peer", "workgroup " + std::to_string(rank));
    memory_.store(i.object, index(i.args[1], t, 0), scalar(i.args[2], t), t,
                  static_cast<uint32_t>(rank));
  }

  const Kernel& k_;
  const RunArgs& args_;
  const uint32_t count_;  // threads of a block
  ObjectMemory memory_;
  TileUnit tiles_;
  std::vector<size_t> base_;      // of each value, in values_
  std::vector<uint64_t> values_;  // raw bits: value, thread, lane
  Threads all_;
  uint32_t block_[3] = {};
  uint32_t status_ = 0;
};

}  // namespace

uint32_t interpret(const Kernel& k, const RunArgs& args, uint32_t first_block,
                   uint32_t last_block) {
  verify_or_throw(k);
  return Machine(k, args).run(first_block, last_block);
}

}  // namespace poot::kir
