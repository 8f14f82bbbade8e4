#!/bin/sh
# run.sh - starts a PostgreSQL server with the function tlua_run, stores a network as a value of a
# table, and lets a query read 360 digits with it. The server listens on a socket in a temporary
# folder, so that no other program can have its port. It runs as the user postgres if run.sh is run
# as root, since PostgreSQL refuses root.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$HERE/../../.." && pwd)
data=$root/examples/data work=$(mktemp -d)
build=${TLUA_BUILD:-$root/build}
for bin in /usr/lib/postgresql/*/bin; do PATH=$bin:$PATH; done

"$build/tlua" "$root/examples/deploy/export.lua" --epochs 3 --save "$work/digits.tlp" | tail -n 1
${CC:-cc} -O2 -fPIC -shared -I"$root/src" -I"$(pg_config --includedir-server)" -o "$work/tlua_run.so" \
  "$HERE/tlua_run.c" "$build/libtlua.a" -lm -ldl -lpthread -Wl,--exclude-libs,ALL,--gc-sections
# The columns are the grey levels, as an array, and the digit.
tail -n 360 "$data/digits.csv" | awk -F, '{ printf "{"; for (i = 1; i < 65; i++) printf "%s%s", $i / 16, i < 64 ? "," : "}\t"; print $65 }' \
  >"$work/digits.tsv"
head -c 20000 "$work/digits.tlp" >"$work/damaged.tlp"

as=
if [ "$(id -u)" = 0 ]; then
  as='setpriv --reuid=postgres --regid=postgres --clear-groups'
  chown -R postgres "$work"
fi
cd "$work"
$as initdb -D "$work/db" --no-sync --auth=trust --username=tlua >"$work/log"
$as postgres -D "$work/db" -k "$work" -h '' -F >>"$work/log" 2>&1 &
server=$!
trap 'kill $server; wait $server || true; rm -r "$work"' EXIT
until pg_isready -q -h "$work"; do
  kill -0 $server || { cat "$work/log"; exit 1; }
  sleep 0.1
done

psql -h "$work" -U tlua -d postgres -qAt -v work="$work" -f "$HERE/digits.sql" 2>&1
