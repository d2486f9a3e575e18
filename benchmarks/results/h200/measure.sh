#!/usr/bin/env bash
# Measures the ladder on this machine's GPU through the true path (service, lease, worker, child,
# post, all on loopback) and the harness's own cost, and writes the raw rows as JSON lines.
#
#   bash benchmarks/results/h200/measure.sh OUTPUT_FOLDER [PYTHON [WORKLOAD...]]
#
# Takes twenty minutes or so; with WORKLOADs it measures only theirs. REVISION names the version where the folder is no git checkout.
# Needs the packages of `.[service,worker]` in PYTHON's environment; touches no clock and no limit.
set -euo pipefail

out=$(mkdir -p "$1" && cd "$1" && pwd)
python=${2:-python3}
root=$(cd "$(dirname "$0")/../../.." && pwd)
state=$(mktemp -d)
export THROUGHLINE_STATE_DIR=$state THROUGHLINE_URL=http://127.0.0.1:8790
export THROUGHLINE_CACHE_DIR=${THROUGHLINE_CACHE_DIR:-$state/cache}
revision=${REVISION:-$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)}
cd "$root"

"$python" -m cli migrate
"$python" -m cli serve --port 8790 >"$out/service.log" 2>&1 & service=$!
"$python" -m cli worker --name h200 >"$out/worker.log" 2>&1 & worker=$!
finish() {
  # What is measured so far is kept, whatever ended this script.
  if up; then "$python" trials/stored_results.py "$THROUGHLINE_URL" >"$out/ladder.jsonl" || true; fi
  # Not SIGINT: a shell that is not interactive starts its background processes deaf to it.
  kill -TERM "$worker" "$service" 2>/dev/null
  wait
}
trap finish EXIT
up() { "$python" -c "import urllib.request as u; u.urlopen('$THROUGHLINE_URL/api/v1/health')" 2>/dev/null; }
for _ in $(seq 60); do up && break; kill -0 "$service" 2>/dev/null || break; sleep 1; done
up || { tail -n 5 "$out/service.log" >&2; echo "The service did not start: see $out/service.log." >&2; exit 1; }

"$python" -m trials.fidelity >"$out/fidelity.jsonl"
only=("${@:3}")
"$python" -m cli submit ladder "${only[@]/#/--only=}" --revision "$revision" --wait --json >"$out/ladder.json" 2>"$out/ladder.log" ||
  echo "Not every case was measured: see $out/ladder.json."
