// Checkpoints: what a run wrote, another begins with to the same bits; every byte that is not as it
// was written is told of; a run that can't write goes on, or ends as it was asked to.

#include "executor/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/text/files.h"
#include "executor/checkpoint/average.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/checkpoint_writer.h"
#include "executor/checkpoint/semantics_digest.h"
#include "tests/core/error_of.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/run_command.h"
#include "tests/support/sanitizers.h"
#include "tests/support/trajectory.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

using testing::by_executor;
using ::testing::HasSubstr;
using testing::Trace;
using testing::TrainingCase;

class Checkpoints : public ::testing::Test {
 protected:
  static CheckpointInfo info_of(const TrainingCase& test, std::int64_t batches = 0) {
    CheckpointInfo info{.written_by = "the test",
                        .model = test.model,
                        .schedule = test.schedule,
                        .optimizer = test.optimizer.optimizer(),
                        .seed = test.seed,
                        .samples_a_batch = test.microbatches * test.width * test.microbatch_size};
    const ReferenceConfig config = testing::reference_config(test, test.semantics());
    info.semantics = semantics_digest(test.model, config);
    info.summation = summation_digest(test.model, config);
    info.settings = {{"learning rate", "0.01"}};
    info.batches = batches;
    info.samples = batches * info.samples_a_batch;
    return info;
  }

  CheckpointOptions options(std::int64_t every = 1, std::int64_t keep = 0) const {
    return {.folder = folder_, .every = every, .keep = keep};
  }

  /// Trains, keeping checkpoints; of some none may be written while another is.
  Trace<float> train(const TrainingCase& test, const CheckpointOptions& how,
                     const TrainingStart<float>* start = nullptr) const {
    const Program program = lower(test.make());
    const SlotCounts slots = count_slots(program);
    const std::vector<LayerRange> layers =
        testing::even_stages(test.model, program.placement().stages());
    CheckpointWriter writer(
        how, info_of(test, start == nullptr ? 0 : start->batches()), test.batches,
        kept_tensors(program, slots, test.model, layers, test.optimizer.optimizer()));
    Trace<float> trace =
        by_executor<float>(test, program, slots, {}, [&](TrainingSetup<float>& setup) {
          setup.keeper = &writer;
          setup.start = start;
        });
    newest_ = writer.finish();
    return trace;
  }

  testing::TemporaryFolder temporary_;  // tests run beside one another
  std::string folder_ = temporary_.path() / "checkpoints";
  mutable std::string newest_;
};

/// The weights of the last version.
std::map<std::string, std::vector<float>> last_weights(const Trace<float>& trace) {
  std::map<std::string, std::vector<float>> last;
  for (const auto& [key, values] : trace.weights) last[key.second] = values;
  return last;
}

TEST_F(Checkpoints, AreGoneOnFromToTheSameBits) {
  for (const char* schedule : {"1f1b", "2bw", "pipedream", "spectrain", "pipemare"}) {
    SCOPED_TRACE(schedule);
    fs::remove_all(folder_);
    TrainingCase test = TrainingCase::on(schedule, 2);
    ASSERT_TRUE(test.take_microbatches(4));
    const Trace<float> whole = train(test, options());
    ASSERT_TRUE(newest_.ends_with("step-00000004"));
    const std::vector<FoundCheckpoint> found = checkpoints_in(folder_);
    ASSERT_FALSE(found.empty());
    for (const FoundCheckpoint& each : found) {
      if (each.batches == test.batches) continue;
      SCOPED_TRACE(each.batches);
      const Checkpoint checkpoint(each.path);
      EXPECT_EQ(checkpoint.batches(), each.batches);
      const Program program = lower(test.make());
      const Trace<float> rest =
          by_executor<float>(test, program, count_slots(program), {},
                             [&](TrainingSetup<float>& setup) { setup.start = &checkpoint; });
      EXPECT_EQ(last_weights(rest), last_weights(whole));
    }
    const Checkpoint last(folder_);
    EXPECT_EQ(last.batches(), test.batches);
    for (const auto& [name, values] : last_weights(whole)) {
      const Tensor tensor{.name = name, .shape = {std::ssize(values)}};
      for (const LayerTensor& each : tensors_of(test.model)) {
        if (each.tensor.name != name) continue;
        std::vector<float> read(values.size());
        ASSERT_TRUE(last.read(kNewestWeights, each.tensor, read));
        EXPECT_EQ(read, values) << name;
      }
    }
  }
}

TEST_F(Checkpoints, OfOneRunContinueAnother) {
  TrainingCase test{.schedule = "2bw", .devices = 2, .batches = 2};
  train(test, options(0));
  TrainingCase rest = test;
  rest.batches = 5;
  {
    const Checkpoint checkpoint(folder_);
    EXPECT_EQ(checkpoint.info().samples, 2 * 4);
    train(rest, options(0), &checkpoint);
  }
  const Checkpoint second(folder_);
  EXPECT_EQ(second.info().samples, 5 * 4);
  EXPECT_EQ(second.info().steps, std::vector<std::int64_t>(6, 5));
  rest.devices = 1;
  EXPECT_EQ(second.info().semantics, info_of(rest).semantics);
  EXPECT_EQ(second.info().summation, info_of(rest).summation);
  rest.width = 2;
  rest.microbatches = 2;
  EXPECT_EQ(second.info().semantics, info_of(rest).semantics);
  EXPECT_NE(second.info().summation, info_of(rest).summation);
  rest.schedule = "1f1b";
  EXPECT_NE(second.info().semantics, info_of(rest).semantics);
}

void flip(const std::string& path, std::streamoff place) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(place);
  const int byte = file.get();
  file.seekp(place);
  file.put(static_cast<char>(byte ^ 0x10));
}

std::string reason_against(const std::string& path) {
  try {
    const Checkpoint checkpoint(path);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

// All bytes of all files but the tensors', of which some of each: they are many.
TEST_F(Checkpoints, TellOfEveryByteThatIsNotAsItWasWritten) {
  TrainingCase test{.schedule = "2bw", .devices = 2, .batches = 2};
  train(test, options(0));
  const std::string folder = newest_;
  ASSERT_EQ(reason_against(folder), "none");
  std::size_t flipped = 0;
  for (const char* name : {kManifestName, kConfigName, kWeightsName, kStateName}) {
    const std::string path = folder + "/" + name;
    const auto size = static_cast<std::streamoff>(fs::file_size(path));
    const std::streamoff step =
        std::max<std::streamoff>(1, size / (testing::kSanitized ? 100 : 700));
    for (std::streamoff place = 0; place < size; place += step) {
      flip(path, place);
      const std::string said = reason_against(folder);
      EXPECT_THAT(said, HasSubstr(name)) << place;
      EXPECT_THAT(said, HasSubstr("copy the files again")) << place;
      flip(path, place);
      ++flipped;
    }
    const std::string content = read_file(path, 1U << 30U);
    for (const std::size_t length : {content.size() - 1, content.size() / 2, std::size_t{3}}) {
      write_file(path, content.substr(0, length));
      EXPECT_THAT(reason_against(folder), HasSubstr(name)) << length;
    }
    write_file(path, content + " ");
    EXPECT_THAT(reason_against(folder), HasSubstr(name));
    fs::remove(path);
    EXPECT_NE(reason_against(folder), "none") << name;
    write_file(path, content);
  }
  EXPECT_GT(flipped, testing::kSanitized ? 300U : 1000U);
  EXPECT_EQ(reason_against(folder), "none");
}

TEST_F(Checkpoints, HaveNoFilesElsewhere) {
  TrainingCase test{.schedule = "1f1b", .devices = 2, .batches = 1};
  train(test, options(0));
  const std::string path = newest_ + "/" + kManifestName;
  const std::string text = read_file(path, 1U << 20U);
  for (const char* outside : {"../config.json", "/etc/passwd", ".."}) {
    std::string other = text.substr(0, text.rfind("// xxh3"));
    const std::size_t at = other.find(kConfigName);
    ASSERT_NE(at, std::string::npos);
    write_file(path, with_checksum(other.replace(at, std::strlen(kConfigName), outside)));
    EXPECT_THAT(reason_against(newest_), HasSubstr("a file in the same folder")) << outside;
  }
  write_file(path, text);
  EXPECT_EQ(reason_against(newest_), "none");
}

TEST_F(Checkpoints, NameTheTensorAndAnOlderCheckpoint) {
  TrainingCase test{.schedule = "2bw", .devices = 2, .batches = 2};
  train(test, options(0));
  test.batches = 3;
  {
    const Checkpoint older(folder_);
    train(test, options(0), &older);
  }
  const SafetensorsFile file(newest_ + "/" + kStateName);
  const StoredTensor& last = file.tensors().back();
  flip(newest_ + "/" + kStateName, static_cast<std::streamoff>(file.head().size() + last.begin));
  const std::string said = reason_against(folder_);
  EXPECT_THAT(said, HasSubstr(fmt::format("tensor \"{}\" is not as it was written", last.name)));
  EXPECT_THAT(said, HasSubstr("resume from " + folder_ + "/" + checkpoint_name(2)));
}

TEST_F(Checkpoints, ThatAreHalfWrittenAreNoneAndAreCleared) {
  TrainingCase test{.schedule = "1f1b", .devices = 2, .batches = 2};
  train(test, options(0));
  fs::create_directories(folder_ + "/.step-00000003");
  write_file(folder_ + "/.step-00000003/model.safetensors", "half");
  fs::create_directories(folder_ + "/step-00000004");  // being removed: its manifest went first
  write_file(folder_ + "/step-00000004/model.safetensors", "half");
  EXPECT_TRUE(newest_checkpoint(folder_).ends_with("step-00000002"));
  const CheckpointFolder cleared(folder_, 2);
  EXPECT_FALSE(fs::exists(folder_ + "/.step-00000003"));
  EXPECT_THROW(CheckpointFolder(folder_, 2), DeviceError);  // it is taken
}

// In the way of the second one lies what is not the run's.
TEST_F(Checkpoints, ThatFailAreNeverSilent) {
  TrainingCase test{.schedule = "1f1b", .devices = 2, .batches = 3};
  for (int i = 0; i < 5; ++i) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/step-00000002");
    write_file(folder_ + "/step-00000002/notes.txt", "precious");
    CheckpointOptions how = options(2);
    how.stop_on_failure = true;
    EXPECT_THROW(train(test, how), DeviceError);
    EXPECT_EQ(read_file(folder_ + "/step-00000002/notes.txt", 100), "precious");
  }
}

TEST_F(Checkpoints, AreNoFolderOfCheckpoints) {
  TrainingCase test{.schedule = "1f1b", .devices = 2, .batches = 1};
  train(test, options(0));
  EXPECT_THROW(CheckpointFolder(newest_, 1), InputError);
}

TEST_F(Checkpoints, NeedTheStateOfTheirOptimizer) {
  TrainingCase test{.schedule = "1f1b", .devices = 2, .batches = 1};
  train(test, options(0));
  CheckpointManifest manifest = Checkpoint(newest_).manifest();
  manifest.bytes.erase(kStateName);
  manifest.sums.erase(kStateName);
  write_file(newest_ + "/" + kManifestName, manifest_text(manifest));
  EXPECT_THAT(reason_against(newest_), HasSubstr("first_moment.embedding.token.weight"));
}

// Edited, with a checksum that is right again.
TEST_F(Checkpoints, WithCountsThatNoRunHasAreRefused) {
  TrainingCase test{.schedule = "1f1b", .devices = 2, .batches = 2};
  train(test, options(0));
  const CheckpointManifest whole = Checkpoint(newest_).manifest();
  const auto refused = [&](const std::function<void(CheckpointInfo&)>& edit) {
    CheckpointManifest edited = whole;
    edit(edited.info);
    write_file(newest_ + "/" + kManifestName, manifest_text(edited));
    return reason_against(newest_);
  };
  EXPECT_EQ(refused([](CheckpointInfo&) {}), "none");
  using Info = CheckpointInfo;
  EXPECT_THAT(refused([](Info& info) { info.batches = 200'000'000; }), HasSubstr("/batches"));
  EXPECT_THAT(refused([](Info& info) { info.batches = -1; }), HasSubstr("/batches"));
  EXPECT_THAT(refused([](Info& info) { info.batches = 99'000'000; }), HasSubstr("/samples"));
  EXPECT_THAT(refused([](Info& info) { info.samples = 1; }), HasSubstr("/samples"));
  EXPECT_THAT(refused([](Info& info) { info.samples_a_batch = 1 << 20; }), HasSubstr("/samples"));
  EXPECT_THAT(refused([](Info& info) { info.steps[1] = info.samples + 1; }), HasSubstr("/steps/1"));
  EXPECT_THAT(refused([](Info& info) { info.steps.pop_back(); }), HasSubstr("every layer"));
}

TEST_F(Checkpoints, AreNotWrittenToALinkThatLeadsNowhere) {
  fs::create_directory_symlink("gone", folder_);
  EXPECT_THAT(testing::error_of<DeviceError>([&] { CheckpointFolder(folder_, 0); }),
              HasSubstr("it is a link to gone, which is not there"));
  fs::create_directory(fs::path(folder_).parent_path() / "gone");
  EXPECT_NO_THROW(CheckpointFolder(folder_, 0));
}

TEST_F(Checkpoints, AreNotWrittenOverThoseOfAnotherRun) {
  TrainingCase test{.schedule = "1f1b", .devices = 2, .batches = 2};
  train(test, options(0));
  EXPECT_THROW(train(test, options(0)), InputError);
}

/// Who asks while another waits for the one before to be written hears the same as that other.
TEST_F(Checkpoints, TheLastIsWantedOfAllWhoAskForIt) {
  TrainingCase test = TrainingCase::on("1f1b", 2);
  const Program program = lower(test.make());
  const std::vector<KeptTensor> tensors = kept_tensors(
      program, count_slots(program), test.model,
      testing::even_stages(test.model, program.placement().stages()), test.optimizer.optimizer());
  CheckpointWriter writer(options(), info_of(test), 2, tensors);
  const auto show_all = [&](std::int64_t batches) {
    std::vector<Tensor> all;
    for (const KeptTensor& each : tensors) {
      const std::vector<float> zeros(static_cast<std::size_t>(each.tensor.size()));
      for (const Plane plane : each.planes) writer.keep({batches, plane, each.tensor, zeros});
      all.push_back(each.tensor);
    }
    writer.end_stage(batches, all, batches);
  };
  ASSERT_TRUE(writer.wants(1));
  std::array<std::future<bool>, 3> asked;
  for (std::future<bool>& one : asked)
    one = std::async(std::launch::async, [&] { return writer.wants(2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  show_all(1);
  for (std::future<bool>& one : asked) EXPECT_TRUE(one.get());
  show_all(2);
  EXPECT_TRUE(writer.finish().ends_with("step-00000002"));
}

TEST_F(Checkpoints, OlderOnesGo) {
  TrainingCase test{.schedule = "1f1b", .devices = 1, .batches = 1};
  for (std::int64_t batches = 1; batches <= 5; ++batches) {
    test.batches = batches;
    if (batches == 1) {
      train(test, options(0, 3));
      continue;
    }
    const Checkpoint checkpoint(folder_);
    train(test, options(0, 3), &checkpoint);
  }
  std::vector<std::int64_t> left;
  for (const FoundCheckpoint& each : checkpoints_in(folder_)) left.push_back(each.batches);
  EXPECT_EQ(left, (std::vector<std::int64_t>{3, 4, 5}));
}

// A limit on the size of files is a full disk, but for the error's number.
TEST_F(Checkpoints, ThatCannotBeWrittenLeaveTheLastWhole) {
  TrainingCase test{.schedule = "1f1b", .devices = 2, .batches = 1};
  train(test, options(0));
  const Checkpoint first(folder_);
  test.batches = 6;
  std::vector<std::string> notes;
  std::mutex mutex;
  CheckpointOptions how = options(1);
  how.on_notice = [&](const std::string& note) {
    const std::lock_guard lock(mutex);
    notes.push_back(note);
  };
  {
    const testing::FileSizeLimit full(1000);
    EXPECT_THROW(train(test, how, &first), DeviceError);  // the last one is not there either
  }
  EXPECT_THAT(notes, ::testing::Contains(HasSubstr("could not be written")));
  EXPECT_TRUE(newest_checkpoint(folder_).ends_with("step-00000001"));
  EXPECT_EQ(reason_against(folder_), "none");
  how.stop_on_failure = true;
  {
    const testing::FileSizeLimit full(1000);
    EXPECT_THROW(train(test, how, &first), DeviceError);
  }
  train(test, options(1), &first);
  EXPECT_TRUE(newest_checkpoint(folder_).ends_with("step-00000006"));
}

TEST_F(Checkpoints, AverageToTheMean) {
  TrainingCase test{.schedule = "1f1b", .devices = 1, .batches = 1};
  train(test, options(0));
  std::vector<std::unique_ptr<Checkpoint>> all;
  all.push_back(std::make_unique<Checkpoint>(newest_));
  test.batches = 3;
  train(test, options(0), all.front().get());
  all.push_back(std::make_unique<Checkpoint>(newest_));
  const std::string mean = temporary_.path() / "mean";
  write_average(all, mean + "/");
  EXPECT_THROW(write_average(all, mean), DeviceError);
  const SafetensorsFile file(mean + "/" + kWeightsName);
  std::vector<float> a(256 * 8), b(256 * 8), read(256 * 8);
  const LayerTensor table = tensors_of(test.model).front();
  ASSERT_TRUE(all[0]->read(kNewestWeights, table.tensor, a));
  ASSERT_TRUE(all[1]->read(kNewestWeights, table.tensor, b));
  file.read(*file.find("transformer.wte.weight"), 0, read);
  EXPECT_NE(a, b);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(read[i], static_cast<float>((static_cast<double>(a[i]) + b[i]) / 2));
}

TEST(NamedParts, CutColumnsAndTransposeThemAndBack) {
  const NamedPart part{.name = "k",
                       .shape = {2, 3},
                       .first_column = 1,
                       .columns = 2,
                       .rows = 3,
                       .row_length = 4,
                       .transposed = true};
  const std::vector<float> whole = {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23};
  std::vector<float> taken(6), back(12, -1);
  take_part(part, whole, taken);
  EXPECT_EQ(taken, (std::vector<float>{1, 11, 21, 2, 12, 22}));
  put_part(part, taken, back);
  EXPECT_EQ(back, (std::vector<float>{-1, 1, 2, -1, -1, 11, 12, -1, -1, 21, 22, -1}));
}

}  // namespace
}  // namespace tandem
