#pragma once
// Where CUDA's libraries may be that programs load when they first need them.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tandem::cuda {

/// What dlopen() is to try for `file`, such as libcublasLt.so.13, in this order: where the system
/// and LD_LIBRARY_PATH have it; CUDA_HOME, CUDA_PATH and the usual place; packages of Python.
std::vector<std::string> library_places(const std::string& file);

/// Those of the packages that are there: NVIDIA's own wheels, and PyTorch with its libraries.
/// `packages`: folders that Python has its packages in.
std::vector<std::string> places_in_packages(const std::string& file,
                                            std::span<const std::filesystem::path> packages);

/// Folders of packages: of the environment of Python (`environment`, may be empty), of the first
/// python3 in the folders of `path`, separated by colons, and of the system.
std::vector<std::filesystem::path> python_packages(const std::string& environment,
                                                   const std::string& path);

}  // namespace tandem::cuda
