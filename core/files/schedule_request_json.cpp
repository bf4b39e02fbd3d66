#include "core/files/schedule_request_json.h"

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/schedule/options.h"

namespace tandem {

namespace {

using Json = nlohmann::ordered_json;
using Request = ScheduleRequest;

class OptionReader {
 public:
  OptionReader(const ScheduleOption& option, const JsonReader& value, Request& request)
      : option_(option), value_(value), request_(request) {}

  template <class Whole>
  void operator()(Whole Request::*member) {
    request_.*member =
        value_.integer<Whole>(static_cast<Whole>(option_.least), static_cast<Whole>(option_.most));
  }
  void operator()(std::optional<std::int64_t> Request::*member) {
    request_.*member = value_.integer<std::int64_t>(option_.least, option_.most);
  }
  void operator()(double Request::*member) {
    const double number = value_.number(static_cast<double>(option_.least));
    if (number > static_cast<double>(option_.most))
      value_.expected(fmt::format("at most {}", option_.most));
    request_.*member = number;
  }
  void operator()(bool Request::*member) { request_.*member = value_.boolean(); }
  void operator()(Recompute Request::*member) {
    const std::string text = value_.string();
    if (const auto recompute = parse_recompute(text)) {
      request_.*member = *recompute;
    } else if (!text.empty()) {
      value_.expected(std::string(kRecomputeNames));
    }
  }
  void operator()(Slicing Request::*member) {
    const std::string text = value_.string();
    if (auto slicing = parse_slicing(text)) {
      request_.*member = std::move(*slicing);
    } else if (!text.empty()) {
      value_.expected(std::string(kSlicingNames));
    }
  }
  void operator()(std::vector<std::uint16_t> Request::*member) {
    for (const JsonReader& count : value_.array())
      (request_.*member).push_back(count.integer<std::uint16_t>(1, kMostOfEach));
  }
  void operator()(std::vector<double> Request::*member) {
    request_.*member = {value_.number(1.0)};
  }
  void operator()(std::optional<Duration> Request::*member) {
    request_.*member = value_.duration();
  }

 private:
  static constexpr std::uint16_t kMostOfEach = 65'535;

  const ScheduleOption& option_;
  const JsonReader& value_;
  Request& request_;
};

struct OptionWriter {
  const Request& request;

  template <class Value>
  Json operator()(Value Request::*member) const {
    return request.*member;
  }
  Json operator()(Recompute Request::*member) const { return name(request.*member); }
  Json operator()(Slicing Request::*member) const { return name(request.*member); }
  Json operator()(std::vector<double> Request::*member) const {
    const std::vector<double>& numbers = request.*member;
    return numbers.empty() ? Json() : numbers.size() == 1 ? Json(numbers.front()) : Json(numbers);
  }
  Json operator()(std::optional<std::int64_t> Request::*member) const {
    return request.*member ? Json(*(request.*member)) : Json();
  }
  Json operator()(std::optional<Duration> Request::*member) const {
    return request.*member ? Json((request.*member)->count()) : Json();
  }
};

template <class Which>
void write_options(const Request& request, Json& object, Which which) {
  for (const ScheduleOption& option : schedule_options()) {
    if (!option.key.empty() && which(option))
      object[std::string(option.key)] = std::visit(OptionWriter{request}, option.member);
  }
}

}  // namespace

void read_schedule_options(const JsonReader& object, ScheduleRequest& request) {
  for (const ScheduleOption& option : schedule_options()) {
    if (option.key.empty()) continue;
    const std::string key(option.key);
    if (!option.stands_in_plans && !object.has(key)) continue;
    const JsonReader value = object[key];
    std::visit(OptionReader(option, value, request), option.member);
  }
}

void write_schedule_options(const ScheduleRequest& request, Json& object) {
  write_options(request, object, [&](const ScheduleOption& option) {
    return option.stands_in_plans || !is_unset(option, request);
  });
}

void write_all_schedule_options(const ScheduleRequest& request, Json& object) {
  write_options(request, object, [](const ScheduleOption&) { return true; });
}

}  // namespace tandem
