#!/bin/sh
# run.sh [PORT] - starts lighttpd with the network of this folder, sends it the last 360 digits of
# the data, prints the number of right answers, and stops it. Without PORT, the server listens on a
# socket in a temporary folder, so that no other program can have its port.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd) PORT=${1:-0}
root=$(cd "$HERE/../../.." && pwd)
data=$root/examples/data work=$(mktemp -d)
LOG=$work/log DIGITS_WEIGHTS=$data/digits_mlp.safetensors
ADDRESS=127.0.0.1 site=http://127.0.0.1:$PORT
[ $# != 0 ] || ADDRESS=$work/socket site="--unix-socket $work/socket http://localhost"
# Lua finds the library in this checkout's build folder or, if it is not built, the installed one.
library=${TLUA_BUILD:-$root/build}
LUA_PATH="$HERE/?.lua;;" LUA_CPATH="$library/lib?.so;;"
export HERE ADDRESS PORT LOG DIGITS_WEIGHTS LUA_PATH LUA_CPATH

PATH=$PATH:/usr/sbin
lighttpd -D -f "$HERE/lighttpd.conf" &
server=$!
trap 'kill $server; wait $server || true; rm -r "$work"' EXIT
while [ $# = 0 ] && [ ! -S "$ADDRESS" ]; do
  kill -0 $server || { cat "$LOG"; exit 1; }
  sleep 0.1
done

tail -n 360 "$data/digits.csv" | cut -d, -f1-64 >"$work/images"
tail -n 360 "$data/digits.csv" | cut -d, -f65 >"$work/digits"
curl -sf --retry 20 --retry-connrefused --retry-delay 1 --data-binary @"$work/images" $site/recognise >"$work/answers"
echo "right: $(paste "$work/digits" "$work/answers" | awk '$1 == $2' | wc -l) of 360"

# Teaches the network in 20 steps that the first digit is a 7, which is wrong. Prints its answers
# before and after.
head -n 1 "$work/images" >"$work/one"
echo "before: $(curl -sf --data-binary @"$work/one" $site/recognise)"
for step in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  loss=$(curl -sf --data-binary @"$work/one" $site/learn/7)
done
echo "after: $(curl -sf --data-binary @"$work/one" $site/recognise), loss $loss"
echo "a bad request: $(curl -s -d 1,2,3 $site/recognise)"
