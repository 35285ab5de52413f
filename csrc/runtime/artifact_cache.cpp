// File: magic, version, key, size, hash of the payload, payload. Every access goes through one
// directory descriptor that was checked when it was opened, so a directory swapped in later is
// never used. Reading marks a file as used once a day, and the trim removes the least recently
// used.
#include "runtime/artifact_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "support/bytes.h"
#include "support/env.h"

namespace poot::runtime {

namespace {

constexpr char kMagic[8] = {'P', 'O', 'O', 'T', 'A', 'R', 'T', '1'};
constexpr size_t kHeaderBytes = sizeof kMagic + 3 * sizeof(uint64_t) + sizeof(uint64_t);
constexpr int64_t kTouchSeconds = 24 * 3600;
constexpr int64_t kStaleSeconds = 3600;  // an unpublished file this old has lost its writer
constexpr uint64_t kMaxArtifactBytes = uint64_t{256} << 20;

// Small files cost a directory scan more than their bytes: the limit bounds their number too.
uint64_t counted(uint64_t bytes) {
  return std::max(bytes, ArtifactCache::kFileBytes);
}

std::string file_name(const Hash128& key) {
  return key.hex() + ".kernel";
}

std::string header_of(const Hash128& key, std::string_view bytes) {
  ByteWriter w;
  w.put(kMagic);
  w.put(key.lo);
  w.put(key.hi);
  w.put(static_cast<uint64_t>(bytes.size()));
  w.put(content_hash(bytes).lo);
  return w.take();
}

bool ours(const struct stat& s) {
  return s.st_uid == ::geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool make_directories(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    ::mkdir(path.substr(0, at).c_str(), 0755);
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::optional<std::string> read_whole(int fd, uint64_t size) {
  std::string bytes(size, '\0');
  for (size_t done = 0; done < size;) {
    const ssize_t n = ::read(fd, bytes.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    done += static_cast<size_t>(n);
  }
  return bytes;
}

}  // namespace

std::string ArtifactCache::default_directory() {
  using env::Var;
  if (env::flag(Var::POOT_NO_CACHE)) return "";
  if (std::string d = env::get(Var::POOT_CACHE_DIR); !d.empty()) return d;
  if (std::string d = env::get(Var::XDG_CACHE_HOME); !d.empty()) return d + "/poot";
  std::string home = env::get(Var::HOME);
  if (home.empty()) {
    char buffer[4096];
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(::geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found)
      home = found->pw_dir;
  }
  return home.empty() ? "" : home + "/.cache/poot";
}

ArtifactCache::ArtifactCache(std::string directory, uint64_t limit_bytes)
    : directory_(std::move(directory)), limit_bytes_(limit_bytes) {
  if (!directory_.empty()) fd_ = open_directory();
}

ArtifactCache::~ArtifactCache() {
  if (fd_ >= 0) ::close(fd_);
}

bool ArtifactCache::enabled() const {
  std::lock_guard lock(mutex_);
  return fd_ >= 0;
}

void ArtifactCache::event(std::string text) {
  if (events_.size() < 16) events_.push_back(std::move(text));
}

std::vector<std::string> ArtifactCache::take_events() {
  std::lock_guard lock(mutex_);
  return std::move(events_);
}

// A checked descriptor of the directory, or -1 and an event.
int ArtifactCache::open_directory() {
  if (!make_directories(directory_)) {
    event("cache disabled: cannot create " + directory_ + ": " + std::strerror(errno));
    return -1;
  }
  const int fd = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat s{};
  if (fd < 0 || ::fstat(fd, &s) != 0) {
    event("cache disabled: cannot open " + directory_ + ": " + std::strerror(errno));
    if (fd >= 0) ::close(fd);
    return -1;
  }
  if (!ours(s)) {
    event("cache disabled: " + directory_ +
          " belongs to another user or others may write to it (it holds code)");
    ::close(fd);
    return -1;
  }
  return fd;
}

std::optional<std::string> ArtifactCache::load(const Hash128& key) {
  std::lock_guard lock(mutex_);
  if (fd_ < 0) return std::nullopt;
  const std::string name = file_name(key);
  const Descriptor file{
      ::openat(fd_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  struct stat s{};
  if (file.fd < 0 || ::fstat(file.fd, &s) != 0) return std::nullopt;
  const auto size = static_cast<uint64_t>(s.st_size);
  if (!S_ISREG(s.st_mode) || !ours(s)) {
    event("cache: " + name + " is not a file of ours, ignored");
    return std::nullopt;
  }
  if (size < kHeaderBytes || size > kMaxArtifactBytes) {
    event("cache: " + name + " is truncated, ignored");
    return std::nullopt;
  }
  std::optional<std::string> bytes = read_whole(file.fd, size);
  if (!bytes) return std::nullopt;
  const std::string_view payload = std::string_view(*bytes).substr(kHeaderBytes);
  if (std::string_view(*bytes).substr(0, kHeaderBytes) != header_of(key, payload)) {
    event("cache: " + name + " is damaged, ignored");
    return std::nullopt;
  }
  if (s.st_mtime + kTouchSeconds < std::time(nullptr)) ::futimens(file.fd, nullptr);
  return std::string(payload);
}

bool ArtifactCache::write_file(const std::string& name, std::string_view header,
                               std::string_view bytes) {
  const Descriptor file{
      ::openat(fd_, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (file.fd < 0) return false;
  for (std::string_view part : {header, bytes})
    while (!part.empty()) {
      const ssize_t n = ::write(file.fd, part.data(), part.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      part.remove_prefix(static_cast<size_t>(n));
    }
  return true;
}

bool ArtifactCache::store(const Hash128& key, std::string_view bytes) {
  std::lock_guard lock(mutex_);
  if (fd_ < 0) return false;
  const std::string header = header_of(key, bytes);
  int error = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::string name = file_name(key);
    const std::string draft =
        ".draft-" + std::to_string(::getpid()) + "-" + std::to_string(serial_++) + "-" + name;
    if (write_file(draft, header, bytes) &&
        ::renameat(fd_, draft.c_str(), fd_, name.c_str()) == 0) {
      if (total_bytes_) *total_bytes_ += counted(header.size() + bytes.size());
      if (!total_bytes_ || *total_bytes_ > limit_bytes_) trim();
      return true;
    }
    error = errno;
    ::unlinkat(fd_, draft.c_str(), 0);
    if (error == EEXIST) continue;  // a draft of a dead process with our id
    if (error != ENOENT) break;
    // The directory was removed under us: make it again, once.
    const int fresh = open_directory();
    if (fresh < 0) break;
    ::close(fd_);
    fd_ = fresh;
    total_bytes_.reset();
  }
  event("cache: cannot write to " + directory_ + ": " + std::strerror(error));
  return false;
}

// Sums the directory up; over the limit, removes the least recently used until three quarters are
// left. Drafts whose writer is long gone go first.
void ArtifactCache::trim() {
  struct File {
    int64_t used;
    std::string name;
    uint64_t size;
  };
  std::vector<File> files;
  uint64_t total = 0;
  const int fd = ::openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* dir = fd >= 0 ? ::fdopendir(fd) : nullptr;
  if (!dir) {
    if (fd >= 0) ::close(fd);
    return;
  }
  const int64_t now = std::time(nullptr);
  while (const dirent* e = ::readdir(dir)) {
    const std::string name = e->d_name;
    struct stat s{};
    const bool draft = name.starts_with(".draft-");
    if (!draft && !name.ends_with(".kernel")) continue;
    if (::fstatat(fd_, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode)) continue;
    if (draft && s.st_mtime + kStaleSeconds < now) {
      ::unlinkat(fd_, name.c_str(), 0);
      continue;
    }
    const uint64_t size = counted(static_cast<uint64_t>(s.st_size));
    total += size;
    if (!draft) files.push_back({s.st_mtime, name, size});
  }
  ::closedir(dir);
  if (total > limit_bytes_) {
    std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
      return a.used != b.used ? a.used < b.used : a.name < b.name;
    });
    for (const File& f : files) {
      if (total <= limit_bytes_ / 4 * 3) break;
      if (::unlinkat(fd_, f.name.c_str(), 0) == 0) total -= f.size;
    }
  }
  total_bytes_ = total;
}

}  // namespace poot::runtime
