#!/bin/sh
# Makes the database on the first start, then serves. Reads POSTGRES_USER, POSTGRES_PASSWORD and
# POSTGRES_DB like the official image.
set -eu
data=/var/lib/postgresql/data/cluster
user=${POSTGRES_USER:?name the database user in POSTGRES_USER}
database=${POSTGRES_DB:-$user}

if [ ! -s "$data/PG_VERSION" ]; then
  password=$(mktemp)
  printf '%s\n' "${POSTGRES_PASSWORD:?set the password of $user in POSTGRES_PASSWORD}" >"$password"
  initdb --pgdata="$data" --username="$user" --pwfile="$password" \
    --encoding=UTF8 --locale=C.UTF-8 --auth=scram-sha-256 >&2
  rm -f "$password"
  echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
  [ "$database" = postgres ] ||
    printf 'CREATE DATABASE "%s"\n' "$database" | postgres --single -D "$data" postgres >&2
fi
exec postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=/tmp
