#!/bin/sh
# run.sh - starts Dovecot's authentication service in a temporary folder, without a network port,
# tries five logins, prints which ones succeed, and stops the service.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
PATH=$PATH:/usr/sbin
work=$(mktemp -d)
chmod 755 "$work"
# Lua finds the library in this checkout's build folder or, if it is not built, the installed one.
build=$(cd "${TLUA_BUILD:-$root/build}" && pwd) # Dovecot changes the working folder
LUA_CPATH="$build/lib?.so;;"
export LUA_CPATH
sed "s|LOGIN_LUA|$here/login.lua|" "$here/dovecot.conf" >"$work/conf"
{
  printf 'base_dir = %s/run\nstate_dir = %s\nlog_path = %s/log\n' "$work" "$work" "$work"
  # Everything runs as this user, who need not be root and can read this folder.
  printf 'default_internal_user = %s\ndefault_login_user = %s\ndefault_internal_group = %s\n' \
    "$(id -un)" "$(id -un)" "$(id -gn)"
} >>"$work/conf"
dovecot -F -c "$work/conf" &
server=$!
trap 'kill $server; wait $server || true; rm -r "$work"' EXIT
while [ ! -S "$work/run/auth-client" ]; do
  kill -0 $server || { cat "$work/log"; exit 1; }
  sleep 0.1
done

login() { # USER PASSWORD ADDRESS SERVICE
  if doveadm -c "$work/conf" auth test -x rip="$3" -x service="$4" "$1" "$2" >/dev/null 2>&1; then
    echo "$1 from $3 by $4: welcome"
  else
    echo "$1 from $3 by $4: refused"
  fi
}
login alice wonderland 10.1.20.30 imap
login alice wonder 10.1.20.30 imap
login alice wonderland 203.0.113.7 imap
login bob builder 192.168.7.7 smtp
login mallory x 10.1.20.30 imap
sed -n 's/.*\(login of .*\)/\1/p; s/.*\(Error: .*\)/\1/p; s/.*\(Fatal: .*\)/\1/p' "$work/log"
