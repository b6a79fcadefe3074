#!/usr/bin/env bash
# The PostgreSQL image runs this script once, when it creates the database cluster. It creates a role and a database for
# NoMemory, and a role and a replication slot for the standby. Replication is allowed only from the same network.
set -euo pipefail
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
  --set nomemory="$DATABASE_PASSWORD" --set standby="$STANDBY_PASSWORD" <<'SQL'
CREATE ROLE nomemory LOGIN PASSWORD :'nomemory';
CREATE DATABASE nomemory OWNER nomemory TEMPLATE template0 ENCODING 'UTF8';
CREATE ROLE standby REPLICATION LOGIN PASSWORD :'standby';
SELECT pg_create_physical_replication_slot('standby');
SQL
echo "host replication standby samenet scram-sha-256" >>"$PGDATA/pg_hba.conf"
