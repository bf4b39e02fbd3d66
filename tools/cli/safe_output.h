#pragma once
// What reaches the terminal: names in files may hold what a terminal obeys, and are printed by
// every command.

#include <cstdio>
#include <string_view>

namespace tandem::tools {

/// From now on stdout and stderr pass on what is printed as printable() (core/base/utf8.h) writes
/// it. What is written to the descriptors themselves passes as it is.
void make_output_safe();

/// Prints what is meant to steer the terminal: colours, a line that is written over. REQUIRES: text
/// of our own, with names in it made printable.
void print_as_it_is(std::FILE* stream, std::string_view text);

}  // namespace tandem::tools
