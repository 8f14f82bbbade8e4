#!/bin/sh
# run.sh [FRAMES PICTURE] - builds the game and runs it in a window. With arguments, it runs FRAMES
# frames without a window and writes the last one to PICTURE.
set -eu
here=$(cd "$(dirname "$0")" && pwd) work=$(mktemp -d)
root=$(cd "$here/../../.." && pwd)
build=${TLUA_BUILD:-$root/build}
trap 'rm -r "$work"' EXIT
${CC:-cc} -O2 -I"$root/src" $(pkg-config --cflags sdl2 lua5.4) -o "$work/game" "$here/game.c" "$build/libtlua.a" \
  $(pkg-config --libs sdl2 lua5.4) -lchipmunk -lm -ldl -lpthread
"$work/game" "$here/walker.lua" "$@"
