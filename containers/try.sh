#!/bin/bash
# Builds both images and runs docker-compose.yml for real: PostgreSQL, migration, service and a
# CPU worker; submits two tiny jobs through the API (eager and compiled), waits for their results,
# prints them, and takes everything down again on every way out. `make containers` runs it.
#
#   THROUGHLINE_ENGINE=docker|podman  which engine; without it Docker if a daemon answers
#   THROUGHLINE_TRY_FOLDER=FOLDER     where podman keeps images, and keeps them for the next run;
#                                     without it a temporary folder that is removed
#   THROUGHLINE_TORCH_CPU_INDEX=URL   where the CPU build of torch comes from; empty: as pip finds it
#   THROUGHLINE_DEBIAN_MIRROR=URL     for the base image where no image registry can be reached
#   THROUGHLINE_TRY_LIMIT_S=900       how long each job may take
#
# Exit 0: the results came and are ok. Anything else: a sentence on standard error says what failed.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD/containers
# shellcheck source-path=SCRIPTDIR source=engine.sh
source "$here/engine.sh"

say() { printf '==> [%d s] %s\n' "$SECONDS" "$*" >&2; }
fail() {
  echo "make containers: $*" >&2
  exit 1
}

scratch=
running=       # the process group that is waited for
stage=starting # what is being done, for the last sentence

finish() {
  local code=$?
  trap - EXIT
  trap '' INT TERM HUP # a second Ctrl-C must not leave half of it behind
  set +e
  stop_running
  tear_down
  if [ -n "$scratch" ]; then rm -rf --one-file-system -- "$scratch" || say "The folder $scratch could not be removed: remove it by hand."; fi
  case "$code" in
    0) ;;
    130 | 143) echo "make containers: stopped while $stage; everything was taken down." >&2 ;;
    *) echo "make containers: failed while $stage (exit code $code); the lines above say why." >&2 ;;
  esac
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Runs a command so that a signal ends this script at once instead of after the command.
supervised() {
  local code=0
  set -m # a process group of its own, so that all of it can be stopped
  "$@" </dev/null &
  running=$!
  set +m
  wait "$running" || code=$?
  running=
  return "$code"
}

prepare_scratch() {
  stage="making a scratch folder"
  scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/throughline-containers.XXXXXXXX")
  store=${THROUGHLINE_TRY_FOLDER:-$scratch/store}
  mkdir -p "$store" "$scratch/pip"
  store=$(cd "$store" && pwd)
  local free
  free=$(df --output=avail -k "$store" | tail -n 1)
  [ "$free" -gt $((10 * 1024 * 1024)) ] ||
    fail "the images need about 10 GB and $store has $((free / 1024 / 1024)) GB: free some, or name another place in THROUGHLINE_TRY_FOLDER."
}

read_pip_settings() {
  stage="reading pip's configuration"
  local pip=(python3 -m pip)
  if [ -x .venv/bin/pip ]; then pip=(.venv/bin/pip); fi
  # Only what says where packages come from, as a secret that stays in no layer.
  { "${pip[@]}" config list 2>/dev/null || true; } | "$python" "$here/pip_settings.py" "$scratch/pip"
  mapfile -t pip_mounts <"$scratch/pip/mounts"
}

# The CPU build spares gigabytes of CUDA; where PyTorch's index is out of reach pip's own
# configuration decides, and at worst the CUDA build is installed, which runs on a CPU as well.
choose_torch() {
  local index=https://download.pytorch.org/whl/cpu
  if [ -n "${THROUGHLINE_TORCH_CPU_INDEX+set}" ]; then
    torch_index=$THROUGHLINE_TORCH_CPU_INDEX
  elif "$python" -c "import urllib.request as u; u.urlopen('$index/torch/', timeout=10)" 2>/dev/null; then
    torch_index=$index
  else
    say "$index does not answer: torch comes from where pip is configured to look."
    torch_index=
  fi
}

# Base images: from a registry, or else Debian itself, unpacked by debootstrap.
choose_bases() {
  stage="getting the base images"
  local python_image postgres_image
  python_image=$(sed -n 's/^ARG PYTHON_IMAGE=//p' Dockerfile)
  postgres_image=$(sed -n 's/.*THROUGHLINE_POSTGRES_IMAGE:-\(.*\)}$/\1/p' docker-compose.yml)
  base_args=()
  if has_image localhost/throughline-try-base && has_image localhost/throughline-try-postgres; then
    say "Using the base images of an earlier run in $store."
  elif supervised pull "$python_image" && supervised pull "$postgres_image"; then
    return 0
  else
    say "The base images could not be pulled: making them from Debian packages."
    build_bases
  fi
  base_args=(--build-arg PYTHON_IMAGE=localhost/throughline-try-base)
  export THROUGHLINE_POSTGRES_IMAGE=localhost/throughline-try-postgres
}

# Its hundreds of lines go to a file, and only its own: this script's last sentence must be seen.
fetch_debian() {
  in_namespace debootstrap --variant=minbase \
    --include=ca-certificates,python3,python3-venv,python3-dev \
    bookworm "$1" "$2" >"$scratch/debootstrap.log" 2>&1
}

build_bases() {
  stage="making a base image with debootstrap"
  [ "$(id -u)" = 0 ] || fail "without an image registry the base image is made by debootstrap, which needs root: run this as root, or make docker.io reachable."
  need debootstrap debootstrap
  local context=$scratch/base mirror=${THROUGHLINE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
  mkdir -p "$context"
  # Whatever proxy apt uses is right for debootstrap and for apt inside the builds too.
  if [ -z "${http_proxy:-}" ] && command -v apt-config >/dev/null; then
    local proxy=
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    case "$proxy" in http*) export http_proxy=$proxy ;; esac
  fi
  supervised fetch_debian "$context/root" "$mirror" || {
    tail -n 20 "$scratch/debootstrap.log" >&2
    fail "debootstrap could not fetch Debian from $mirror: name another mirror in THROUGHLINE_DEBIAN_MIRROR."
  }
  rm -rf "$context/root/var/cache/apt/archives"/*.deb "$context/root/var/lib/apt/lists"/*
  tar -C "$context/root" --numeric-owner --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' -c . >"$context/root.tar"
  rm -rf "$context/root"
  printf 'FROM scratch\nADD root.tar /\nCMD ["/bin/sh"]\n' >"$context/Dockerfile"
  stage="building the base images"
  supervised build "$context" --tag localhost/throughline-try-base
  supervised build "$here/postgres" --tag localhost/throughline-try-postgres \
    --build-arg DEBIAN_IMAGE=localhost/throughline-try-base
  rm -rf "$context"
}

build_images() {
  local lent=(--secret "id=pip_conf,src=$scratch/pip/pip.conf" --secret "id=ca_bundle,src=$scratch/pip/ca_bundle")
  local revision
  revision=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
  stage="building the service image"
  say "Building the service image ..."
  supervised build . --target service --tag "$THROUGHLINE_SERVICE_IMAGE" \
    --build-arg "REVISION=$revision" "${base_args[@]}" "${lent[@]}"
  stage="building the worker image"
  say "Building the worker image with torch for the CPU ..."
  supervised build . --target worker --tag "$THROUGHLINE_WORKER_CPU_IMAGE" \
    --build-arg "TORCH_INDEX=$torch_index" --build-arg "REVISION=$revision" "${base_args[@]}" "${lent[@]}"
  drop_untagged
}

export THROUGHLINE_SERVICE_IMAGE=localhost/throughline-try-service
export THROUGHLINE_WORKER_CPU_IMAGE=localhost/throughline-try-worker-cpu
export THROUGHLINE_SHM_SIZE=${THROUGHLINE_SHM_SIZE:-1gb}

stage="looking for Python"
python=$(scripts/python)
export python
prepare_scratch
stage="looking for a container engine"
choose_engine
read_pip_settings
choose_torch
choose_bases
build_images
stage="running the compose file"
grace_s=30 # the compose file is taken down in good order first
supervised run_compose
say "docker-compose.yml ran under $engine and the jobs' results came back: containers work."
