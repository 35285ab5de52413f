// poot-opt: text in, text out. Parses a file of graphs, runs passes, prints; or parses, verifies
// and prints a tile program or a KIR kernel. `-` is standard input.
//
//   poot-opt [--passes a,b | --all] [--target NAME] [--verify-only] [--print]
//            [--evaluate [--seed N]] FILE
//   poot-opt --tile FILE     poot-opt --kir FILE
//   poot-opt --lower [--tile] [--target NAME] FILE
//   poot-opt --kernels [--target NAME] FILE
//   poot-opt --constraints   every constraint id of graphs, their edits and their text, one a line
//   poot-opt --list-passes
//
// The graph is printed unless --verify-only or --evaluate is given; --print prints it with these.
// --evaluate runs the oracle on seeded random inputs of the hint sizes and prints, as comments,
// each output's type, hash and first elements; with passes, also how far the results before and
// after them lie apart. --lower takes each graph as the body of one request (Contraction
// if it has a product, Row if it reduces, else Elementwise) with contiguous operands and prints the
// target's KIR; with --tile its tile program. --kernels runs all passes, plans, and prints the KIR
// of each kernel of the plan, or why there is none. Faults go to standard error, exit status 1.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <random>
#include <set>
#include <sstream>

#include "codegen/codegen.h"
#include "codegen/kir/kir.h"
#include "codegen/tile/tile.h"
#include "ir/graph.h"
#include "ir/oracle.h"
#include "ir/scalar_eval.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "passes/plan.h"
#include "support/errors.h"

namespace poot {
namespace {

struct Usage : Error {
  using Error::Error;
};

struct Command {
  enum class Form { Graph, Tile, Kir, Constraints, ListPasses } form = Form::Graph;
  std::vector<std::string> passes;
  bool all = false, verify_only = false, print = false, evaluate = false, lower = false,
       kernels = false;
  uint64_t seed = 0;
  std::string target, file;
  bool optimises() const { return all || !passes.empty(); }
  bool prints() const { return print || !(verify_only || evaluate); }
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::stringstream in(list);
  for (std::string word; std::getline(in, word, ',');)
    if (!word.empty()) words.push_back(word);
  return words;
}

uint64_t number(const std::string& text) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != text.npos)
    throw Usage("--seed takes a number, not '" + text + "'");
  return std::stoull(text);
}

Command read_command(int argc, char** argv) {
  Command c;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    auto value = [&] {
      if (i + 1 == argc) throw Usage(arg + " takes a value");
      return std::string(argv[++i]);
    };
    if (arg == "--passes")
      c.passes = split(value());
    else if (arg == "--all")
      c.all = true;
    else if (arg == "--target")
      c.target = value();
    else if (arg == "--verify-only")
      c.verify_only = true;
    else if (arg == "--print")
      c.print = true;
    else if (arg == "--evaluate")
      c.evaluate = true;
    else if (arg == "--seed")
      c.seed = number(value());
    else if (arg == "--tile")
      c.form = Command::Form::Tile;
    else if (arg == "--kir")
      c.form = Command::Form::Kir;
    else if (arg == "--lower")
      c.lower = true;
    else if (arg == "--kernels")
      c.kernels = true;
    else if (arg == "--constraints")
      c.form = Command::Form::Constraints;
    else if (arg == "--list-passes")
      c.form = Command::Form::ListPasses;
    else if (arg.size() > 1 && arg[0] == '-')
      throw Usage("there is no option " + arg);
    else if (!c.file.empty())
      throw Usage("one file at a time");
    else
      c.file = arg;
  }
  const bool reads = c.form != Command::Form::Constraints && c.form != Command::Form::ListPasses;
  if (reads && c.file.empty()) throw Usage("name a file, or - for standard input");
  return c;
}

std::string read_text(const std::string& file) {
  std::stringstream text;
  if (file == "-") {
    text << std::cin.rdbuf();
  } else {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw Usage("cannot read " + file);
    text << in.rdbuf();
  }
  return text.str();
}

// Values that exercise signs and magnitudes without overflowing f16; indices stay small.
ir::HostArray random_array(const ir::TensorType& type, const SymbolTable& symbols,
                           std::mt19937_64& rng) {
  std::vector<int64_t> shape;
  for (const Dim& d : type.shape) shape.push_back(d.hint(symbols));
  ir::HostArray a = ir::HostArray::zeros(type.dtype, std::move(shape));
  for (int64_t i = 0; i < a.numel(); ++i) {
    const uint64_t r = rng();
    if (is_float(type.dtype))
      a.set_bits(i, ir::from_double(static_cast<double>(r % 8001) / 2000.0 - 2.0, type.dtype));
    else if (!is_complex(type.dtype))
      a.set_bits(i, ir::from_int(static_cast<int64_t>(r % (type.dtype == DType::Bool ? 2 : 4)),
                                 type.dtype));
  }
  return a;
}

std::vector<ir::HostArray> run_oracle(const ir::Graph& graph, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<ir::HostArray> inputs;
  for (ir::ValueId v : graph.inputs())
    inputs.push_back(random_array(graph.type(v), graph.symbols(), rng));
  std::vector<int64_t> sizes;
  for (const Symbol& s : graph.symbols()) sizes.push_back(s.hint);
  return ir::evaluate(graph, inputs, sizes);
}

void print_results(const ir::Graph& graph, const std::vector<ir::HostArray>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const ir::HostArray& a = results[i];
    const std::string_view bytes(reinterpret_cast<const char*>(a.data.data()), a.data.size());
    std::printf("# @%s output %zu: %s %s", graph.name().c_str(), i,
                graph.type(graph.outputs()[i].value).str().c_str(),
                content_hash(bytes).hex().c_str());
    for (int64_t k = 0; k < std::min<int64_t>(a.numel(), 8) && !is_complex(a.dtype); ++k)
      std::printf(" %.9g", ir::to_double(a.bits(k), a.dtype));
    std::printf("\n");
  }
}

// The largest difference between two results, relative to the larger of 1 and the expected value.
double distance(const ir::HostArray& a, const ir::HostArray& b) {
  double most = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    if (a.bits(i) == b.bits(i)) continue;
    const double x = ir::to_double(a.bits(i), a.dtype), y = ir::to_double(b.bits(i), b.dtype);
    if (std::isnan(x) && std::isnan(y)) continue;
    const double d = std::abs(x - y) / std::max(1.0, std::abs(x));
    most = std::isnan(d) ? HUGE_VAL : std::max(most, d);
  }
  return most;
}

void run_graph(const Command& c, ir::Graph graph) {
  std::vector<ir::HostArray> before;
  if (c.evaluate) before = run_oracle(graph, c.seed);
  if (c.optimises()) {
    const Target target = c.target.empty() ? Target::host() : Target::parse(c.target);
    passes::PassContext context{.target = target};
    if (c.all)
      passes::run_passes(graph, context);
    else
      passes::run_passes(graph, context, c.passes);
  }
  if (c.prints()) std::fputs(graph.str().c_str(), stdout);
  if (!c.evaluate) return;
  const std::vector<ir::HostArray> after = c.optimises() ? run_oracle(graph, c.seed) : before;
  print_results(graph, after);
  if (!c.optimises()) return;
  double most = 0;
  for (size_t i = 0; i < before.size(); ++i) most = std::max(most, distance(before[i], after[i]));
  std::printf("# @%s difference: %g\n", graph.name().c_str(), most);
}

void lower_graph(const Command& c, const ir::Graph& graph) {
  const Target target = c.target.empty() ? Target::host() : Target::parse(c.target);
  passes::KernelRequest request;
  const auto has = [&](ir::OpKind kind) {
    return std::ranges::any_of(graph.eqns(),
                               [&](const ir::Eqn& e) { return e.info().kind == kind; });
  };
  request.kind = has(ir::OpKind::Contraction) ? passes::RequestKind::Contraction
                 : has(ir::OpKind::Reduce)    ? passes::RequestKind::Row
                                              : passes::RequestKind::Elementwise;
  request.name = graph.name();
  request.body = std::make_shared<const ir::Graph>(graph);
  for (const ir::ValueId v : graph.inputs())
    request.inputs.push_back(ir::Layout::contiguous(graph.type(v).shape));
  for (const auto& o : graph.outputs())
    request.outputs.push_back(ir::Layout::contiguous(graph.type(o.value).shape));
  const tile::Program program = codegen::generate(request, target);
  const bool tiles = c.form == Command::Form::Tile;
  std::fputs((tiles ? program.str() : codegen::lower(program, target).str()).c_str(), stdout);
}

void print_kernels(const Command& c, ir::Graph graph) {
  const Target target = c.target.empty() ? Target::host() : Target::parse(c.target);
  passes::PassContext context{.target = target};
  passes::run_passes(graph, context);
  const passes::PlanResult plan = passes::plan(graph, passes::default_signature(graph), context);
  for (const passes::KernelRequest& request : plan.requests) {
    try {
      const std::string text = codegen::lower(codegen::generate(request, target), target).str();
      std::printf("%s\n", text.c_str());
    } catch (const Unsupported& e) {
      std::printf("# %s\n", e.what());
    }
  }
}

void list_constraints() {
  std::set<std::string> ids;
  for (const ir::Rule& rule : ir::graph_rules()) ids.emplace(rule.id);
  for (int i = 0; i < ir::kOpCount; ++i)
    for (std::string& id : split(std::string(ir::op_info(static_cast<ir::OpCode>(i)).constraints)))
      ids.insert(std::move(id));
  for (const std::string& id : ids) std::printf("%s\n", id.c_str());
}

void run(const Command& c) {
  if (c.kernels) {
    for (ir::Graph& g : ir::parse_graphs(read_text(c.file))) print_kernels(c, std::move(g));
    return;
  }
  if (c.lower) {
    for (bool first = true; const ir::Graph& g : ir::parse_graphs(read_text(c.file))) {
      if (!std::exchange(first, false)) std::printf("\n");
      lower_graph(c, g);
    }
    return;
  }
  switch (c.form) {
    case Command::Form::Constraints:
      return list_constraints();
    case Command::Form::ListPasses:
      for (const passes::PassInfo& p : passes::all_passes())
        std::printf("%s\t%s\n", std::string(p.name).c_str(), std::string(p.doc).c_str());
      return;
    case Command::Form::Tile: {
      const tile::Program p = tile::parse_program(read_text(c.file));
      tile::verify_or_throw(p);
      if (c.prints()) std::fputs(p.str().c_str(), stdout);
      return;
    }
    case Command::Form::Kir: {
      const kir::Kernel k = kir::parse_kernel(read_text(c.file));
      kir::verify_or_throw(k);
      if (c.prints()) std::fputs(k.str().c_str(), stdout);
      return;
    }
    case Command::Form::Graph:
      for (bool first = true; ir::Graph& g : ir::parse_graphs(read_text(c.file))) {
        if (!std::exchange(first, false) && c.prints()) std::printf("\n");
        run_graph(c, std::move(g));
      }
  }
}

}  // namespace
}  // namespace poot

int main(int argc, char** argv) {
  try {
    poot::run(poot::read_command(argc, argv));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "poot-opt: %s\n", e.what());
    return 1;
  }
}
