#!/bin/sh
# run.sh [FRAMES] - builds the host with the emulator, and lets the script play for FRAMES frames
# (3000 by default).
set -eu
here=$(cd "$(dirname "$0")" && pwd) work=$(mktemp -d)
root=$(cd "$here/../../.." && pwd)
trap 'rm -r "$work"' EXIT
# Lua finds the library in this checkout's build folder or, if it is not built, the installed one.
LUA_CPATH="${TLUA_BUILD:-$root/build}/lib?.so;;"
export LUA_CPATH
${CC:-cc} -O2 -o "$work/emulator" "$here/emulator.c" -lmgba
"$work/emulator" "$here/chase.lua" "${1:-3000}"
