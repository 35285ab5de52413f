// Runs the tile program of a request on random inputs and compares it with the graph oracle.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "codegen/codegen.h"
#include "ir/oracle.h"
#include "ir/scalar_eval.h"

namespace poot::testing {

// Graph texts are made from patterns.
inline std::string replace(std::string s, const std::string& from, const std::string& to) {
  for (size_t at = s.find(from); at != std::string::npos; at = s.find(from, at + to.size()))
    s.replace(at, from.size(), to);
  return s;
}

struct TileCase {
  passes::RequestKind kind = passes::RequestKind::Elementwise;
  std::string graph;                  // text of the body
  std::vector<int64_t> symbols = {};  // sizes
  // Layouts other than contiguous: (input index, layout), (output index, layout).
  std::vector<std::pair<size_t, ir::Layout>> inputs = {}, outputs = {};
  // Integer inputs are drawn from this range (default -5..5).
  int64_t int_lo = -5, int_hi = 5;
  double tolerance = 0;      // relative to max(1, |expected|); 0: equal bits
  double gpu_tolerance = 0;  // of kernels of a GPU, if larger: they fold in another order
  bool any_order = false;    // of a scatter
  bool cpu_only = false;     // no GPU takes it
  uint32_t status = 0;       // expected status word; values are compared only if it is 0
};

inline passes::KernelRequest make_request(const TileCase& c) {
  passes::KernelRequest r;
  r.kind = c.kind;
  r.body = std::make_shared<const ir::Graph>(ir::parse_graph(c.graph));
  r.name = r.body->name();
  r.any_order = c.any_order;
  for (const ir::ValueId v : r.body->inputs())
    r.inputs.push_back(ir::Layout::contiguous(r.body->type(v).shape));
  for (const auto& o : r.body->outputs())
    r.outputs.push_back(ir::Layout::contiguous(r.body->type(o.value).shape));
  for (const auto& [i, layout] : c.inputs) r.inputs.at(i) = layout;
  for (const auto& [i, layout] : c.outputs) r.outputs.at(i) = layout;
  return r;
}

// Memory of a tensor with a layout; bytes between its elements hold a pattern.
struct Memory {
  std::vector<std::byte> bytes;
  std::vector<int64_t> shape, strides;
  int64_t offset;
  DType dtype;

  Memory(const ir::TensorType& type, const ir::Layout& layout, std::span<const int64_t> symbols)
      : offset(layout.offset.eval(symbols)), dtype(type.dtype) {
    int64_t last = offset;
    bool empty = false;
    for (size_t i = 0; i < type.shape.size(); i++) {
      shape.push_back(type.shape[i].eval(symbols));
      strides.push_back(layout.strides[i].eval(symbols));
      if (shape[i] == 0)
        empty = true;
      else
        last += std::max<int64_t>(strides[i], 0) * (shape[i] - 1);
    }
    bytes.assign(empty ? 0 : static_cast<size_t>((last + 1) * byte_size(dtype)), std::byte{0xA5});
  }
  std::byte* at(int64_t linear) {
    int64_t index = offset;
    for (size_t i = shape.size(); i-- > 0;) {
      index += linear % shape[i] * strides[i];
      linear /= shape[i];
    }
    return bytes.data() + index * byte_size(dtype);
  }
  void put(const ir::HostArray& a) {
    for (int64_t i = 0; i < a.numel(); i++) {
      const uint64_t bits = a.bits(i);
      std::memcpy(at(i), &bits, static_cast<size_t>(byte_size(dtype)));
    }
  }
  ir::HostArray get() {
    ir::HostArray a = ir::HostArray::zeros(dtype, shape);
    for (int64_t i = 0; i < a.numel(); i++) {
      uint64_t bits = 0;
      std::memcpy(&bits, at(i), static_cast<size_t>(byte_size(dtype)));
      a.set_bits(i, bits);
    }
    return a;
  }
};

inline ir::HostArray random_array(const ir::TensorType& type, const TileCase& c,
                                  std::mt19937_64& rng) {
  std::vector<int64_t> shape;
  for (const Dim& d : type.shape) shape.push_back(d.eval(c.symbols));
  ir::HostArray a = ir::HostArray::zeros(type.dtype, shape);
  for (int64_t i = 0; i < a.numel(); i++) {
    if (is_float(type.dtype)) {
      const double v = std::uniform_real_distribution<double>(-2, 2)(rng);
      a.set_bits(i, ir::from_double(v, type.dtype));
    } else if (type.dtype == DType::Bool) {
      a.set_bits(i, rng() & 1);
    } else {
      const int64_t v = std::uniform_int_distribution<int64_t>(c.int_lo, c.int_hi)(rng);
      a.set_bits(i, ir::from_int(v, type.dtype));
    }
  }
  return a;
}

inline void expect_equal(const ir::HostArray& got, const ir::HostArray& want, const TileCase& c,
                         const std::string& what) {
  ASSERT_EQ(got.shape, want.shape) << what;
  int failures = 0;
  for (int64_t i = 0; i < want.numel() && failures < 4; i++) {
    if (got.bits(i) == want.bits(i)) continue;
    const double g = ir::to_double(got.bits(i), got.dtype);
    const double w = ir::to_double(want.bits(i), want.dtype);
    if (std::isnan(g) && std::isnan(w)) continue;
    if (c.tolerance > 0 && std::abs(g - w) <= c.tolerance * std::max(1.0, std::abs(w))) continue;
    failures++;
    ADD_FAILURE() << what << "[" << i << "]: " << g << ", not " << w;
  }
}

// Functions that kernels approximate within an ulp or two, so that bits may differ.
inline bool approximates(const tile::Block& b) {
  using ir::OpCode;
  for (const tile::Inst& inst : b.insts) {
    if (inst.op == tile::Op::pointwise &&
        ((inst.pointwise >= OpCode::exp && inst.pointwise <= OpCode::log1p) ||
         (inst.pointwise >= OpCode::sin && inst.pointwise <= OpCode::gelu_erf) ||
         inst.pointwise == OpCode::pow || inst.pointwise == OpCode::atan2))
      return true;
    for (const tile::Block& inner : inst.blocks)
      if (approximates(inner)) return true;
  }
  return false;
}

// A kernel on `buffers` gives the bytes `want` (sums in another order: within the case's
// tolerance).
inline void check_kernel(const kir::Kernel& kernel, const tile::Program& program, const TileCase& c,
                         const std::vector<std::vector<std::byte>>& buffers,
                         std::span<const std::span<std::byte>> want, uint32_t want_status,
                         const std::string& target) {
  const bool approximate = approximates(program.body);
  auto got = buffers;
  kir::RunArgs args;
  for (auto& bytes : got) args.buffers.emplace_back(bytes);
  for (const Dim& d : program.meta) args.meta.push_back(d.eval(c.symbols));
  uint32_t blocks = 1;
  for (int i = 0; i < 3; i++)
    blocks *= args.grid[i] = static_cast<uint32_t>(program.grid[i].eval(c.symbols));
  EXPECT_EQ(kir::interpret(kernel, args, 0, blocks), want_status) << target;
  for (size_t i = 0; i < got.size() && want_status == 0; i++) {
    const DType d = program.buffers[i].dtype;
    const int64_t size = byte_size(d);
    int failures = 0;
    for (int64_t e = 0; (e + 1) * size <= static_cast<int64_t>(got[i].size()); e++) {
      uint64_t g = 0, w = 0;
      std::memcpy(&g, got[i].data() + e * size, static_cast<size_t>(size));
      std::memcpy(&w, want[i].data() + e * size, static_cast<size_t>(size));
      if (g == w) continue;
      const double x = ir::to_double(g, d), y = ir::to_double(w, d);
      if (std::isnan(x) && std::isnan(y)) continue;
      const double tolerance =
          approximate ? std::max(c.tolerance, byte_size(d) == 2 ? 0.01 : 1e-6) : c.tolerance;
      if (tolerance > 0 && std::abs(x - y) <= tolerance * std::max(1.0, std::abs(y))) continue;
      if (++failures < 4)
        ADD_FAILURE() << "lowered for " << target << ": " << program.buffers[i].name << "[" << e
                      << "] is " << x << ", not " << y;
    }
    if (failures > 0 && std::getenv("POOT_SHOW_KIR")) ADD_FAILURE() << kernel.str();
  }
}

// The program lowered for each vector width gives the tile interpreter's bytes. `buffers`: as
// before the run; `want`: as after it.
inline void check_lowered(const tile::Program& program, const TileCase& c,
                          const std::vector<std::vector<std::byte>>& buffers,
                          std::span<const std::span<std::byte>> want, uint32_t want_status) {
  for (const char* cpu : {"x86-64-v4", "x86-64-v3"})
    check_kernel(codegen::lower(program, Target::parse(cpu)), program, c, buffers, want,
                 want_status, cpu);
}

// The same request as a kernel of a GPU: another tile program, the same bytes.
inline void check_gpu(const passes::KernelRequest& request, const TileCase& c,
                      const std::vector<std::vector<std::byte>>& buffers,
                      std::span<const std::span<std::byte>> want, uint32_t want_status) {
  const Target gpu = Target::parse("sm_90a");
  try {
    const tile::Program program = codegen::generate(request, gpu);
    SCOPED_TRACE(program.str());
    TileCase other = c;
    other.tolerance = std::max(c.tolerance, c.gpu_tolerance);
    check_kernel(codegen::lower(program, gpu), program, other, buffers, want, want_status, gpu.cpu);
  } catch (const Unsupported& e) {
    const bool every = request.kind == passes::RequestKind::Elementwise ||
                       request.kind == passes::RequestKind::Row ||
                       request.kind == passes::RequestKind::Scan;
    if (every && !c.cpu_only) ADD_FAILURE() << e.what();
  }
}

// Returns the program, for further checks.
inline tile::Program run_tile_case(const TileCase& c) {
  SCOPED_TRACE(c.graph);
  const passes::KernelRequest request = make_request(c);
  const ir::Graph& body = *request.body;
  tile::Program program = codegen::generate(request, Target::parse("x86-64-v4"));
  const std::string text = program.str();
  SCOPED_TRACE(text);
  EXPECT_EQ(tile::parse_program(text).str(), text);

  std::mt19937_64 rng(7);
  std::vector<ir::HostArray> arrays;
  std::vector<Memory> memory;
  for (size_t i = 0; i < body.inputs().size(); i++) {
    const ir::TensorType& type = body.type(body.inputs()[i]);
    arrays.push_back(random_array(type, c, rng));
    memory.emplace_back(type, request.inputs[i], c.symbols);
    memory.back().put(arrays.back());
    arrays.back() = memory.back().get();  // elements may share memory (stride 0)
  }
  const bool in_place = c.kind == passes::RequestKind::Scatter;
  for (size_t i = 0; i < body.outputs().size(); i++) {
    memory.emplace_back(body.type(body.outputs()[i].value), request.outputs[i], c.symbols);
    if (in_place) memory.back().put(arrays[0]);
  }
  std::vector<std::vector<std::byte>> before;
  std::vector<std::span<std::byte>> spans;
  for (size_t i = in_place ? 1 : 0; i < memory.size(); i++) {
    before.push_back(memory[i].bytes);
    spans.push_back(memory[i].bytes);
  }
  const uint32_t status = tile::interpret(program, spans, c.symbols);
  EXPECT_EQ(status, c.status);
  check_lowered(program, c, before, spans, status);
  check_gpu(request, c, before, spans, status);
  if (c.status != 0 || status != 0) return program;

  const auto want = ir::evaluate(body, arrays, c.symbols);
  for (size_t i = 0; i < want.size(); i++) {
    Memory& out = memory[body.inputs().size() + i];
    expect_equal(out.get(), want[i], c, "output " + std::to_string(i));
    out.put(want[i]);
    // Nothing between the elements was written.
    Memory expected(body.type(body.outputs()[i].value), request.outputs[i], c.symbols);
    expected.put(want[i]);
    EXPECT_EQ(out.bytes, expected.bytes) << "output " << i << ": bytes between elements";
  }
  return program;
}

}  // namespace poot::testing
