// The artifact cache on disk: one checksummed file an artifact, named by its key.
//
// Many processes may use one directory at once without locks: a file is written under a private
// name and published by rename; a reader takes what is whole and ignores the rest. Nothing that
// lies in the directory can make the process fail. Since the files hold code, a directory or file
// that another user owns or may write is refused. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/hash.h"

namespace poot::runtime {

class ArtifactCache {
 public:
  static constexpr uint64_t kLimitBytes = uint64_t{512} << 20;
  static constexpr uint64_t kFileBytes = 16 << 10;  // a file counts as this much at least

  // An empty directory name: no cache. Otherwise created if it does not exist; unusable: no cache,
  // and an event that says why.
  explicit ArtifactCache(std::string directory, uint64_t limit_bytes = kLimitBytes);
  ~ArtifactCache();
  ArtifactCache(const ArtifactCache&) = delete;
  ArtifactCache& operator=(const ArtifactCache&) = delete;

  bool enabled() const;
  const std::string& directory() const { return directory_; }
  std::optional<std::string> load(const Hash128& key);
  // False if it could not be written (disk full, directory gone); the cache stays usable.
  bool store(const Hash128& key, std::string_view bytes);
  // What went wrong since the last call.
  std::vector<std::string> take_events();

  // Around a fork, so that the child finds the cache consistent.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  // POOT_CACHE_DIR, else poot under XDG_CACHE_HOME or the home directory's .cache; empty under
  // POOT_NO_CACHE or without a home.
  static std::string default_directory();

 private:
  int open_directory();
  void event(std::string text);
  bool write_file(const std::string& name, std::string_view header, std::string_view bytes);
  void trim();

  std::string directory_;
  uint64_t limit_bytes_;
  mutable std::mutex mutex_;
  int fd_ = -1;
  std::optional<uint64_t> total_bytes_;  // in the directory; unknown until the first store
  uint64_t serial_ = 0;
  std::vector<std::string> events_;
};

}  // namespace poot::runtime
