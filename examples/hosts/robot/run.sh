#!/bin/sh
# run.sh [SECONDS] - trains the controller, builds the robot's program, and runs it for SECONDS
# seconds (5 by default).
set -eu
here=$(cd "$(dirname "$0")" && pwd) work=$(mktemp -d)
root=$(cd "$here/../../.." && pwd)
build=${TLUA_BUILD:-$root/build}
trap 'rm -r "$work"' EXIT
"${TLUA:-$build/tlua}" "$here/controller.lua" --save "$work/cart.tlp"
${CC:-cc} -O2 -I"$root/src" -o "$work/robot" "$here/robot.c" "$build/libtlua.a" -lm -ldl -lpthread
"$work/robot" "$work/cart.tlp" "${1:-5}"
