-- name: await_turn
-- One process at a time migrates a schema; the lock ends with the transaction.
select pg_advisory_xact_lock(hashtextextended('warpboard migrate ' || %(schema)s, 0));

-- name: create_schema
-- The tables of one owner, and the record of how they came to be.
create schema if not exists {schema};

-- name: create_migration
-- A migration that ran is never run again, and never changed.
create table if not exists {schema}.migration (
    number int primary key,
    name text not null,
    digest text not null,
    at timestamptz not null default now()
);

-- name: has_migrations
-- Whether a schema has its record of migrations.
select exists (
    select from information_schema.tables
    where table_schema = %(schema)s and table_name = 'migration'
);

-- name: migrations
-- What ran already.
select number, name, digest from {schema}.migration order by number limit 10000;

-- name: record_migration
-- Written in the transaction of the migration itself.
insert into {schema}.migration (number, name, digest)
values (%(number)s, %(name)s, %(digest)s);

-- name: enter_schema
-- Unqualified names in a migration mean this schema, until the transaction ends.
set local search_path to {schema};

-- name: claim
-- The checkpoint moves from where the caller believes it is, or not at all.
update checkpoint set seq = %(last)s where name = %(name)s and seq = %(after)s;

-- name: probe
-- A write that changes nothing but its own instant, and whose database this is.
update accounts.register set written_at = now() returning register;

-- name: describe_server
-- The server's version, whether it accepts no writes, our role, and what it may do.
select
    current_setting('server_version_num')::int,
    pg_is_in_recovery(),
    rolname,
    rolsuper,
    exists (
        select from pg_namespace
        where nspname in ('accounts', 'discord_edge') and has_schema_privilege(oid, 'usage')
    )
from pg_roles where rolname = current_user;
