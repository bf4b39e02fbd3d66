// Sets of published figures, put into the binary by the assembler, and their reader.
// TANDEM_PUBLISHED: their folder.

#include "tools/validation/published_set.h"

#include <array>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/files/read.h"
#include "core/text/embedded.h"
#include "core/text/json_reader.h"
#include "core/text/json_text.h"

namespace tandem::tools {

TANDEM_EMBED(published_all_reduce, TANDEM_PUBLISHED "/all-reduce.json");
TANDEM_EMBED(published_controllable_memory, TANDEM_PUBLISHED "/controllable-memory.json");
TANDEM_EMBED(published_megatron, TANDEM_PUBLISHED "/megatron.json");
TANDEM_EMBED(published_pipedream_2bw, TANDEM_PUBLISHED "/pipedream-2bw.json");
TANDEM_EMBED(published_simgrid, TANDEM_PUBLISHED "/simgrid.json");
TANDEM_EMBED(published_timeline, TANDEM_PUBLISHED "/timeline.json");
TANDEM_EMBED(published_vtrain, TANDEM_PUBLISHED "/vtrain.json");
TANDEM_EMBED(published_zero_bubble, TANDEM_PUBLISHED "/zero-bubble.json");
TANDEM_EMBED(published_zero_bubble_memory, TANDEM_PUBLISHED "/zero-bubble-memory.json");
TANDEM_EMBED(published_zero_bubble_throughput, TANDEM_PUBLISHED "/zero-bubble-throughput.json");

namespace {

constexpr std::int64_t kPublishedSetVersion = 1;
constexpr double kAnyNumber = -1e300;

std::optional<std::string> optional_text(const JsonReader& reader) {
  return reader.absent() ? std::nullopt : std::optional(reader.string());
}

PublishedRow read_row(const JsonReader& reader) {
  PublishedRow row;
  if (!reader.object({"name", "published", "options", "over", "error_percent"})) return row;
  row.name = reader["name"].line();
  row.published = reader["published"].number(1e-300);
  row.options = reader["options"].string();
  row.over = optional_text(reader.optional("over"));
  row.error_percent = reader["error_percent"].number(kAnyNumber);
  return row;
}

PublishedTable read_table(const JsonReader& reader) {
  PublishedTable table;
  if (!reader.object({"rows", "measured", "predicted", "error", "median_percent", "worst_percent"}))
    return table;
  table.rows = reader["rows"].string();
  table.measured = reader["measured"].string();
  table.predicted = optional_text(reader.optional("predicted"));
  table.error = optional_text(reader.optional("error"));
  if (table.predicted.has_value() == table.error.has_value())
    reader.diagnose("expected one of \"predicted\" and \"error\"");
  table.median_percent = reader["median_percent"].number(0.0);
  table.worst_percent = reader["worst_percent"].number(0.0);
  return table;
}

}  // namespace

PublishedSet parse_published_set(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  const JsonReader root = json.root();
  PublishedSet set;
  if (root.object({"version", "name", "title", "source", "quantity", "constants", "held_out",
                   "command", "files", "figure", "scale", "one_less", "rows", "table"})) {
    read_version(root, kPublishedSetVersion);
    for (const auto& [key, member] : {std::pair{"name", &PublishedSet::name},
                                      {"title", &PublishedSet::title},
                                      {"source", &PublishedSet::source},
                                      {"quantity", &PublishedSet::quantity},
                                      {"constants", &PublishedSet::constants},
                                      {"held_out", &PublishedSet::held_out},
                                      {"command", &PublishedSet::command}})
      set.*member = root[key].line();
    if (root.has("files")) {
      for (const auto& [name, content] : root["files"].members())
        set.files.emplace(name, content.string());
    }
    if (root.has("table")) {
      if (root.has("rows")) root["rows"].expected("no \"table\" besides");
      set.content = read_table(root["table"]);
    } else {
      set.figure = root["figure"].string();
      if (root.has("scale")) set.scale = root["scale"].number(1e-300);
      if (root.has("one_less")) set.one_less = root["one_less"].boolean();
      std::vector<PublishedRow> rows;
      for (const JsonReader& row : root["rows"].array()) rows.push_back(read_row(row));
      if (rows.empty()) root["rows"].diagnose("no rows");
      set.content = std::move(rows);
    }
  }
  json.finish();
  return set;
}

const std::vector<PublishedSet>& published_sets() {
  static const std::vector<PublishedSet> sets = [] {
    std::vector<PublishedSet> all;
    for (const std::string_view text :
         {published_megatron(), published_pipedream_2bw(), published_zero_bubble(),
          published_zero_bubble_memory(), published_zero_bubble_throughput(),
          published_controllable_memory(), published_simgrid(), published_vtrain(),
          published_all_reduce(), published_timeline()})
      all.push_back(parse_published_set("tests/published", std::string(text)));
    return all;
  }();
  return sets;
}

}  // namespace tandem::tools
