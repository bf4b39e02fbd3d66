// Any text as a model, a cluster, a plan, a profile, costs, collectives and a calibration: read or
// refused with a place, never a crash; what was read is written, and reads back the same.

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/files/constants_files.h"
#include "core/files/profile_file.h"
#include "core/files/read.h"
#include "core/import/models.h"
#include "core/text/json_position.h"

namespace tandem {
namespace {

void check_diagnostics(const InputError& error, const std::string& text) {
  TANDEM_CHECK(!error.diagnostics().empty());
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    const std::string message = diagnostic.to_string();
    TANDEM_CHECK(diagnostic.place.file == "f.json" && message.starts_with("f.json:"), message);
    TANDEM_CHECK(first_invalid_utf8(message) == message.size(), message);
    const SourcePlace place = locate("f.json", text, diagnostic.place.pointer);
    TANDEM_CHECK(place.line >= 1 || diagnostic.place.pointer.empty(), message);
  }
}

template <class Parse, class Write>
void check_reader(const std::string& text, Parse parse, Write write) {
  std::string written;
  try {
    written = write(parse("f.json", text));
  } catch (const InputError& error) {
    check_diagnostics(error, text);
    return;
  }
  TANDEM_CHECK(write(parse("again.json", written)) == written, written);
}

/// What is a cluster has a way between any two of its devices.
void check_cluster(const std::string& text) {
  try {
    const Cluster cluster(parse_cluster("f.json", text));
    const auto last = id_at<DeviceId>(cluster.size() - 1);
    const Route route = cluster.route(DeviceId{}, last);
    TANDEM_CHECK(route.links.empty() == (cluster.size() == 1), cluster.size());
    TANDEM_CHECK(route.bytes_per_s > 0.0, route.bytes_per_s);
  } catch (const InputError& error) {
    check_diagnostics(error, text);
  }
}

/// At degree 1 the profile that plans are made from, where its model can be trained.
void check_tensor_profiles(const std::string& text) {
  try {
    const TensorProfiles profiles = parse_tensor_profiles("f.json", text);
    TANDEM_CHECK(!profiles.empty());
    const auto alone = profiles.find(1);
    if (alone == profiles.end()) return;
    if (alone->second.model.architecture == Architecture::transformer) return;
    TANDEM_CHECK(profile_text(parse_profile("again.json", text)) == profile_text(alone->second));
  } catch (const InputError& error) {
    check_diagnostics(error, text);
  }
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  tandem::check_reader(text, tandem::parse_model, tandem::model_text);
  tandem::check_cluster(text);
  tandem::check_reader(text, tandem::parse_plan, tandem::plan_text);
  tandem::check_reader(text, tandem::parse_profile, [](const tandem::Profile& profile) {
    return tandem::profile_text(profile);
  });
  tandem::check_tensor_profiles(text);
  tandem::check_reader(text, tandem::parse_costs, tandem::costs_text);
  tandem::check_reader(text, tandem::parse_collectives, tandem::collectives_text);
  tandem::check_reader(text, tandem::parse_calibration, tandem::calibration_text);
  return 0;
}
