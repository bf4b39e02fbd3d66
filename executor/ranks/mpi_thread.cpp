#include "executor/ranks/mpi_thread.h"

#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace tandem {

namespace {
/// Its end waits for the other processes, one of which may have stopped.
constexpr auto kLongestEnd = std::chrono::seconds(2);
}  // namespace

std::string mpi_error(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int size = 0;
  if (MPI_Error_string(code, text.data(), &size) != MPI_SUCCESS)
    return fmt::format("error {} of MPI", code);
  return {text.data(), static_cast<std::size_t>(size)};
}

MpiThread::~MpiThread() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  over_ = true;
  changed_.notify_all();
  const bool gone = changed_.wait_for(lock, kLongestEnd, [this] { return gone_; });
  lock.unlock();
  gone ? thread_.join() : thread_.detach();
}

void MpiThread::begin(Work work) {
  const std::lock_guard lock(mutex_);
  work_ = std::move(work);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void MpiThread::end() {
  std::unique_lock lock(mutex_);
  if (!works_) work_.reset();
  changed_.wait(lock, [this] { return !works_; });
}

std::string MpiThread::start() {
  int provided = 0;
  if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
      code != MPI_SUCCESS)
    return mpi_error(code);
  if (provided < MPI_THREAD_FUNNELED) return "this MPI is for programs without threads";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (const int code = MPI_Comm_dup(MPI_COMM_WORLD, &ranks_); code != MPI_SUCCESS)
    return mpi_error(code);
  return {};
}

void MpiThread::run() {
  const std::string why = start();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return over_ || work_; });
    if (!work_) break;
    const Work work = *std::exchange(work_, std::nullopt);
    works_ = true;
    lock.unlock();
    work(ranks_, clean_ ? why : "MPI was left with messages under way");
    lock.lock();
    works_ = false;
    changed_.notify_all();
  }
  lock.unlock();
  if (why.empty() && clean_) {
    MPI_Comm_free(&ranks_);
    MPI_Finalize();
  }
  lock.lock();
  gone_ = true;
  changed_.notify_all();
}

}  // namespace tandem
