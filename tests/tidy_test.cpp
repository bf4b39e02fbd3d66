#include <gtest/gtest.h>
TEST(Tidy, Placeholder) {}
