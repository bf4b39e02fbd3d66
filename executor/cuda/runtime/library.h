#pragma once
// A library that programs load when they first need it, and where CUDA's may be.

#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace tandem::cuda {

/// Loaded for the life of the process.
class Library {
 public:
  /// Null where there is no library: tests put others in their place.
  struct Function {
    void* address = nullptr;
    template <class Type>
    operator Type*() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<Type*>(address);
    }
  };

  Library() = default;
  /// The first of `places` that is one. Throws AbsentError, which names `what` and all of them.
  Library(const char* what, std::span<const std::string> places);

  const std::string& path() const { return path_; }
  /// As dlopen() gave it.
  void* handle() const { return handle_; }
  /// Its function of this name, of whatever type it is. Throws AbsentError.
  Function operator[](const char* name) const;

 private:
  std::string path_;
  void* handle_ = nullptr;
};

/// What to try for `file`, such as libcublasLt.so.13, in this order: where the system and
/// LD_LIBRARY_PATH have it; where variables of the environment say, `homes` first, then CUDA_HOME
/// and CUDA_PATH; the usual place; packages of Python.
std::vector<std::string> library_places(const std::string& file,
                                        std::initializer_list<const char*> homes = {});

/// Those of the packages that are there: NVIDIA's own wheels, and PyTorch with its libraries.
/// `packages`: folders that Python has its packages in.
std::vector<std::string> places_in_packages(const std::string& file,
                                            std::span<const std::filesystem::path> packages);

/// Folders of packages: of the environment of Python (`environment`, may be empty), of the first
/// python3 in the folders of `path`, separated by colons, and of the system.
std::vector<std::filesystem::path> python_packages(const std::string& environment,
                                                   const std::string& path);

}  // namespace tandem::cuda
