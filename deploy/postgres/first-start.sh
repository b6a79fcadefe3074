#!/usr/bin/env bash
# The image of PostgreSQL runs this once, when the database is made: a role and a database for NoMemory, and a role and a
# slot for the standby, from whose network alone it may follow.
set -euo pipefail
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
  --set nomemory="$DATABASE_PASSWORD" --set standby="$STANDBY_PASSWORD" <<'SQL'
CREATE ROLE nomemory LOGIN PASSWORD :'nomemory';
CREATE DATABASE nomemory OWNER nomemory TEMPLATE template0 ENCODING 'UTF8';
CREATE ROLE standby REPLICATION LOGIN PASSWORD :'standby';
SELECT pg_create_physical_replication_slot('standby');
SQL
echo "host replication standby samenet scram-sha-256" >>"$PGDATA/pg_hba.conf"
