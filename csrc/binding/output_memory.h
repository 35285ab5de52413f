// Memory of results: storages that own their block and stay resizable, from torch's CPU allocator
// or, where they are large, from the process's pool. A pooled block goes back when its storage
// dies, that is with the last tensor, view, numpy array or saved activation that shows it.
#pragma once

#include <c10/core/Storage.h>

#include "runtime/block_pool.h"

namespace poot::binding {

// A fresh storage of `bytes` on `device`, on the CPU 64-byte aligned; `pooled`: from the pool, if
// it is large and on the CPU.
c10::Storage output_storage(size_t bytes, c10::Device device, bool pooled);
// The process's pool.
runtime::BlockPool& output_pool();

}  // namespace poot::binding
