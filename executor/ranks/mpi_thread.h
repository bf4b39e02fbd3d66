#pragma once
// MpiThread: the one thread of this process that calls MPI, from its start to its end: so MPI need
// not know of threads (MPI_THREAD_FUNNELED).

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <mpi.h>

namespace tandem {

class MpiThread {
 public:
  /// Starts with its first work.
  MpiThread() = default;
  /// Ends MPI, if nothing is under way; does not wait for long.
  ~MpiThread();
  MpiThread(const MpiThread&) = delete;
  MpiThread& operator=(const MpiThread&) = delete;

  /// `work` is called by the thread when MPI has been started, with the communicator or the reason
  /// why there is none, unless it is taken back before. One at a time.
  using Work = std::function<void(MPI_Comm, const std::string& why)>;
  void begin(Work work);
  /// Waits for the end of work that has begun, and takes it back if it has not. `clean`: it has
  /// left nothing under way; else MPI is no longer called.
  void end();
  /// By work.
  void leave_unclean() { clean_ = false; }

 private:
  void run();
  /// Empty: it has been.
  std::string start();

  MPI_Comm ranks_ = MPI_COMM_NULL;
  bool clean_ = true;  // of the thread, and of whoever has seen it end
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Work> work_;
  bool works_ = false, over_ = false, gone_ = false;
  std::thread thread_;
};

/// What went wrong, in MPI's words.
std::string mpi_error(int code);

}  // namespace tandem
