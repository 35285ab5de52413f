// The kernels under tests/codegen/kir: those with "# error: id" on a line fail there with that id,
// the others print as they are written. Those named math_… are what the math library emits.
#include <filesystem>

#include "codegen/math/math.h"
#include "golden.h"
#include "source_dir.h"

namespace poot::kir {
namespace {

std::string read(const std::filesystem::path& p) {
  std::ifstream in(p, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

struct Section {
  int line = 0;  // of the file, before its first
  std::string text;
};

std::vector<Section> kernels(const std::string& text) {
  std::vector<Section> all;
  std::istringstream in(text);
  int n = 0;
  for (std::string line; std::getline(in, line); ++n) {
    if (line.starts_with("kernel")) all.push_back({n, ""});
    if (!all.empty() && !line.empty()) all.back().text += line + "\n";
  }
  return all;
}

// Line of the kernel that says "# error: id", and the id; 0 if none.
std::pair<int, std::string> expected_error(const std::string& text) {
  std::istringstream in(text);
  int n = 1;
  for (std::string line; std::getline(in, line); ++n) {
    const std::string mark = "# error: ";
    if (const size_t at = line.find(mark); at != std::string::npos)
      return {n, line.substr(at + mark.size())};
  }
  return {0, ""};
}

TEST(KirGolden, FilesPrintAsTheyAreWritten) {
  std::vector<std::filesystem::path> files;
  for (const auto& e : std::filesystem::directory_iterator(source_dir() + "/tests/codegen/kir"))
    if (e.path().extension() == ".kir") files.push_back(e.path());
  std::sort(files.begin(), files.end());
  ASSERT_GE(files.size(), 3u);
  for (const auto& file : files) {
    for (const Section& s : kernels(read(file))) {
      const std::string where = file.filename().string() + ":" + std::to_string(s.line + 1);
      const auto [line, id] = expected_error(s.text);
      try {
        EXPECT_EQ(parse_kernel(s.text).str(), s.text) << where;
        EXPECT_EQ(line, 0) << where << " should break " << id;
      } catch (const InvalidGraph& e) {
        EXPECT_EQ(e.constraint(), id) << where << ": " << e.what();
        EXPECT_TRUE(e.where().starts_with(std::to_string(line) + ":")) << where << ": " << e.what();
      }
    }
  }
}

std::string math_text(ir::OpCode op, Isa isa, uint16_t lanes) {
  Kernel k;
  k.name = std::string(ir::op_info(op).name);
  k.isa = isa;
  KirBuilder b(k);
  const ObjectId x = b.add_object({.name = "x"});
  const ObjectId y = b.add_object({.name = "y", .writable = true});
  const ValueId at = b.block_id(0);
  const ValueId in[] = {b.load(x, {Elem::F32, lanes}, at)};
  const ValueId out = math::emit(b, op, in, true);
  b.store(y, at, out);
  verify_or_throw(k);
  return k.str();
}

TEST(KirGolden, MathFunctions) {
  poot::testing::expect_golden("codegen/kir/math_exp_x86.kir",
                               math_text(ir::OpCode::exp, Isa::X86, 16));
  poot::testing::expect_golden("codegen/kir/math_tanh_ptx.kir",
                               math_text(ir::OpCode::tanh, Isa::Ptx, 1));
  poot::testing::expect_golden("codegen/kir/math_sin_x86.kir",
                               math_text(ir::OpCode::sin, Isa::X86, 8));
}

}  // namespace
}  // namespace poot::kir
