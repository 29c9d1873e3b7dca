#!/bin/sh
# Three databases, each with a role that can use that one alone. Run once, by the image, on an empty volume.
set -eu

database() {
  psql --set ON_ERROR_STOP=1 --username postgres --dbname postgres \
    --set name="$1" --set password="$2" <<'SQL'
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE CONNECT ON DATABASE :"name" FROM PUBLIC;
SQL
}

database airflow "$AIRFLOW_DB_PASSWORD"
database prefect "$PREFECT_DB_PASSWORD"
database provender "$PROVENDER_DB_PASSWORD"
