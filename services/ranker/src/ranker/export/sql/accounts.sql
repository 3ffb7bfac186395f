-- name: one_moment
-- Read all tables from one snapshot, without writing.
set transaction isolation level repeatable read, read only;

-- name: tables
-- The tables of some schemas, with their columns and identity columns.
select
    table_schema,
    table_name,
    array_agg(column_name::text order by ordinal_position),
    coalesce(
        array_agg(column_name::text order by ordinal_position)
        filter (where is_identity = 'YES'),
        '{}'
    )
from information_schema.columns
where table_schema = any(%(schemas)s)
group by table_schema, table_name
order by table_schema, table_name
limit 1000;

-- name: references
-- Which table refers to which.
select own_schema.nspname, own.relname, other_schema.nspname, other.relname
from pg_constraint as reference
inner join pg_class as own on own.oid = reference.conrelid
inner join pg_namespace as own_schema on own_schema.oid = own.relnamespace
inner join pg_class as other on other.oid = reference.confrelid
inner join pg_namespace as other_schema on other_schema.oid = other.relnamespace
where reference.contype = 'f' and own_schema.nspname = any(%(schemas)s)
limit 1000;

-- name: copy_out
-- Copy the rows of a table out.
copy {table} ({columns}) to stdout;

-- name: copy_in
-- Copy the rows of a table in.
copy {table} ({columns}) from stdin;

-- name: empty
-- Delete the initial rows of a fresh schema.
delete from {table};

-- name: go_on
-- Continue an identity column after the restored rows.
select setval(
    pg_get_serial_sequence(%(table)s, %(column)s),
    coalesce((select max({column}) from {table}), 0) + 1,
    false
);

-- name: clamp_places
-- Move positions in the log that are past its end to the end.
update accounts.webhook_place set seq = %(last)s where seq > %(last)s;
