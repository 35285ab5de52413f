// Reshape as an index map. The dims of both shapes are cut into the smallest groups with equal
// products ([s0, 12, 8] and [s0, 3, 4, 8] into s0 | 12 ~ 3*4 | 8), so that dims that did not change
// keep their coordinates even when they are symbolic; within a group the coordinates are made one
// number and taken apart again.
#include "codegen/generate/index_map.h"

namespace poot::codegen {
namespace {

struct Group {
  size_t from_begin, from_end, to_begin, to_end;
};

std::vector<Group> matching_groups(const Shape& from, const Shape& to) {
  std::vector<Group> groups;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    Group g{i, i, j, j};
    if (i < from.size() && from[i].is_const(1) && (j == to.size() || !to[j].is_const(1))) {
      i++;
      continue;  // a lone size-1 dim has no coordinate to pass on
    }
    if (j < to.size() && to[j].is_const(1) && (i == from.size() || !from[i].is_const(1))) {
      g.to_end = ++j;
      groups.push_back(g);
      continue;
    }
    Dim a = 1, b = 1;
    if (i < from.size()) a = from[i++];
    if (j < to.size()) b = to[j++];
    while (a != b) {
      const bool more_from = i < from.size(), more_to = j < to.size();
      if (more_from && (divide_exactly(b, a) || !more_to))
        a = a * from[i++];
      else if (more_to && (divide_exactly(a, b) || !more_from))
        b = b * to[j++];
      else if (more_from || more_to) {
        while (i < from.size()) a = a * from[i++];
        while (j < to.size()) b = b * to[j++];
      } else {
        break;  // equal at run time, not provably: the whole rest is one group
      }
    }
    g.from_end = i;
    g.to_end = j;
    groups.push_back(g);
  }
  return groups;
}

}  // namespace

Coordinates reshape_coordinates(Space& space, const Coordinates& from, const Shape& from_shape,
                                const Shape& to_shape) {
  Coordinates out(to_shape.size());
  for (const Group& g : matching_groups(from_shape, to_shape)) {
    if (g.to_end - g.to_begin == 1 && g.from_end - g.from_begin == 1) {
      out[g.to_begin] = from[g.from_begin];
      continue;
    }
    Affine linear;
    Dim stride = 1;
    for (size_t i = g.from_end; i-- > g.from_begin;) {
      linear = linear + from[i] * stride;
      stride = stride * from_shape[i];
    }
    size_t first = g.to_begin;
    while (first < g.to_end && to_shape[first].is_const(1)) first++;
    for (size_t j = g.to_end; j-- > g.to_begin;) {
      if (j <= first) {
        out[j] = j == first ? linear : Affine();
        continue;
      }
      out[j] = space.mod(linear, to_shape[j]);
      linear = space.floordiv(linear, to_shape[j]);
    }
  }
  return out;
}

Affine element_index(const ir::Layout& layout, const Coordinates& at) {
  Affine index(layout.offset);
  for (size_t i = 0; i < at.size(); i++) index = index + at[i] * layout.strides[i];
  return index;
}

}  // namespace poot::codegen
