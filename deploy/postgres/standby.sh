#!/usr/bin/env bash
# Copies the primary's database if there is none here yet, then follows it. Once it is promoted it stays a primary.
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
