#include "traces/svg.h"

#include <cmath>
#include <cstddef>
#include <map>

#include <fmt/format.h>

#include "core/base/utf8.h"
#include "core/schedule/op_kind.h"

namespace tandem {

std::string xml(std::string_view text) {
  std::string escaped;
  for (const char c : printable_line(text))
    escaped += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return escaped;
}

namespace {

/// A quarter of the way to white.
std::string lighter(std::string_view colour) {
  std::string light = "#";
  for (const std::size_t at : {1, 3, 5}) {
    const auto part = std::stoul(std::string(colour.substr(at, 2)), nullptr, 16);
    light += fmt::format("{:02x}", part + (255 - part) / 4);
  }
  return light;
}

/// On a dark ground, links are drawn as thin ticks by some colours that are too dark for that.
std::string lighter_links() {
  std::map<std::string_view, std::string> colours;
  for (const OpTraits& look : kOpTraits) {
    if (!on_compute_lane(look.kind)) colours.emplace(look.colour, lighter(look.colour));
  }
  std::string rules;
  for (const auto& [colour, light] : colours) {
    rules += fmt::format("[fill=\"{0}\"] {{ fill: {1}; }} [stroke=\"{0}\"] {{ stroke: {1}; }}\n",
                         colour, light);
  }
  return rules;
}

}  // namespace

std::string svg_head(double width, double height, std::string_view title,
                     std::string_view description) {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:g} {1:g}" width="{0:g}")"
      R"( height="{1:g}" role="img" aria-labelledby="title description">
<title id="title">{2}</title>
<desc id="description">{3}</desc>
<style>
text {{ font-family: system-ui, "DejaVu Sans", sans-serif; font-size: 11px; fill: #16191d; }}
.t {{ font-size: 15px; font-weight: 600; }} .s {{ font-size: 8.5px; }} .f {{ font-size: 10px; }}
.n {{ fill: #000; }}
.m {{ fill: #5a6472; }} .g {{ fill: #fff; }} .i {{ fill: #eceff3; }} .l {{ stroke: #c3cad4; }}
.p {{ fill: none; stroke: #16191d; stroke-width: 1.3; }}
.c {{ stroke: #b3261e; stroke-width: 1.3; stroke-dasharray: 6 4; }}
.e {{ stroke: #000; stroke-opacity: 0.55; stroke-width: 0.6; }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e9ecf0; }} .n {{ fill: #000; }} .m {{ fill: #9aa5b3; }} .g {{ fill: #14171b; }}
.i {{ fill: #22272e; }} .l {{ stroke: #424b57; }}
.p {{ stroke: #e9ecf0; }} .c {{ stroke: #ff8a80; }}
{4}}}
</style>
<defs><pattern id="w" width="5" height="5" patternUnits="userSpaceOnUse">
<path d="M-1 6L6 -1M-1 1L1 -1M4 6L6 4" stroke="#000" stroke-opacity="0.35"/>
</pattern></defs>
<rect class="g" width="100%" height="100%"/>
<text class="t" x="12" y="22">{2}</text>
)",
      width, std::ceil(height), xml(title), xml(description), lighter_links());
}

}  // namespace tandem
