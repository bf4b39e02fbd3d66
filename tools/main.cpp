// tandem: one binary, git-like subcommands. Results go to stdout, everything else to stderr.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "core/base/error.h"
#include "tools/cli/completion.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/json_output.h"
#include "tools/cli/memory_limit.h"
#include "tools/cli/options.h"
#include "tools/cli/safe_output.h"
#include "tools/cli/terminal.h"
#include "tools/commands/command.h"

namespace tandem::tools {

namespace {

constexpr Command kCommands[] = {
    {"doctor", "shows what this build and machine can do", run_doctor, options_of_doctor},
    {"schedule", "prints a schedule; --list prints them all", run_schedule, options_of_schedule},
    {"check", "verifies a plan and checks that it fits in memory", run_check, options_of_check},
    {"simulate", "predicts time, memory and bubbles", run_simulate, options_of_simulate},
    {"sweep", "simulates every combination of option values and ranks them", run_sweep,
     options_of_sweep},
    {"sweep merge", "joins the shards of a sweep", run_sweep_merge, options_of_sweep_merge},
    {"explain", "shows what each bubble of a device waited for", run_explain, options_of_explain},
    {"profile", "measures layer and link costs on this machine", run_profile, options_of_profile},
    {"plan", "searches schedule, stages and microbatch size; explains its choice", run_plan,
     options_of_plan},
    {"import", "reads schedules, models, clusters and logs of other programs", run_import,
     options_of_import},
    {"export", "writes what starts a plan in another engine", run_export, options_of_export},
    {"tokens", "writes texts as a token file to train on", run_tokens, options_of_tokens},
    {"train", "trains a plan's model", run_train, options_of_train},
    {"launch", "runs a command as several ranks, here or on hosts", run_launch, options_of_launch},
    {"generate", "goes on with a text by kept weights", run_generate, options_of_generate},
    {"evaluate", "gives the loss of kept weights on tokens", run_evaluate, options_of_evaluate},
    {"checkpoint", "shows, verifies and averages what training has kept", run_checkpoint,
     options_of_checkpoint},
    {"catalog", "lists devices, nodes and models known by name", run_catalog, options_of_catalog},
    {"calibrate", "fits analytic costs to measured iterations", run_calibrate,
     options_of_calibrate},
    {"validate", "predicts published figures and says how far off it is", run_validate,
     options_of_validate},
    {"compare", "compares a predicted timeline with a measured one, op by op", run_compare,
     options_of_compare},
    {"replay", "simulates a recorded job again, with and without its stragglers", run_replay,
     options_of_replay},
    {"trace", "checks a Chrome trace", run_trace, options_of_trace},
    {"version", "prints the version of this build", run_version, options_of_version},
    {"completion", "prints shell completions", run_completion, options_of_completion},
    {"man", "prints manual pages", run_man, options_of_man},
};

void print_help() {
  fmt::print("usage: tandem COMMAND [options]\n\n{}\n\n", wrapped(kAbout, text_columns()));
  for (const Command& command : kCommands) {
    if (command.has_own_name())
      fmt::print("  {:<10} {}\n", command.name, wrapped(command.summary, text_columns(), 13));
  }
  fmt::print("\ntandem help COMMAND, or tandem COMMAND --help, shows a command's options.\n");
}

/// Null: there is none.
const Command* named(std::string_view name) {
  const auto* const found = std::ranges::find(kCommands, name, &Command::name);
  return found == std::end(kCommands) ? nullptr : found;
}

int run(const Arguments& arguments) {
  if (arguments.empty()) {
    print_help();
    return static_cast<int>(ExitCode::usage);
  }
  if (arguments[0] == "help" && arguments.size() > 1) {  // "sweep merge --help"
    Arguments words(arguments.begin() + 1, arguments.end());
    words.emplace_back("--help");
    return run(words);
  }
  if (arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    print_help();
    return 0;
  }
  const std::string first = arguments[0] == "--version" ? "version" : arguments[0];
  // Of two words the command that has both, where there is one.
  const Command* command = arguments.size() > 1 ? named(first + " " + arguments[1]) : nullptr;
  Arguments rest(arguments.begin() + (command != nullptr ? 2 : 1), arguments.end());
  if (command == nullptr) command = named(first);
  if (command == nullptr) {
    throw UsageError(fmt::format("unknown command \"{}\"{} (tandem --help lists them)", first,
                                 did_you_mean(first, command_names())));
  }
  // Jobs of minutes and hours, often without a terminal.
  const bool of_hours = command->run == run_plan || command->run == run_train;
  const std::shared_ptr<void> watched =
      watch(first, of_hours ? ProgressShown::anywhere : ProgressShown::on_terminals);
  Options options = command->options();
  options.parse(rest);
  return command->run(options);
}

}  // namespace

/// stdout may be a full disk: what was printed must have arrived.
static int flush_output(int code) {
  if (std::fflush(stdout) == 0 && std::cout.flush() && std::ferror(stdout) == 0) return code;
  report_failure(ExitCode::failed, "standard output: cannot write", {}, false);
  return code == 0 ? static_cast<int>(ExitCode::failed) : code;
}

/// A stream that was closed by whoever started us would lend its number to the next file opened,
/// and what is printed would go there.
static void open_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // Read-only: that the results go nowhere must show.
    if (::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

std::span<const Command> commands() { return kCommands; }

static int run_guarded(const Arguments& arguments) {
  const bool json = std::ranges::find(arguments, "--json") != arguments.end();
  try {
    return run(arguments);
  } catch (const HelpShown&) {
    return 0;
  } catch (const InputError& error) {
    return report_failure(error.code(), error.what(), error.diagnostics(), json);
  } catch (const Error& error) {
    return report_failure(error.code(), error.what(), {}, json);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return report_failure(
          ExitCode::environment,
          fmt::format("the system starts no more threads: {} (see ulimit -u, -v and -s)",
                      error.code().message()),
          {}, json);
    }
    if (std::ferror(stdout) == 0) report_failure(ExitCode::failed, error.what(), {}, json);
  } catch (const std::bad_alloc&) {
    report_failure(ExitCode::failed, out_of_memory(), {}, json);
  } catch (const std::length_error&) {  // of a vector: more than any machine has
    report_failure(ExitCode::failed, out_of_memory(), {}, json);
  } catch (const std::exception& error) {
    // When it is stdout that failed, flush_output() says so.
    if (std::ferror(stdout) == 0) report_failure(ExitCode::failed, error.what(), {}, json);
  }
  return static_cast<int>(ExitCode::failed);
}

}  // namespace tandem::tools

int main(int argc, char** argv) {
  tandem::tools::explain_lost_memory({argv, argv + argc});
  tandem::tools::open_closed_streams();
  tandem::tools::make_output_safe();
  tandem::tools::remove_temporaries_when_killed();
  tandem::tools::explain_lost_mappings();
  const int code = tandem::tools::with_stack_room(
      [&] { return tandem::tools::run_guarded({argv + 1, argv + argc}); });
  return tandem::tools::flush_output(code);
}
