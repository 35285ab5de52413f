// The standard headers that most sources include, precompiled once a target. Nothing includes this
// file: the build puts it before each source, and every source still includes what it uses.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>
