#!/bin/bash
# After the primary of Postgres is lost, makes the standby that has more the primary:
#   failover.sh ADDRESS ADDRESS
# of the two machines that are left. Both stop following the old primary before one is promoted, so
# that it can acknowledge nothing, whether it is dead or only not reachable from here. If one of them
# does not answer, nothing is promoted: two of three machines decide.
set -euo pipefail
[ $# = 2 ] || { echo "usage: failover.sh ADDRESS ADDRESS" >&2; exit 2; }
on() { ssh -o BatchMode=yes -o ConnectTimeout=5 "root@$1" warpboard-postgres "${@:2}"; }
for address in "$@"; do
    on "$address" status || { echo "$address does not answer: nothing is changed" >&2; exit 1; }
done
first=$(on "$1" detach) second=$(on "$2" detach)
echo "$1 has received $first bytes, $2 has $second"
if [ "$first" -ge "$second" ]; then
    on "$1" promote
    on "$2" follow "$1"
    echo "$1 is the primary"
else
    on "$2" promote
    on "$1" follow "$2"
    echo "$2 is the primary"
fi
