#include "executor/cuda/runtime/library.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <system_error>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"

namespace tandem::cuda {
namespace {

namespace fs = std::filesystem;

std::string environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

/// What is in a folder, in the order of names; nothing where it can't be read.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

/// Of an installation of Python: lib/python3.N/site-packages, or dist-packages as Debian says.
void add_packages(const fs::path& root, std::vector<fs::path>& packages) {
  for (const char* lib : {"lib", "lib64"}) {
    for (const fs::path& version : entries(root / lib)) {
      if (!version.filename().string().starts_with("python3")) continue;
      for (const char* name : {"site-packages", "dist-packages"}) {
        std::error_code error;
        if (fs::is_directory(version / name, error)) packages.push_back(version / name);
      }
    }
  }
}

}  // namespace

std::vector<fs::path> python_packages(const std::string& environment, const std::string& path) {
  std::vector<fs::path> packages;
  if (!environment.empty()) add_packages(environment, packages);
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const fs::path folder = path.substr(at, end - at);
    at = end + 1;
    std::error_code error;
    if (folder.empty() || !fs::exists(folder / "python3", error)) continue;
    add_packages(folder.parent_path(), packages);
    // A link of the system's to an installation elsewhere.
    const fs::path real = fs::canonical(folder / "python3", error);
    if (!error) add_packages(real.parent_path().parent_path(), packages);
    break;
  }
  for (const char* root : {"/usr/local", "/usr"}) add_packages(root, packages);
  return packages;
}

std::vector<std::string> places_in_packages(const std::string& file,
                                            std::span<const fs::path> packages) {
  std::vector<std::string> places;
  const auto add = [&](const fs::path& folder) {
    const std::string place = (folder / file).string();
    std::error_code error;
    if (fs::exists(place, error) && std::ranges::find(places, place) == places.end())
      places.push_back(place);
  };
  for (const fs::path& folder : packages) {
    for (const fs::path& part : entries(folder / "nvidia")) add(part / "lib");
    add(folder / "torch" / "lib");
  }
  return places;
}

std::vector<std::string> library_places(const std::string& file,
                                        std::initializer_list<const char*> homes) {
  std::vector<std::string> roots;
  for (const char* home : homes) roots.push_back(environment_variable(home));
  for (const char* home : {"CUDA_HOME", "CUDA_PATH"}) roots.push_back(environment_variable(home));
  roots.emplace_back("/usr/local/cuda");
  std::vector<std::string> places{file};
  for (const std::string& root : roots) {
    if (root.empty()) continue;
    for (const char* lib : {"lib64", "lib"})
      places.push_back(fmt::format("{}/{}/{}", root, lib, file));
  }
  const std::vector<fs::path> packages =
      python_packages(environment_variable("VIRTUAL_ENV"), environment_variable("PATH"));
  std::ranges::move(places_in_packages(file, packages), std::back_inserter(places));
  return places;
}

Library::Library(const char* what, std::span<const std::string> places) {
  for (const std::string& place : places) {
    handle_ = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) continue;
    path_ = place;
    return;
  }
  throw AbsentError(fmt::format("{} can't be loaded: no {}", what, fmt::join(places, ", no ")));
}

Library::Function Library::operator[](const char* name) const {
  if (handle_ == nullptr) return {};
  void* const address = dlsym(handle_, name);
  if (address == nullptr) throw AbsentError(fmt::format("{} has no {}()", path_, name));
  return {address};
}

}  // namespace tandem::cuda
