// Types of pointwise equations: operands of one dtype broadcast; the result has that dtype, or bool
// for comparisons, or the dtype that a cast names.
#include "ir/infer.h"

namespace poot::ir {
namespace {

Shape joint_shape(const InferCall& call, size_t first, std::string_view constraint) {
  Shape shape = call.in[first].shape;
  for (size_t i = first + 1; i < call.in.size(); ++i) {
    auto joint = broadcast_shapes(shape, call.in[i].shape);
    if (!joint)
      call.fail(constraint,
                "shapes " + str(shape) + " and " + str(call.in[i].shape) + " do not broadcast");
    shape = std::move(*joint);
  }
  return shape;
}

TensorType pointwise(const InferCall& call) {
  const DType dtype = call.in[0].dtype;
  if (is_complex(dtype)) call.fail("pointwise-C1", "complex operands pass opaque calls only");
  for (const TensorType& t : call.in)
    if (t.dtype != dtype)
      call.fail("pointwise-C2", "operands of types " + std::string(name(dtype)) + " and " +
                                    std::string(name(t.dtype)) + "; casts are explicit");
  return {dtype, joint_shape(call, 0, "pointwise-C2")};
}

}  // namespace

TypeList infer_same(const InferCall& call) {
  return {pointwise(call)};
}

TypeList infer_float(const InferCall& call) {
  TensorType t = pointwise(call);
  if (!is_float(t.dtype))
    call.fail("pointwise-C3", "needs floating-point operands, not " + std::string(name(t.dtype)));
  return {t};
}

TypeList infer_integral(const InferCall& call) {
  TensorType t = pointwise(call);
  if (is_float(t.dtype))
    call.fail("pointwise-C4", "needs integer or bool operands, not " + std::string(name(t.dtype)));
  return {t};
}

TypeList infer_predicate(const InferCall& call) {
  TensorType t = pointwise(call);
  t.dtype = DType::Bool;
  return {t};
}

TypeList infer_select(const InferCall& call) {
  const DType dtype = call.in[1].dtype;
  if (call.in[0].dtype != DType::Bool || call.in[2].dtype != dtype || is_complex(dtype))
    call.fail("select-C1", "needs a bool and two operands of one real dtype, got " +
                               call.in[0].str() + ", " + call.in[1].str() + ", " +
                               call.in[2].str());
  return {{dtype, joint_shape(call, 0, "select-C2")}};
}

TypeList infer_cast(const InferCall& call) {
  const DType to = call.attr<DType>("to");
  if (is_complex(call.in[0].dtype) || is_complex(to))
    call.fail("cast-C1", "complex dtypes pass opaque calls only");
  return {{to, call.in[0].shape}};
}

}  // namespace poot::ir
