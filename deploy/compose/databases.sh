#!/bin/sh
# Runs once, in the database's first start: a role and a database each for sessionguard, which makes its own
# tables, and for Guacamole, whose tables were written beside.
set -eu

make() { # NAME PASSWORD
    psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --set=name="$1" --set=password="$2" <<'SQL'
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name" ENCODING 'UTF8' TEMPLATE template0;
SQL
}

make sessionguard "$DATABASE_PASSWORD"
make guacamole "$GUACAMOLE_PASSWORD"
{ echo 'SET ROLE guacamole;'; cat /tables/guacamole.sql; } |
    psql --set=ON_ERROR_STOP=1 --quiet --username="$POSTGRES_USER" --dbname=guacamole
