#!/bin/sh
# run.sh [FRAMES] - builds the emulator's host and lets the script play 3000 frames.
set -eu
here=$(cd "$(dirname "$0")" && pwd) work=$(mktemp -d)
root=$(cd "$here/../../.." && pwd)
trap 'rm -r "$work"' EXIT
# This checkout's library, if it is built, else the installed one.
LUA_CPATH="${TLUA_BUILD:-$root/build}/lib?.so;;"
export LUA_CPATH
${CC:-cc} -O2 -o "$work/emulator" "$here/emulator.c" -lmgba
"$work/emulator" "$here/chase.lua" "${1:-3000}"
