#!/bin/bash
# Postgres on three machines: one primary, and two standbys that follow it.
# A commit is acknowledged when one standby has it, so a primary without standbys commits nothing.
set -euo pipefail
# The user postgres may not enter every folder that an operator calls this from.
cd /
. /etc/warpboard-postgres/postgres.env
export PGPASSFILE=/etc/warpboard-postgres/pass PGCONNECT_TIMEOUT=5
export PGSSLMODE=verify-ca PGSSLROOTCERT=/etc/warpboard-postgres/ca.pem PGDATABASE=postgres
unit=postgresql-warpboard

as_postgres() { runuser -u postgres -- "$@"; }
ask() { as_postgres psql -XAtq -v ON_ERROR_STOP=1 -h /run/postgresql-warpboard -c "$1"; }
# What another machine says, as the user who replicates; empty if it does not answer.
ask_other() { psql -XAtq -h "$1" -U replication -c "$2" 2>/dev/null || true; }
fail() { echo "warpboard-postgres: $1" >&2; exit 1; }

write_conninfo() {
    ask "ALTER SYSTEM SET primary_conninfo TO '$1'" && ask "SELECT pg_reload_conf()" >/dev/null
}
conninfo() {
    echo "host=$1 user=replication application_name=$HOST passfile=$PGPASSFILE" \
        "sslmode=$PGSSLMODE sslrootcert=$PGSSLROOTCERT connect_timeout=5"
}
# Waits until a query is true here, or on the machine $2.
until_true() {
    for _ in $(seq 150); do
        [ "$(if [ $# = 1 ]; then ask "$1"; else ask_other "$2" "$1"; fi)" = t ] && return
        sleep 0.2
    done
    fail "after 30 s this is still false: $1"
}
# The primary counts a standby only once it was told what the standby has stored.
until_counted() {
    until_true "SELECT count(*) > 0 FROM pg_stat_replication
                WHERE application_name = '$HOST' AND flush_lsn IS NOT NULL" "$1"
}

case ${1:-} in
create) # The first primary, with an empty database.
    as_postgres "$BIN/initdb" --pgdata="$DATA" --username=postgres --encoding=UTF8 --locale=C \
        --data-checksums --auth-host=scram-sha-256 --auth-local=peer >/dev/null
    echo "include '/etc/warpboard-postgres/postgres.conf'" >>"$DATA/postgresql.conf"
    systemctl enable --quiet --now $unit
    # No standby can acknowledge a commit yet.
    export PGOPTIONS="-c synchronous_commit=local"
    ask "CREATE ROLE replication LOGIN REPLICATION IN ROLE pg_read_all_stats
         PASSWORD '$REPLICATION_PASSWORD'"
    ask "CREATE DATABASE warpboard"
    echo "$HOST is the primary"
    ;;
copy) # A standby of the machine $2. Data that was here is moved aside.
    systemctl stop $unit
    if [ -e "$DATA" ]; then
        rm -rf "$DATA.old"
        mv "$DATA" "$DATA.old"
    fi
    as_postgres env PGPASSFILE="$PGPASSFILE" PGSSLMODE="$PGSSLMODE" PGSSLROOTCERT="$PGSSLROOTCERT" \
        "$BIN/pg_basebackup" --pgdata="$DATA" --host="$2" --username=replication --checkpoint=fast
    as_postgres touch "$DATA/standby.signal"
    as_postgres sh -c "echo \"primary_conninfo = '$(conninfo "$2")'\" >>'$DATA/postgresql.auto.conf'"
    systemctl enable --quiet --now $unit
    until_true "SELECT count(*) > 0 FROM pg_stat_wal_receiver WHERE status = 'streaming'"
    until_counted "$2"
    echo "$HOST follows $2"
    ;;
follow) # This standby follows another machine from now on.
    write_conninfo "$(conninfo "$2")"
    until_true "SELECT count(*) > 0 FROM pg_stat_wal_receiver
                WHERE status = 'streaming' AND sender_host = '$2'"
    echo "$HOST follows $2"
    ;;
detach) # This standby acknowledges nothing any more. Prints how much it has received.
    [ "$(ask "SELECT pg_is_in_recovery()")" = t ] || fail "$HOST is no standby"
    write_conninfo ""
    until_true "SELECT count(*) = 0 FROM pg_stat_wal_receiver"
    ask "SELECT greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'"
    ;;
promote) # This standby becomes the primary.
    [ "$(ask "SELECT pg_promote(true, 60)")" = t ] || fail "$HOST was not promoted in 60 s"
    echo "$HOST is the primary"
    ;;
guard) # Before a start: an old primary must not start beside a new one.
    [ -e "$DATA/standby.signal" ] && exit
    for other in ${OTHER_ADDRESSES//,/ }; do
        if [ "$(ask_other "$other" "SELECT pg_is_in_recovery()")" = f ]; then
            fail "$other is the primary now: run warpboard-postgres copy $other"
        fi
    done
    ;;
status)
    ask "SELECT format('%s is %s', '$HOST', CASE WHEN pg_is_in_recovery() THEN 'a standby of '
             || coalesce((SELECT sender_host FROM pg_stat_wal_receiver), 'nothing')
         ELSE 'the primary of ' || coalesce((SELECT string_agg(application_name || ' (' ||
             sync_state || ')', ', ' ORDER BY application_name) FROM pg_stat_replication),
             'nothing') END)"
    ;;
*)
    fail "usage: warpboard-postgres create | copy ADDRESS | follow ADDRESS | detach | promote | status"
    ;;
esac
