#!/bin/sh
# run.sh - starts inetd, which starts a process of tlua for each connection, sends it the last 360
# digits of the data and 20 requests of one digit at the same time, prints the answers, and stops
# it. inetd listens on a socket in a temporary folder, so that no other program can have its port.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$HERE/../../.." && pwd)
data=$root/examples/data work=$(mktemp -d)
# Uses this checkout's command if it is built, and the installed one if not.
tlua=${TLUA_BUILD:-$root/build}/tlua
[ -x "$tlua" ] || tlua=$(command -v tlua)
export DIGITS_WEIGHTS="$data/digits_mlp.safetensors" LUA_PATH="$HERE/../lighttpd/?.lua;;"

# The columns are the socket, its type, the protocol, whether to wait for the end of a process before the next one
# begins, the user, the program and its arguments.
echo "$work/socket stream unix nowait $(id -un) $tlua tlua $HERE/worker.lua" >"$work/inetd.conf"
PATH=$PATH:/usr/sbin
inetd -i "$work/inetd.conf" &
server=$!
trap 'kill $server; wait $server || true; rm -r "$work"' EXIT
until [ -S "$work/socket" ]; do
  kill -0 $server || exit 1
  sleep 0.1
done
ask() { curl -s --unix-socket "$work/socket" --data-binary @"$1" http://localhost/; }

tail -n 360 "$data/digits.csv" | cut -d, -f1-64 >"$work/images"
tail -n 360 "$data/digits.csv" | cut -d, -f65 >"$work/digits"
ask "$work/images" >"$work/answers"
echo "right: $(paste "$work/digits" "$work/answers" | awk '$1 == $2' | wc -l) of 360"

head -n 1 "$work/images" >"$work/one"
asked=
for client in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  ask "$work/one" >"$work/one$client" &
  asked="$asked $!"
done
wait $asked
echo "20 processes: $(cat "$work"/one?* | sort | uniq -c | xargs)"
echo 1,2,3 >"$work/bad"
echo "a bad request: $(ask "$work/bad")"
