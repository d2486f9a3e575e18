# shellcheck shell=bash disable=SC2154,SC2034
# The container engine at hand, behind a few verbs. Read by try.sh, which sets: here, python,
# scratch, store, pip_mounts, running and the functions say and fail.
#
# Docker runs the compose file where a daemon answers and has compose. Otherwise buildah and podman
# do, as root and without any daemon, in name spaces of their own: whatever happens to this script,
# the kernel takes processes, mounts, networks and firewall rules away with it.

project=throughline-try-$$
grace_s=2 # what a stopped command gets before it is killed
# Dies with its parent, and all in it with its first process.
apart=(setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc)

choose_engine() {
  engine=${THROUGHLINE_ENGINE:-}
  case "$engine" in
    docker)
      docker_answers || fail "no Docker daemon with compose answers: start it, or leave THROUGHLINE_ENGINE out to use podman." ;;
    podman) ;;
    "")
      engine=podman
      if docker_answers; then engine=docker; fi ;;
    *) fail "THROUGHLINE_ENGINE is '$engine': set it to docker or podman." ;;
  esac
  say "Using $engine."
  if [ "$engine" = podman ]; then prepare_podman; fi
}

docker_answers() {
  timeout 20 docker info >/dev/null 2>&1 || return 1
  docker compose version >/dev/null 2>&1 && return 0
  say "A Docker daemon answers but 'docker compose' is missing (install docker-compose-plugin)."
  return 1
}

# Makes sure that a command exists, from Debian packages where that can be done.
need() {
  local command=$1
  shift
  command -v "$command" >/dev/null 2>&1 && return 0
  scripts/apt-install "$@" && command -v "$command" >/dev/null 2>&1 && return 0
  fail "$command is missing and could not be installed: install $* (apt-get install $*), or start a Docker daemon with compose, then run this again."
}

prepare_podman() {
  [ "$(id -u)" = 0 ] || fail "no Docker daemon with compose answers, and without one podman is used as root: start Docker, or run this as root."
  need unshare util-linux
  need ip iproute2
  local packages=(buildah podman runc netavark aardvark-dns iptables catatonit) command
  for command in buildah podman runc iptables catatonit; do need "$command" "${packages[@]}"; done
  [ -n "$(find /sys/fs/cgroup -maxdepth 3 -type d -name libpod_parent -print -quit 2>/dev/null)" ] || own_cgroups=yes
  configure_podman
  if [ ! -x "$store/compose/bin/podman-compose" ]; then
    say "Installing podman-compose ..."
    if ! "$python" -m venv "$store/compose" || ! "$store/compose/bin/python" -m pip install --quiet --disable-pip-version-check podman-compose==1.6.0; then
      rm -rf "$store/compose"
      fail "podman-compose 1.6.0 could not be installed with pip: check pip's network and configuration, or start a Docker daemon with compose."
    fi
  fi
}

# Nothing of the machine's own podman is read or changed: storage and settings are this run's own.
configure_podman() {
  local driver=vfs # always works; every layer is a full copy
  mkdir -p "$scratch/probe/"{lower,upper,work,merged}
  if unshare --mount mount -t overlay overlay -o "lowerdir=$scratch/probe/lower,upperdir=$scratch/probe/upper,workdir=$scratch/probe/work" "$scratch/probe/merged" 2>/dev/null; then
    driver=overlay
  fi
  cat >"$store/storage.conf" <<CONF
[storage]
driver = "$driver"
graphroot = "$store/graph"
runroot = "$store/run"
CONF
  # Limits are spelled out because raising one above this shell's own is refused in many sandboxes.
  cat >"$store/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=$(limit_of_processes):$(limit_of_processes)"]
init_path = "$(command -v catatonit)"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
CONF
  export CONTAINERS_STORAGE_CONF=$store/storage.conf CONTAINERS_CONF=$store/containers.conf
  export BUILDAH_ISOLATION=chroot
}

limit_of_processes() {
  local limit
  limit=$(ulimit -Hu)
  if [ "$limit" = unlimited ]; then echo -1; else echo "$limit"; fi
}

in_namespace() {
  if [ "$engine" = docker ]; then "$@"; else TMPDIR=$scratch "${apart[@]}" "$@"; fi
}

has_image() {
  if [ "$engine" = docker ]; then
    docker image inspect "$1" >/dev/null 2>&1
  else
    buildah inspect --type image "$1" >/dev/null 2>&1
  fi
}

pull() {
  say "Pulling $1 ..."
  if [ "$engine" = docker ]; then timeout 600 docker pull "$1" >&2; else timeout 600 buildah pull "$1" >&2; fi
}

# build CONTEXT OPTION...: to be called as a process of its own, which becomes the build, so that
# the build's parent is try.sh itself.
build() {
  local context=$1
  shift
  if [ "$engine" = docker ]; then
    if [ ${#pip_mounts[@]} != 0 ]; then
      say "pip is configured with folders that a Docker build cannot see (${pip_mounts[*]}): packages come from its other sources."
      pip_mounts=()
    fi
    DOCKER_BUILDKIT=1 docker build "$@" "$context" >&2
  else
    local volumes=() folder
    for folder in "${pip_mounts[@]}"; do volumes+=(--volume "$folder:$folder:ro"); done
    # The docker format, because the OCI one has no health checks.
    exec env "TMPDIR=$scratch" "${apart[@]}" buildah build --format docker --layers=false "${volumes[@]}" "$@" "$context" >&2
  fi
}

# What an earlier run with the same folder left without a name.
drop_untagged() {
  if [ "$engine" = podman ]; then in_namespace buildah rmi --prune >/dev/null 2>&1 || true; fi
}

# To be called as a process of its own, like build.
run_compose() {
  if [ "$engine" = docker ]; then
    exec bash "$here/run_docker.sh" "$project"
  else
    exec env "PATH=$store/compose/bin:$PATH" "TMPDIR=$scratch" "${apart[@]}" --net \
      bash "$here/run_podman.sh" "$project"
  fi
}

# Ends the command that try.sh waits for, with all that it started.
stop_running() {
  [ -n "$running" ] || return 0
  kill -TERM -- "-$running" 2>/dev/null
  local waited=0
  while kill -0 -- "-$running" 2>/dev/null && [ "$waited" -lt $((grace_s * 5)) ]; do
    sleep 0.2
    waited=$((waited + 1))
  done
  kill -KILL -- "-$running" 2>/dev/null
  wait "$running" 2>/dev/null
  running=
}

tear_down() {
  if [ "${own_cgroups:-}" = yes ]; then
    # Empty by now; one that still held a process could not be removed.
    find /sys/fs/cgroup -depth -type d -path '*/libpod_parent*' -exec rmdir {} + 2>/dev/null
  fi
  if [ "${engine:-}" = docker ]; then
    docker compose --project-name "$project" --profile cpu down --volumes --remove-orphans >/dev/null 2>&1
    docker image rm localhost/throughline-try-{service,worker-cpu,base,postgres} >/dev/null 2>&1
  fi
  return 0
}
