#!/bin/bash
# Runs the compose file with podman and one job through it, inside name spaces that try.sh made:
# the network, the processes and the mounts in here are nobody else's and end with this script.
#
# Debian's podman neither runs health checks without systemd nor waits for them, so this script
# does both: it brings the services up in the order of their depends_on, each once the one before
# has met its condition.
set -euo pipefail
python=${python:-python3}
project=$1
profile=cpu

# Outside, /run belongs to the machine's own podman and systemd.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock
ip link set lo up

compose() { podman-compose --project-name "$project" --profile "$profile" "$@"; }
name_of() { podman ps --all --filter "label=com.docker.compose.service=$1" --format '{{.Names}}' | head -n 1; }

finish() {
  local code=$?
  trap - EXIT
  trap '' TERM INT
  set +e
  if [ "$code" = 143 ]; then
    echo "==> Stopped; taking the containers down." >&2
  elif [ "$code" != 0 ]; then
    podman ps --all >&2
    for container in $(podman ps --all --quiet); do
      echo "--- last lines of $(podman inspect --format '{{.Name}}' "$container")" >&2
      podman logs --tail 40 "$container" >&2
    done
    echo "The compose file or the job in it failed: the containers' last lines stand above." >&2
  fi
  timeout 60 podman-compose --project-name "$project" --profile "$profile" down --timeout 5 --volumes >/dev/null 2>&1
  podman rm --all --force --time 1 --volumes >/dev/null 2>&1
  exit "$code"
}
trap finish EXIT
trap 'exit 143' TERM INT

start() {
  echo "==> Starting $1 ..." >&2
  compose up --detach --no-build --no-deps "$1" 2>&1 | grep -v -i -e systemd -e 'connect to syslog' >&2 || true
  [ -n "$(name_of "$1")" ] || { echo "podman-compose made no container of the service '$1'." >&2; exit 1; }
}

# wait_healthy SERVICE SECONDS: run its health check until it passes.
wait_healthy() {
  local container deadline=$((SECONDS + $2))
  container=$(name_of "$1")
  until podman healthcheck run "$container" >/dev/null 2>&1; do
    # Compose brings a service back when it ends, so one that always ends never stands still.
    if [ "$(podman inspect --format '{{.RestartCount}}' "$container")" -ge 3 ]; then
      echo "The compose service '$1' ends again and again: its last lines stand below." >&2
      exit 1
    fi
    if [ "$SECONDS" -ge "$deadline" ]; then
      echo "The compose service '$1' is not healthy after $2 s." >&2
      exit 1
    fi
    sleep 1
  done
  echo "==> $1 is healthy." >&2
}

# wait_done SERVICE SECONDS: until a one-shot service has ended well.
wait_done() {
  local code
  code=$(timeout "$2" podman wait "$(name_of "$1")") || { echo "The compose service '$1' did not end within $2 s." >&2; exit 1; }
  [ "$code" = 0 ] || { echo "The compose service '$1' ended with exit code $code." >&2; exit 1; }
  echo "==> $1 is done." >&2
}

start postgres
wait_healthy postgres 120
start migrate
wait_done migrate 120
start service
wait_healthy service 120
start token-cpu
wait_done token-cpu 120
start worker-cpu
wait_healthy worker-cpu 120
THROUGHLINE_TOKEN=$(podman exec "$(name_of service)" throughline token create --kind submit --name first-job)
export THROUGHLINE_TOKEN
job() { "$python" containers/first_job.py "http://127.0.0.1:${THROUGHLINE_PORT:-8765}" --limit-s "${THROUGHLINE_TRY_LIMIT_S:-900}" "$@"; }
job
job compile=default # shows that the image can compile kernels as it runs: unprivileged, read-only
wait_healthy worker-cpu 10
podman ps --all >&2
