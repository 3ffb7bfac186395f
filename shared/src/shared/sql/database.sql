-- name: one_at_a_time
-- One process at a time prepares a database; the lock ends with the transaction.
select pg_advisory_xact_lock(hashtextextended('warpboard database', 0));

-- name: roles
-- Which of some roles exist.
select rolname from pg_roles where rolname = any(%(roles)s) limit 100;

-- name: is_superuser
-- Whether we may create roles with any attribute.
select rolsuper from pg_roles where rolname = current_user limit 1;

-- name: create_role
-- A role that may log in and nothing else, until it is granted more.
create role {role} login nosuperuser nocreatedb nocreaterole noreplication nobypassrls;

-- name: set_password
-- The server stores the verifier, which is made here, so that no log of it has the password.
alter role {role} password {verifier};

-- name: allow_backup
-- Backups read every table, and follow the write-ahead log.
alter role {role} replication;
grant pg_read_all_data to {role};

-- name: own_database
-- The owner may grant and revoke what follows without being a superuser.
alter database {database} owner to {role};

-- name: ownerships
-- How to give schemas that an earlier version created as another role to their owners: a schema
-- with a record of migrations is ours. The tables of a schema come with it.
with ours as (
    select
        own.oid, own.nspname, own.nspowner::regrole::text as present,
        case when own.nspname = any(%(owned)s) then %(owner)s else %(ranker)s end as future
    from pg_namespace as own
    inner join pg_class as record
        on record.relnamespace = own.oid and record.relname = 'migration'
)

select format('alter schema %%I owner to %%I', ours.nspname, ours.future) from ours
where ours.present <> ours.future
union all
select format('alter table %%I.%%I owner to %%I', ours.nspname, own_table.relname, ours.future)
from ours
inner join pg_class as own_table
    on own_table.relnamespace = ours.oid and own_table.relkind in ('r', 'p')
where own_table.relowner::regrole::text <> ours.future
limit 10000;

-- name: close_database
-- Nobody may do anything here without a grant.
revoke all on database {database} from public;
revoke all on schema public from public;

-- name: open_database
-- A role that may connect.
grant connect on database {database} to {role};

-- name: let_create
-- ranker creates, renames and drops the schemas that follow from the log.
grant create on database {database} to {role};

-- name: create_schema
-- It exists before anybody else may create schemas here.
create schema if not exists {schema};

-- name: owners
-- To which role each schema belongs.
select nspname, pg_get_userbyid(nspowner)
from pg_namespace
where nspname = any(%(schemas)s)
limit 100;

-- name: close_schema
-- What was granted before, also on columns, so that only the table in the code is granted.
revoke all on all tables in schema {schema} from {role};
revoke all on schema {schema} from {role};

-- name: open_schema
-- A role that may use tables of a schema.
grant usage on schema {schema} to {role};

-- name: open_table
-- What a role may do with a table.
grant {privileges} on {table} to {role};
