#include "runtime/nvjitlink.h"

#include <dlfcn.h>

#include <cstdint>

#include "support/errors.h"

namespace poot::runtime {

namespace {

using Handle = struct LinkOpaque*;
constexpr int kInputPtx = 2;

constexpr const char* kLoaded[] = {"libnvJitLink.so.13", "libnvJitLink.so.12"};

}  // namespace

struct NvJitLink::Functions {
  int (*version)(unsigned*, unsigned*);
  int (*create)(Handle*, uint32_t, const char**);
  int (*destroy)(Handle*);
  int (*add)(Handle, int kind, const void*, size_t, const char* name);
  int (*complete)(Handle);
  int (*cubin_size)(Handle, size_t*);
  int (*cubin)(Handle, void*);
  int (*log_size)(Handle, size_t*);
  int (*log)(Handle, char*);

  bool load(void* library) {
    const auto find = [library](const char* name, auto& function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    return find("nvJitLinkVersion", version) && find("nvJitLinkCreate", create) &&
           find("nvJitLinkDestroy", destroy) && find("nvJitLinkAddData", add) &&
           find("nvJitLinkComplete", complete) && find("nvJitLinkGetLinkedCubinSize", cubin_size) &&
           find("nvJitLinkGetLinkedCubin", cubin) && find("nvJitLinkGetErrorLogSize", log_size) &&
           find("nvJitLinkGetErrorLog", log);
  }
};

NvJitLink::NvJitLink(const Functions& functions)
    : functions_(std::make_shared<const Functions>(functions)) {
  unsigned major = 0, minor = 0;
  functions_->version(&major, &minor);
  version_ = std::to_string(major) + "." + std::to_string(minor);
}

std::unique_ptr<const NvJitLink> NvJitLink::open(const std::vector<std::string>& paths) {
  Functions functions{};
  for (const char* name : kLoaded)
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD); library && functions.load(library))
      return std::unique_ptr<const NvJitLink>(new NvJitLink(functions));
  for (const std::string& path : paths)
    if (void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        library && functions.load(library))
      return std::unique_ptr<const NvJitLink>(new NvJitLink(functions));
  return nullptr;
}

std::string NvJitLink::link(const std::string& ptx, const std::string& arch) const {
  const std::string option = "-arch=" + arch;
  const char* options[] = {option.c_str()};
  Handle handle = nullptr;
  if (const int status = functions_->create(&handle, 1, options); status != 0)
    throw CompileError("nvJitLink " + version_ + " takes no " + option + " (status " +
                           std::to_string(status) + ")",
                       ptx);
  const auto end = [&](Handle* h) { functions_->destroy(h); };
  const std::unique_ptr<Handle, decltype(end)> ends(&handle, end);
  const auto require = [&](int status, const char* what) {
    if (status == 0) return;
    std::string log;
    size_t size = 0;
    if (functions_->log_size(handle, &size) == 0 && size > 1) {
      log.resize(size);
      functions_->log(handle, log.data());
      log.resize(size - 1);
    }
    throw CompileError(std::string("nvJitLink ") + what + " failed with status " +
                           std::to_string(status) + ": " + log,
                       ptx);
  };
  require(functions_->add(handle, kInputPtx, ptx.c_str(), ptx.size() + 1, "kernel"), "reading PTX");
  require(functions_->complete(handle), "linking");
  size_t size = 0;
  require(functions_->cubin_size(handle, &size), "measuring");
  std::string cubin(size, '\0');
  require(functions_->cubin(handle, cubin.data()), "copying");
  return cubin;
}

}  // namespace poot::runtime
