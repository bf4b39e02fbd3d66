#include "core/model/link_shapes.h"

namespace tandem {

namespace {

JointSpec joint_between(std::size_t member, std::int32_t a, std::int32_t b, const LinkSpec& link) {
  return {{.member = member, .which = a}, {.member = member, .which = b}, link};
}

}  // namespace

std::vector<JointSpec> links_of_every_two(std::size_t member, std::int32_t count,
                                          const LinkSpec& link) {
  std::vector<JointSpec> joints;
  for (std::int32_t a = 0; a < count; ++a) {
    for (std::int32_t b = a + 1; b < count; ++b)
      joints.push_back(joint_between(member, a, b, link));
  }
  return joints;
}

std::vector<JointSpec> links_of_torus(std::size_t member, std::span<const std::int32_t> shape,
                                      const LinkSpec& link) {
  std::int32_t count = 1;
  for (const std::int32_t length : shape) count *= length;
  std::vector<JointSpec> joints;
  std::int32_t stride = count;
  for (const std::int32_t length : shape) {
    stride /= length;
    for (std::int32_t one = 0; one < count; ++one) {
      const std::int32_t at = one / stride % length;
      const bool last = at + 1 == length;
      if (last && length <= 2) continue;
      joints.push_back(joint_between(member, one, last ? one - at * stride : one + stride, link));
    }
  }
  return joints;
}

}  // namespace tandem
