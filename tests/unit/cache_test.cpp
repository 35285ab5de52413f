// The artifact cache against everything that can lie on a disk.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "runtime/artifact_cache.h"

namespace poot::runtime {
namespace {

namespace fs = std::filesystem;

class Cache : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/poot_cache_test_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
  }
  void TearDown() override {
    ::chmod(dir_.c_str(), 0700);
    std::error_code ignored;
    fs::remove_all(dir_, ignored);
  }
  fs::path file(const Hash128& key) const { return fs::path(dir_) / (key.hex() + ".kernel"); }
  static std::string read(const fs::path& p) {
    std::ifstream in(p, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const fs::path& p, const std::string& bytes) {
    std::ofstream(p, std::ios::binary | std::ios::trunc) << bytes;
    ::chmod(p.c_str(), 0600);
  }
  std::string dir_;
  const Hash128 key_ = content_hash("a kernel");
  const std::string bytes_ = std::string(3000, 'k') + "end";
};

TEST_F(Cache, StoresAndLoads) {
  ArtifactCache cache(dir_);
  EXPECT_TRUE(cache.enabled());
  EXPECT_FALSE(cache.load(key_));
  EXPECT_TRUE(cache.store(key_, bytes_));
  EXPECT_EQ(cache.load(key_), bytes_);
  EXPECT_EQ(ArtifactCache(dir_).load(key_), bytes_);
  EXPECT_FALSE(cache.load(content_hash("another")));
  EXPECT_TRUE(cache.take_events().empty());
}

TEST_F(Cache, CreatesItsDirectoryPrivate) {
  const std::string deep = dir_ + "/a/b/c";
  ArtifactCache cache(deep);
  EXPECT_TRUE(cache.store(key_, bytes_));
  struct stat s{};
  ASSERT_EQ(::stat(deep.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0700u);
}

TEST_F(Cache, IgnoresAndRewritesDamage) {
  ArtifactCache cache(dir_);
  ASSERT_TRUE(cache.store(key_, bytes_));
  const std::string good = read(file(key_));
  for (size_t at = 0; at < good.size(); at += at < 64 ? 1 : 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    write(file(key_), bad);
    EXPECT_FALSE(cache.load(key_)) << "byte " << at;
  }
  EXPECT_FALSE(cache.take_events().empty());
  for (size_t size : {size_t{0}, size_t{7}, size_t{40}, size_t{100}, good.size() - 1}) {
    write(file(key_), good.substr(0, size));
    EXPECT_FALSE(cache.load(key_)) << "size " << size;
  }
  write(file(key_), good + "tail");
  EXPECT_FALSE(cache.load(key_));
  // Another kernel's file under this name.
  ASSERT_TRUE(cache.store(content_hash("another"), bytes_));
  write(file(key_), read(file(content_hash("another"))));
  EXPECT_FALSE(cache.load(key_));
  EXPECT_TRUE(cache.store(key_, bytes_));
  EXPECT_EQ(cache.load(key_), bytes_);
}

TEST_F(Cache, ToleratesWhatIsNotAFile) {
  ArtifactCache cache(dir_);
  fs::create_directory(file(key_));
  EXPECT_FALSE(cache.load(key_));
  EXPECT_FALSE(cache.store(key_, bytes_));  // rename onto a directory
  fs::remove(file(key_));
  ASSERT_EQ(::mkfifo(file(key_).c_str(), 0600), 0);
  EXPECT_FALSE(cache.load(key_));
  fs::remove(file(key_));
  const std::string elsewhere = dir_ + "/elsewhere";
  ASSERT_TRUE(cache.store(key_, bytes_));
  fs::rename(file(key_), elsewhere);
  fs::create_symlink(elsewhere, file(key_));
  EXPECT_FALSE(cache.load(key_));
  EXPECT_TRUE(cache.store(key_, bytes_));  // replaces the link
  EXPECT_EQ(cache.load(key_), bytes_);
  EXPECT_FALSE(cache.take_events().empty());
}

TEST_F(Cache, RefusesDirectoriesAndFilesThatOthersWrite) {
  {
    ArtifactCache cache(dir_);
    ASSERT_TRUE(cache.store(key_, bytes_));
    ::chmod(file(key_).c_str(), 0666);
    EXPECT_FALSE(cache.load(key_));
    ::chmod(file(key_).c_str(), 0644);
    EXPECT_TRUE(cache.load(key_));
  }
  for (mode_t mode : {0770, 0707, 0777}) {
    ::chmod(dir_.c_str(), mode);
    ArtifactCache cache(dir_);
    EXPECT_FALSE(cache.enabled());
    EXPECT_FALSE(cache.load(key_));
    EXPECT_FALSE(cache.store(key_, bytes_));
    const auto events = cache.take_events();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_NE(events[0].find("cache disabled"), std::string::npos);
  }
}

TEST_F(Cache, UnusableDirectoryIsNoCache) {
  write(dir_ + "/plain", "a file");
  ArtifactCache cache(dir_ + "/plain/sub");
  EXPECT_FALSE(cache.enabled());
  EXPECT_FALSE(cache.store(key_, bytes_));
  EXPECT_FALSE(ArtifactCache("").enabled());
  EXPECT_TRUE(ArtifactCache("").take_events().empty());
}

TEST_F(Cache, FullDiskIsToleratedAndLeavesNoDraft) {
  ArtifactCache cache(dir_);
  // A file size limit fails the write as a full disk would; in a child, since it is for a process.
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const bool stored = cache.store(key_, bytes_);
    ::_exit(!stored && !cache.load(key_) && !cache.take_events().empty() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::is_empty(dir_));
}

TEST_F(Cache, RemovedDirectoryComesBack) {
  const std::string sub = dir_ + "/sub";
  ArtifactCache cache(sub);
  ASSERT_TRUE(cache.store(key_, bytes_));
  fs::remove_all(sub);
  EXPECT_FALSE(cache.load(key_));
  EXPECT_TRUE(cache.store(key_, bytes_));
  EXPECT_EQ(cache.load(key_), bytes_);
}

TEST_F(Cache, StaysUnderItsLimitOldestFirst) {
  constexpr uint64_t kFiles = 10, kLimit = kFiles * ArtifactCache::kFileBytes;
  ArtifactCache cache(dir_, kLimit);
  write(dir_ + "/.draft-1-1-x", std::string(500, 'x'));
  const timespec old[2] = {{1'000'000, 0}, {1'000'000, 0}};
  ::utimensat(AT_FDCWD, (dir_ + "/.draft-1-1-x").c_str(), old, 0);
  write(dir_ + "/README", "not ours");
  for (int i = 0; i < 40; ++i) {
    const Hash128 key = content_hash("kernel " + std::to_string(i));
    ASSERT_TRUE(cache.store(key, bytes_));
    const timespec at[2] = {{2'000'000 + i, 0}, {2'000'000 + i, 0}};
    ::utimensat(AT_FDCWD, file(key).c_str(), at, 0);
    uint64_t kernels = 0;
    for (const auto& e : fs::directory_iterator(dir_)) kernels += e.path().extension() == ".kernel";
    EXPECT_LE(kernels, kFiles);
  }
  EXPECT_FALSE(fs::exists(dir_ + "/.draft-1-1-x"));
  EXPECT_TRUE(fs::exists(dir_ + "/README"));
  EXPECT_TRUE(cache.load(content_hash("kernel 39")));
  EXPECT_FALSE(cache.load(content_hash("kernel 0")));
}

TEST_F(Cache, ManyWritersAndReadersAtOnce) {
  const auto work = [&](unsigned seed) {
    ArtifactCache cache(dir_);
    for (unsigned i = 0; i < 200; ++i) {
      const unsigned n = (seed * 31 + i) % 7;
      const Hash128 key = content_hash("shared " + std::to_string(n));
      const std::string want(1000 + 500 * n, static_cast<char>('a' + n));
      if (const auto got = cache.load(key); got && *got != want) return false;
      if (i % 3 == 0 && !cache.store(key, want)) return false;
    }
    return cache.take_events().empty();
  };
  std::vector<pid_t> children;
  for (unsigned c = 0; c < 3; ++c) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work(c) ? 0 : 1);
    children.push_back(child);
  }
  EXPECT_TRUE(work(9));
  for (pid_t c : children) {
    int status = 1;
    ::waitpid(c, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (const auto& e : fs::directory_iterator(dir_))
    EXPECT_FALSE(e.path().filename().string().starts_with(".draft-"));
}

}  // namespace
}  // namespace poot::runtime
