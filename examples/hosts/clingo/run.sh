#!/bin/sh
# run.sh - clingo learns how long trips take, and finds the fastest round trip.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
# Lua finds the library in this checkout's build folder or, if it is not built, the installed one.
LUA_CPATH="${TLUA_BUILD:-$root/build}/lib?.so;;"
export LUA_CPATH
status=0
clingo --verbose=0 --quiet=1 "$here/tour.lp" || status=$?
# 30 is clingo's status for an optimum
[ $status -eq 30 ]
