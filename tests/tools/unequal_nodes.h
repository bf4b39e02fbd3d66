#pragma once

namespace tandem::testing {

/// A cluster file of two nodes of eight devices; those of the second compute three times as fast.
inline constexpr const char* kUnequalNodes = R"({"version": 1, "name": "mixed", "groups": [
      {"name": "room", "members": [{"name": "old", "group": "DGX-A100"},
                                   {"name": "new", "group": "DGX-H100"}, {"name": "switch"}],
       "links": [{"between": ["old", "switch"], "bytes_per_s_one_way": 25e9, "latency_ns": 5000},
                 {"between": ["new", "switch"], "bytes_per_s_one_way": 25e9, "latency_ns": 5000}]}],
      "root": "room"})";

}  // namespace tandem::testing
