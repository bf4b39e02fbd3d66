# shellcheck shell=bash disable=SC2034  # Those who source this use the lists.
# The one list of the Debian packages that tandem needs. Sourced by tools/test, tools/demo and tools/scripts.

# What builds `tandem`; the tests need more, and are left out where that is missing.
packages_build=(g++ cmake ninja-build libboost-program-options-dev libfmt-dev
  nlohmann-json3-dev libpcre2-dev libpugixml-dev libsodium-dev libutf8proc-dev libxxhash-dev zlib1g-dev libdnnl-dev)
# What tests are built with, compare with, open pages with, check JSON against schemas with, and shells that complete words; all
# but the first two may be missing, then tests skip, but in CI.
packages_test=(libgtest-dev libgmock-dev coinor-cbc chromium libvalijson-dev zsh fish libopenmpi-dev openmpi-bin iproute2 slurm-wlm)
# What tools/scripts/oracles makes its environments with, and what packages of PyPI there import.
packages_oracles=(python3-venv python3-pip python3-torch python3-numpy python3-packaging python3-requests python3-yaml
  python3-typing-extensions python3-six python3-setuptools)
# Peers that tools/scripts/bench compares with; it does without those it lacks.
packages_bench=(libsimgrid-dev python3-torch libopenblas0-pthread)
# What tools/scripts/corpus reads texts from: public domain all.
packages_corpus=(python3 sword-comm-tdavid sword-comm-mhcc libsword-utils bible-kjv bible-kjv-text jargon-text)
# For the presets dev and tidy. Debian's default clang, 14, rejects correct C++20 with libstdc++ 12.
packages_clang=(clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev)

# install_missing <package>...: says what is missing and installs it; silent when nothing is.
install_missing() {
  local package missing=() as_root=()
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "No apt here, so nothing is installed. Needed, under your system's names: $*" >&2
    return 0  # They may well be there: the configure step finds out.
  fi
  for package in "$@"; do
    # shellcheck disable=SC2016  # ${Status} is dpkg-query's own.
    [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) == *" installed" ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "Missing packages: ${missing[*]}" >&2
      echo "Neither root nor sudo here. Have them installed: apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
    [[ ${CI:-} != true ]] || as_root+=(-n)  # Fail rather than wait for a password nobody will type.
  fi
  echo "Installing by apt-get: ${missing[*]}"
  if ! "${as_root[@]}" apt-get update -qq </dev/null ||
    ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
      --no-install-recommends "${missing[@]}" </dev/null >/dev/null; then
    echo "apt-get could not install: ${missing[*]}" >&2
    return 1
  fi
}
