#pragma once
// Manual pages (troff, man(7)), made from the rows that --help shows.

#include <string>
#include <string_view>

#include "tools/cli/command.h"

namespace tandem::tools {

/// As troff takes it: no character of it is a command, a hyphen is a minus sign.
std::string troff(std::string_view text);

/// "tandem-sweep-merge".
std::string page_name(const Command& command);

/// The page of a command, tandem-NAME(1); that of tandem itself, which lists them.
std::string manual_page(const Command& command);
std::string manual_page();

}  // namespace tandem::tools
