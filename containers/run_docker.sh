#!/bin/bash
# Runs the compose file with Docker and one job through it; try.sh calls it and takes all down.
set -euo pipefail
python=${python:-python3}
project=$1
compose() { docker compose --project-name "$project" --profile cpu "$@"; }

THROUGHLINE_PORT=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export THROUGHLINE_PORT
# Comes back once every condition in depends_on was met: database, migration, service.
if ! compose up --detach --no-build >&2; then
  compose logs --tail 50 >&2
  echo "The compose file did not come up: the containers' last lines stand above." >&2
  exit 1
fi
THROUGHLINE_TOKEN=$(compose exec -T service throughline token create --kind submit --name first-job)
export THROUGHLINE_TOKEN
job() { "$python" containers/first_job.py "http://127.0.0.1:$THROUGHLINE_PORT" --limit-s "${THROUGHLINE_TRY_LIMIT_S:-900}" "$@"; }
# The second shows that the image can compile kernels as it runs: unprivileged and read-only.
if ! { job && job compile=default; }; then
  compose logs --tail 80 >&2
  echo "A job gave no good result: the containers' last lines stand above." >&2
  exit 1
fi
compose ps >&2
