#include "core/import/importers.h"

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "core/text/files.h"
#include "tests/support/source_folder.h"

namespace tandem {
namespace {

/// What tells of each kept input of a fuzzer whose format it is; "ours" where nobody's.
template <class Read>
std::set<std::string_view> formats_of(const char* folder) {
  std::set<std::string_view> found;
  for (const auto& entry : std::filesystem::directory_iterator(testing::source_folder() /
                                                               "tests/fuzz/corpus" / folder)) {
    const Importer* importer = importer_of<Read>(read_file(entry.path().string(), 1'000'000));
    found.insert(importer == nullptr ? "ours" : importer->name);
  }
  return found;
}

using Formats = std::set<std::string_view>;

TEST(Importers, HaveNamesOfTheirOwn) {
  Formats names;
  for (const Importer& one : importers()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    EXPECT_EQ(&find_importer(one.name), &one);
    EXPECT_FALSE(one.help.empty()) << one.name;
  }
}

TEST(Importers, ModelsAreToldApartByTheirContent) {
  EXPECT_EQ(formats_of<ReadModel>("hugging_face"), Formats{"hugging-face"});
  EXPECT_EQ(formats_of<ReadModel>("megatron"), Formats{"megatron"});
  EXPECT_EQ(formats_of<ReadModel>("nvidia_smi"), Formats{"ours"});
  EXPECT_EQ(importer_of<ReadModel>(R"({"version": 1, "n_embd": 8})"), nullptr);
  EXPECT_EQ(importer_of<ReadModel>(R"({"model_type": )"), nullptr);
}

TEST(Importers, SchedulesAreToldApartByTheirContent) {
  EXPECT_EQ(formats_of<ReadSchedule>("pytorch_csv"), Formats{"pytorch-csv"});
  EXPECT_EQ(formats_of<ReadSchedule>("notation"), Formats{"ours"});
}

TEST(Importers, AClusterIsNoModel) {
  EXPECT_EQ(formats_of<ReadCluster>("nccl_xml"), Formats{"nccl-xml"});
  EXPECT_EQ(formats_of<ReadCluster>("hugging_face"), Formats{"ours"});
}

}  // namespace
}  // namespace tandem
