#pragma once
// What the backend of GPUs gives the table of backends (executor/backends.h). No header of CUDA:
// where the build found no compiler for it, absent.cpp stands in.

#include <memory>
#include <string>

#include "executor/profile/profile.h"
#include "executor/run/training_setup.h"

namespace tandem {

/// Why nothing can be trained on GPUs; empty: it can.
std::string why_no_cuda();

/// A library that is looked for while the program runs.
struct FoundLibrary {
  std::string version = {};
  std::string why_absent = {};  // empty: it is there
};
FoundLibrary find_nccl();
/// Before CUDA or NCCL are asked for anything in a process that trains by NCCL. What the user has
/// set in the environment stays.
void prepare_nccl();
FoundLibrary find_cudnn();

// Throw AbsentError where nothing can be trained on GPUs.
std::unique_ptr<Trainer> make_cuda_trainer();
/// measure_profile() on GPUs, timed by their events; `machine` names them. Zero busy devices: one a
/// GPU; more than there are get a part of one each. Algorithms of products are chosen by timing
/// first.
MeasuredProfile measure_cuda_profile(ProfileRequest request);

}  // namespace tandem
