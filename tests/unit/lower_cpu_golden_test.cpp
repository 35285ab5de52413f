// tests/codegen/lower/*.tile: a tile program with directives in comments.
//
//   # run: s0=100 x=300 out=300     symbols and buffer sizes of one run (any number of lines)
//   # ulp: 16                       how far the KIR may be from the tile program (sums reorder)
//   # check: TEXT, # check-not: TEXT   what the KIR must or must not contain
//
// Each run compares the tile interpreter with the KIR interpreter and, where the worker was built,
// the KIR interpreter with machine code bit for bit.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "lower_cpu_test.h"
#include "runtime/kernel_store.h"
#include "source_dir.h"

namespace poot::lowering_test {
namespace {

namespace fs = std::filesystem;

struct Golden {
  std::string text;
  std::vector<std::map<std::string, int64_t>> runs;
  std::vector<std::string> present, absent;
  double ulp = 0;

  explicit Golden(const fs::path& file) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line); text += line + "\n") {
      std::istringstream words(line);
      std::string hash, key, rest;
      words >> hash >> key;
      if (hash != "#") continue;
      std::getline(words >> std::ws, rest);
      if (key == "check:") present.push_back(rest);
      if (key == "check-not:") absent.push_back(rest);
      if (key == "ulp:") ulp = std::stod(rest);
      if (key != "run:") continue;
      std::istringstream items(rest);
      auto& run = runs.emplace_back();
      for (std::string item; items >> item;) {
        const size_t eq = item.find('=');
        run[item.substr(0, eq)] = std::stoll(item.substr(eq + 1));
      }
    }
  }
};

runtime::KernelStore* store() {
  static runtime::KernelStore* s = []() -> runtime::KernelStore* {
    runtime::KernelStore::Options o;
    const char* given = std::getenv("POOT_KERNELC");
    o.worker_path = given ? given : source_dir() + "/poot_torch/bin/poot-kernelc";
    __builtin_cpu_init();
    const bool v4 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    return v4 && fs::exists(o.worker_path) ? new runtime::KernelStore(o) : nullptr;
  }();
  return s;
}

// Machine code on copies of the buffers that begin at a cache line.
Outcome run_native(const tile::Program& p, const kir::Kernel& k, const std::vector<Data>& data,
                   std::span<const int64_t> symbols) {
  const auto artifact = store()->get(k.str(), Target::parse("x86-64-v4")).get();
  Outcome o;
  o.buffers = data;
  std::vector<void*> buffers;
  for (const Data& d : data) {
    buffers.push_back(std::aligned_alloc(64, (d.bytes.size() / 64 + 1) * 64));
    std::copy(d.bytes.begin(), d.bytes.end(), static_cast<std::byte*>(buffers.back()));
  }
  std::vector<int64_t> meta;
  for (const Dim& d : p.meta) meta.push_back(d.eval(symbols));
  program::Args args{buffers.data(), meta.data(), &o.status, {}};
  uint32_t blocks = 1;
  for (int i = 0; i < 3; ++i)
    blocks *= args.grid[i] = static_cast<uint32_t>(p.grid[i].eval(symbols));
  artifact.image->entry()(&args, 0, blocks);
  for (size_t i = 0; i < data.size(); ++i) {
    std::copy_n(static_cast<std::byte*>(buffers[i]), data[i].bytes.size(),
                o.buffers[i].bytes.begin());
    std::free(buffers[i]);
  }
  return o;
}

class LowerCpuGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(LowerCpuGolden, File) {
  const std::string file = source_dir() + "/tests/codegen/lower/" + GetParam() + ".tile";
  const Golden golden(file);
  ASSERT_FALSE(golden.runs.empty()) << file;
  const tile::Program p = tile::parse_program(golden.text);
  const kir::Kernel k = codegen::lower_cpu(p, cpu_target());
  const std::string text = k.str();
  for (const std::string& s : golden.present)
    EXPECT_NE(text.find(s), std::string::npos) << "missing: " << s << "\n" << text;
  for (const std::string& s : golden.absent)
    EXPECT_EQ(text.find(s), std::string::npos) << "present: " << s << "\n" << text;
  for (const auto& run : golden.runs) {
    std::vector<int64_t> symbols;
    for (int i = 0; run.contains("s" + std::to_string(i)) || run.contains("s1"); ++i) {
      const auto it = run.find("s" + std::to_string(i));
      if (it == run.end() && i > 0) break;
      symbols.push_back(it == run.end() ? 0 : it->second);
    }
    std::vector<Data> data;
    for (const tile::Buffer& b : p.buffers)
      data.push_back(Data::random(b.dtype, run.at(b.name), static_cast<uint32_t>(data.size() + 1)));
    const Outcome tiles = run_tiles(p, data, symbols), lanes = run_kir(p, k, data, symbols);
    expect_equal(tiles, lanes, golden.ulp, GetParam());
    if (store() != nullptr)
      expect_equal(lanes, run_native(p, k, data, symbols), 0, GetParam() + " as machine code");
  }
}

std::vector<std::string> files() {
  std::vector<std::string> out;
  for (const auto& f : fs::directory_iterator(source_dir() + "/tests/codegen/lower"))
    if (f.path().extension() == ".tile") out.push_back(f.path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

INSTANTIATE_TEST_SUITE_P(Files, LowerCpuGolden, ::testing::ValuesIn(files()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace poot::lowering_test
