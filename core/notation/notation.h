#pragma once
// Schedules as text that people read, write and review:
//
//   # 2bw  devices 4  microbatches 8  staleness 1
//   0 | f3 b0 f4 b1 f5 b2 f6 b3 f7 b4 f8 b5 f9 b6 f10 b7 U
//   1 | f2 b0 …
//
// Grammar. Words stand apart by blanks; empty lines count for nothing; header lines come first.
//
//   schedule = "#" NAME { field }  { "#" field { field } }  { device }
//   field    = "devices" N | "microbatches" N       both needed, before the lists
//            | "width" N                            replicas of the pipeline; 1
//            | "staleness" N                        of all ops that read weights (f r b i); 0
//            | "reads" "newest"                     each forward and backward; both one version
//            | "readings" AHEAD ":" AHEAD ":" DELAY ":" KEPT [ ":shared" ] { … }
//                                                   of each stage (Schedule::readings); none
//            | "stages" DEVICE { DEVICE }           of each replica; one on each device, in order
//            | "replicas" STAGE { STAGE }           the stage of each; replica r is of stage r
//            | "edges" ( "none" | REPLICA ">" REPLICA { … } )
//                                                   ascending; 0>1 1>2 …, a chain
//            | "tied" STAGE "+" STAGE { "+" STAGE } that share parameters, ascending; no others
//            | "partners" DEVICE { DEVICE }         to whom each device evicts; none
//   device   = DEVICE [ "~" STALENESS ] "|" { op }  the staleness: of its ops that read weights
//   op       = [ REPLICA ] LETTER [ OFFSET ] [ "+" SPAN ] [ "~" STALENESS ] [ "/" GROUP ]
//
// LETTER is that of the op's kind (OpTraits::notation in core/schedule/op_kind.h), such as f for
// forward. REPLICA may go where its device has one. What sums and the optimizer's ops leave out is
// the whole batch: offset m − 1, span m. The other ops need an offset; their span is 1. A NAME with
// blanks or quotes stands in double quotes, with \" \\ and \xHH inside; it has no line breaks and
// no U+0000. Lists run to the end of their line.
//
// Bounds: 4096 devices, 65535 stages, 2^20 microbatches, offsets below 2^24.

#include <string>
#include <string_view>

#include "core/schedule/schedule.h"
#include "core/text/text_sink.h"

namespace tandem {

/// The shortest notation that parse_schedule() reads back as exactly this schedule.
/// REQUIRES: what core/schedule/schedule.h says of schedules, within the bounds above, and no
/// transfers (checked, aborts).
void print_schedule(const Schedule& schedule, const TextSink& out);
inline std::string print_schedule(const Schedule& schedule) {
  return collected([&](const TextSink& out) { print_schedule(schedule, out); });
}

/// Throws InputError with every diagnostic, each with line, column and caret; `file` is what they
/// call the text. Whether the schedule works is not asked here: lower() and verify() do.
Schedule parse_schedule(std::string_view text, std::string_view file = "schedule");

/// The line of the device that `op` is of, and its mark on the next: "\n  1 | f0 b0 …\n ^^", six
/// ops to either side. Empty: the order has no such op.
std::string marked_in_order(const Schedule& schedule, const Op& op);

}  // namespace tandem
