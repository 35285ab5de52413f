// Runs the kernel of a request for one processor against the tile program and the oracle.
#pragma once

#include "tile_harness.h"

namespace poot::testing {

// On a processor with instructions for bf16: the tile program gives what the oracle gives, and the
// lowered kernel, which must use `instruction`, what the tile program gives.
inline void run_native(const TileCase& c, const char* instruction,
                       const char* cpu = "sapphirerapids") {
  SCOPED_TRACE(c.graph);
  const auto request = make_request(c);
  const ir::Graph& body = *request.body;
  const Target target = Target::parse(cpu);
  const tile::Program program = codegen::generate(request, target);
  std::mt19937_64 rng(3);
  std::vector<ir::HostArray> arrays;
  std::vector<Memory> memory;
  for (const ir::ValueId v : body.inputs()) {
    memory.emplace_back(body.type(v), request.inputs[arrays.size()], c.symbols);
    arrays.push_back(random_array(body.type(v), c, rng));
    memory.back().put(arrays.back());
  }
  for (size_t i = 0; i < body.outputs().size(); ++i)
    memory.emplace_back(body.type(body.outputs()[i].value), request.outputs[i], c.symbols);
  std::vector<std::vector<std::byte>> before;
  std::vector<std::span<std::byte>> spans;
  for (Memory& m : memory) {
    before.push_back(m.bytes);
    spans.push_back(m.bytes);
  }
  tile::interpret(program, spans, c.symbols);
  const kir::Kernel kernel = codegen::lower(program, target);
  EXPECT_NE(kernel.str().find(instruction), std::string::npos);
  check_kernel(kernel, program, c, before, spans, 0, target.cpu);
  const auto want = ir::evaluate(body, arrays, c.symbols);
  for (size_t i = 0; i < want.size(); ++i)
    expect_equal(memory[arrays.size() + i].get(), want[i], c, "output " + std::to_string(i));
}

}  // namespace poot::testing
