#include "executor/backends.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace tandem {
namespace {

TEST(Backends, HaveATransportForEachStorageThatTheyOffer) {
  for (const BackendTraits& backend : backends()) {
    EXPECT_EQ(&find_backend(backend.name), &backend);
    for (const Storage storage : backend.storages) {
      EXPECT_TRUE(backend.offers(storage));
      EXPECT_TRUE(std::ranges::any_of(transports(), [&](const TransportTraits& transport) {
        return transport.backend == backend.name &&
               std::ranges::find(transport.storages, storage) != transport.storages.end();
      })) << backend.name;
    }
  }
}

TEST(Backends, TheDefaultIsNeverAbsentAndKeepsTheBits) {
  const BackendTraits& backend = backends().front();
  EXPECT_EQ(backend.reason_absent(), "");
  EXPECT_EQ(backend.why_other_bits, "");
  EXPECT_NO_THROW(check_present(backend));
  EXPECT_NE(backend.make(), nullptr);
}

TEST(Backends, AnAbsentOneSaysWhy) {
  for (const BackendTraits& backend : backends()) {
    if (backend.reason_absent().empty()) continue;
    EXPECT_THROW(check_present(backend), AbsentError);
    EXPECT_THROW(backend.make(), AbsentError);
    EXPECT_THROW(backend.measure({}), AbsentError);
  }
}

TEST(Transports, AreOfABackend) {
  std::set<std::string_view> names;
  for (const TransportTraits& transport : transports()) {
    EXPECT_TRUE(names.insert(transport.name).second) << transport.name;
    EXPECT_FALSE(transport.storages.empty()) << transport.name;
    EXPECT_NO_THROW(find_backend(transport.backend));
  }
  for (const std::string& here : transports_here())
    EXPECT_EQ(find_backend(find_transport(here).backend).reason_absent(), "") << here;
}

}  // namespace
}  // namespace tandem
