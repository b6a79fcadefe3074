#!/usr/bin/env bash
# Copies the primary if the data directory is empty, then starts as its standby. If the standby was promoted, it starts
# as a primary.
set -euo pipefail
umask 077
export PGPASSWORD=$STANDBY_PASSWORD
until [ -s "$PGDATA/PG_VERSION" ]; do
  rm -rf "$PGDATA.part"
  if pg_basebackup --pgdata "$PGDATA.part" --host "$PRIMARY_HOST" --username standby --slot standby \
    --wal-method stream --checkpoint fast --write-recovery-conf; then
    mv "$PGDATA.part" "$PGDATA"
  else
    sleep 2
  fi
done
unset PGPASSWORD STANDBY_PASSWORD
exec postgres "$@"
