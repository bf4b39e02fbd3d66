#pragma once
// MetricsServer: a page of figures for Prometheus at http://127.0.0.1:PORT/metrics, served by a
// thread of its own. Whoever asks can't stall who sets the page: there are at most 16 connections,
// each of at most 8 KiB and five seconds, and none is waited for.

#include <cstdint>
#include <memory>
#include <string>

namespace tandem::tools {

class MetricsServer {
 public:
  /// On this machine's loopback alone. Port 0: any that is free. Throws DeviceError when it can't
  /// listen there.
  explicit MetricsServer(std::uint16_t port);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  std::uint16_t port() const;
  /// What is served from now on, in Prometheus's text format.
  void set(std::string page);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::tools
