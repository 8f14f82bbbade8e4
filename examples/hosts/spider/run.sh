#!/bin/sh
# run.sh ROUNDS PICTURE - builds the program and lets the spiders learn.
set -eu
here=$(cd "$(dirname "$0")" && pwd) work=$(mktemp -d)
root=$(cd "$here/../../.." && pwd)
build=${TLUA_BUILD:-$root/build}
trap 'rm -r "$work"' EXIT
${CC:-cc} -O2 -I"$root/src" $(pkg-config --cflags ode lua5.4) -o "$work/spider" "$here/spider.c" "$build/libtlua.a" \
  $(pkg-config --libs ode lua5.4) -lm -ldl -lpthread
"$work/spider" "$here/../game/walker.lua" "$@"
