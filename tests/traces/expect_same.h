#pragma once
// Recordings compared, op by op.

#include <gtest/gtest.h>

#include "core/model/recording.h"

namespace tandem::testing {

inline void expect_same(const Recording& read, const Recording& written) {
  EXPECT_EQ(read.devices, written.devices);
  EXPECT_EQ(read.chunks, written.chunks);
  EXPECT_EQ(read.replicas, written.replicas);
  ASSERT_EQ(read.passes.size(), written.passes.size());
  for (std::size_t i = 0; i < read.passes.size(); ++i) {
    const RecordedPass &a = read.passes[i], &b = written.passes[i];
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.replica, b.replica);
    for (const DeviceId device : ids(b.devices)) {
      ASSERT_EQ(a.devices[device].size(), b.devices[device].size());
      for (std::size_t op = 0; op < b.devices[device].size(); ++op) {
        const RecordedOp &c = a.devices[device][op], &d = b.devices[device][op];
        EXPECT_EQ(c.kind, d.kind);
        EXPECT_EQ(c.receives, d.receives);
        // A recording made by hand may leave the numbers of transfers out.
        if (d.microbatch >= 0 || !is_transfer(d.kind)) {
          EXPECT_EQ(c.microbatch, d.microbatch);
        }
        EXPECT_EQ(c.start, d.start);
        EXPECT_EQ(c.end, d.end);
      }
    }
  }
}

}  // namespace tandem::testing
