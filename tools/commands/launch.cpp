// tandem launch -n N -- COMMAND [ARGUMENT...]: starts a tandem command as the ranks of a run.

#include <algorithm>
#include <array>
#include <climits>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/text/files.h"
#include "executor/ranks/rank_place.h"
#include "executor/ranks/shared_secret.h"
#include "tools/cli/command.h"
#include "tools/cli/copy_folders.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/json_output.h"
#include "tools/cli/notices.h"
#include "tools/cli/rank_processes.h"
#include "tools/cli/safe_output.h"
#include "tools/cli/terminal.h"
#include "tools/commands/command.h"
#include "tools/options/rank_hosts.h"

namespace tandem::tools {

namespace {

/// All that stays the same when the ranks are started again.
struct LaunchRequest {
  std::vector<std::string> command = {};  // behind "tandem"
  std::vector<RankHost> hosts = {};       // some may be spare
  std::vector<RankSeat> seats = {};
  std::string secret = {}, rendezvous = {}, ssh = {}, program = {};  // rendezvous: or we choose
  bool all_here = true, stdout_is_ours = false;
  std::shared_ptr<const CopyFolders> copies = {};  // of ranks' state; null: they keep none
};

std::string own_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (size <= 0) throw AbsentError("/proc/self/exe does not say where this program is");
  return {path.data(), static_cast<std::size_t>(size)};
}

/// One of loopback that nobody has just now.
std::uint16_t free_port() {
  struct Socket {
    int number = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ~Socket() { ::close(number); }
  } const socket;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket.number, any, size) != 0 || ::getsockname(socket.number, any, &size) != 0)
    throw AbsentError("no port of 127.0.0.1 is free");
  return ntohs(address.sin_port);
}

/// Where rank 0 listens, of one start. Elsewhere than here we can't look for a free port: one below
/// those that systems give to anyone, another in every run.
std::string meeting_place(const LaunchRequest& request, std::int32_t start) {
  if (!request.rendezvous.empty()) return request.rendezvous;
  if (request.all_here) return fmt::format("127.0.0.1:{}", free_port());
  return fmt::format("{}:{}", request.seats[0].host,
                     20'000 + hash_of_text(fmt::format("{} {}", request.secret, start)) % 10'000);
}

/// What a rank is told beside the secret.
std::vector<std::string> variables_of(const LaunchRequest& request, std::size_t rank,
                                      const std::string& meeting, std::int32_t start) {
  const RankSeat& seat = request.seats[rank];
  return {fmt::format("TANDEM_RANK={}", rank),
          fmt::format("TANDEM_RANKS={}", request.seats.size()),
          fmt::format("TANDEM_LOCAL_RANK={}", seat.local_rank),
          fmt::format("TANDEM_LOCAL_RANKS={}", seat.local_ranks),
          fmt::format("TANDEM_RENDEZVOUS={}", meeting),
          fmt::format("TANDEM_RESTARTS={}", start),
          fmt::format("TANDEM_COPIES={}", request.copies ? request.copies->of(seat.host) : "")};
}

/// What a shell there runs. The secret comes as a line of stdin, so that no list of processes shows
/// it; each further line, and at last the end of stdin, asks the rank to end. (SIGTERM: a shell has
/// its background ignore SIGINT.)
std::string remote_script(const LaunchRequest& request, std::vector<std::string> variables) {
  std::string rank = "env";
  variables.push_back(request.program);
  variables.insert(variables.end(), request.command.begin(), request.command.end());
  for (const std::string& word : variables) rank += " " + shell_word(word);
  std::array<char, PATH_MAX> folder{};
  if (::getcwd(folder.data(), folder.size()) == nullptr)
    throw AbsentError("this folder is gone: ranks elsewhere have none to run in");
  return fmt::format(
      "IFS= read -r TANDEM_SECRET && export TANDEM_SECRET && cd {} || exit 5\n"
      "exec 3<&0 </dev/null\n"
      "{} 3<&- & rank=$!\n"
      "{{ while IFS= read -r line <&3; do kill -s TERM $rank; kill -s CONT $rank; done\n"
      "kill -s TERM $rank; kill -s CONT $rank; sleep 2\n"
      "kill -s KILL $rank; }} >/dev/null 2>&1 & ears=$!\n"
      "exec 3<&-\n"
      "wait $rank; code=$?\n"
      "kill -s KILL $ears; exit $code\n",
      shell_word(folder.data()), rank);
}

std::vector<RankProcess> processes_of(const LaunchRequest& request, std::int32_t start) {
  using Output = ChildSetup::Output;
  const std::string meeting = meeting_place(request, start);
  const Output of_first = request.stdout_is_ours ? Output::ours : Output::on_stderr;
  std::vector<RankProcess> processes;
  for (std::size_t i = 0; i < request.seats.size(); ++i) {
    const std::string& host = request.seats[i].host;
    std::vector<std::string> variables = variables_of(request, i, meeting, start);
    RankProcess process{
        .rank = static_cast<std::int32_t>(i), .host = host, .remote = !is_this_host(host)};
    process.setup.output = i == 0 ? of_first : Output::taken;
    if (process.remote) {
      process.setup.command = {request.ssh, host,
                               "exec sh -c " + shell_word(remote_script(request, variables))};
      process.setup.environment = environment_with({});
      process.setup.input = request.secret + "\n";
    } else {
      process.setup.command = {request.program};
      process.setup.command.insert(process.setup.command.end(), request.command.begin(),
                                   request.command.end());
      variables.push_back("TANDEM_SECRET=" + request.secret);
      process.setup.environment = environment_with(std::move(variables));
    }
    processes.push_back(std::move(process));
  }
  return processes;
}

void check_command(const Options& options) {
  const std::string& word = options.words()[0];
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  if (word == "launch") refuse(options, "it does not launch itself");
  if (std::ranges::find(names, word) == names.end())
    refuse(options, "unknown command \"{}\"{} (tandem --help lists them)", word,
           did_you_mean(word, names));
}

/// Null where the ranks keep no copies.
std::shared_ptr<const CopyFolders> copy_folders_of(const LaunchRequest& request) {
  if (std::ranges::find(request.command, "--buddy") == request.command.end()) return nullptr;
  std::vector<std::string> elsewhere;
  for (const RankHost& host : request.hosts)
    if (!is_this_host(host.name)) elsewhere.push_back(host.name);
  return std::make_shared<const CopyFolders>(elsewhere, request.ssh);
}

LaunchRequest launch_request_of(const Options& options) {
  LaunchRequest request{.command = options.words(),
                        .ssh = options.text("ssh", "ssh"),
                        .program = own_path(),
                        .stdout_is_ours = !options.has("json")};
  const auto ranks = static_cast<std::int32_t>(options.integer("processes", 1, 65'536, 0));
  if (options.has("hosts")) {
    constexpr std::size_t kLargest = 1 << 20;
    const std::string file = options.text("hosts");
    request.hosts = parse_hosts(read_file(file, kLargest), file);
  } else if (ranks == 0) {
    refuse(options, "-n N is missing, or --hosts FILE");
  } else {
    request.hosts = {{this_host(), ranks}};
  }
  request.seats = seats_on(request.hosts, ranks);
  request.all_here = std::ranges::all_of(request.seats, is_this_host, &RankSeat::host);
  if (request.all_here) refuse_given(options, {"ssh"}, "--{} is for ranks on other hosts");
  if (options.has("rendezvous")) {
    request.rendezvous = options.text("rendezvous");
    RankPlace ignored;
    read_rendezvous("--rendezvous", request.rendezvous, ignored);
  } else if (!request.all_here && is_this_host(request.seats[0].host) &&
             request.seats[0].host != this_host()) {
    refuse(options, "other hosts do not find rank 0 at {}: give --rendezvous HOST:PORT",
           request.seats[0].host);
  }
  const auto secret = shared_secret(
      environment_variable,
      options.has("secret-file") ? std::optional(options.text("secret-file")) : std::nullopt);
  request.secret = secret ? *secret : random_secret();
  return request;
}

/// Rank 0's line of progress may stand on the terminal.
void say_beside_progress(const std::string& line) {
  if (progress_is_shown()) print_as_it_is(stderr, "\r\x1b[K");
  fmt::print(stderr, "{}\n", line);
}

/// A host that ssh does not reach takes no ranks any more, where others have the slots for them.
void leave_out_lost_hosts(LaunchRequest& request, const RanksEnded& ended) {
  constexpr int kNotReached = 255;  // as ssh says it
  std::vector<RankHost> left = request.hosts;
  std::set<std::string> lost;
  for (const RankEnd& end : ended.ends)
    if (end.code == kNotReached && !is_this_host(end.host)) lost.insert(end.host);
  std::erase_if(left, [&](const RankHost& host) { return lost.contains(host.name); });
  std::int64_t slots = 0;
  for (const RankHost& host : left) slots += host.slots;
  if (lost.empty() || std::cmp_less(slots, request.seats.size())) return;
  say_beside_progress(
      fmt::format("note: left out, as ssh does not reach it: {}", fmt::join(lost, ", ")));
  request.hosts = std::move(left);
  request.seats = seats_on(request.hosts, static_cast<std::int32_t>(request.seats.size()));
}

/// Another start would end the same way.
bool is_final(int code) {
  return code == static_cast<int>(ExitCode::usage) ||
         code == static_cast<int>(ExitCode::invalid_input) ||
         code == static_cast<int>(ExitCode::infeasible);
}

Json json_of_ends(const RanksEnded& ended, std::int32_t restarts) {
  const auto row = [](const RankEnd& end) {
    return Json{{"rank", end.rank},
                {"host", end.host},
                {"pid", end.id},
                {"exit_code", end.code},
                {"signal", end.signal == 0 ? Json(nullptr) : Json(end.signal)}};
  };
  return {{"exit_code", ended.code()},
          {"first_failed", or_null(ended.failed)},
          {"interrupted", ended.interrupted},
          {"restarts", restarts},
          {"ranks", array_of(ended.ends, row)}};
}

}  // namespace

Options options_of_launch() {
  Options options(
      "launch", "-n N [options] -- COMMAND [ARGUMENT...]",
      "Runs a tandem command as N processes, the ranks of one run, and ends them all when one "
      "fails. Rank 0 prints as if it were alone; what others print comes on stderr, behind [rank "
      "2]. The exit code is that of the first rank to fail.",
      "print one JSON object on stdout: how each rank ended; rank 0 prints on stderr");
  options.words("COMMAND", 1, std::numeric_limits<int>::max()).line_follows();
  options
      .declare({.name = "processes",
                .argument = "N",
                .letter = ",n",
                .help = "ranks (default: all slots of --hosts)"})
      .input(
          "hosts", "FILE",
          "hosts to start them on by ssh, a line each: HOST [slots=K], as mpirun's; tandem and "
          "this folder have the same paths there; slots that are left over are spare, for a start "
          "again without a host that ssh does not reach")
      .value("ssh", "PROGRAM", "called as PROGRAM HOST SCRIPT for a rank elsewhere (default: ssh)")
      .value("rendezvous", "HOST:PORT",
             "where rank 0 listens (default: a free port of 127.0.0.1; with other hosts the first "
             "of them)")
      .input("secret-file", "FILE",
             "of mode 600: the secret by which ranks know one another (default: TANDEM_SECRET, or "
             "a new one)")
      .value("restarts", "N",
             "start all again up to N times after a failure that is no fault of the command line, "
             "the input or the plan (default: 0)");
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (command.has_own_name() && command.name != "launch") names.emplace_back(command.name);
  }
  return options.first_word(std::move(names));
}

int run_launch(const Options& options) {
  check_command(options);
  const std::int64_t restarts = options.integer("restarts", 0, 1'000'000, 0);
  LaunchRequest request = launch_request_of(options);
  request.copies = copy_folders_of(request);
  const InterruptGuard guard(OnInterrupt::ends_by_itself);
  for (std::int32_t start = 0;; ++start) {
    const RanksEnded ended =
        run_ranks(processes_of(request, start), guard.token(), say_beside_progress);
    const int code = ended.code();
    if (code != 0 && !ended.interrupted && start < restarts && !is_final(code)) {
      leave_out_lost_hosts(request, ended);
      say_beside_progress(
          fmt::format("note: all ranks are started again ({} of {})", start + 1, restarts));
      continue;
    }
    if (options.has("json")) {
      print_result("launch", {{"command", request.command}, {"ranks", request.seats.size()}},
                   Json::object(), json_of_ends(ended, start));
    }
    return code;
  }
}

}  // namespace tandem::tools
