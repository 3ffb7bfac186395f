-- name: one_moment
-- All tables as they are at one moment, and nothing is changed.
set transaction isolation level repeatable read, read only;

-- name: tables
-- The tables of some schemas, with their columns, and which of these count by themselves.
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
-- The rows of a table.
copy {table} ({columns}) to stdout;

-- name: copy_in
-- The rows of a table, put back.
copy {table} ({columns}) from stdin;

-- name: empty
-- Nothing stays of what a fresh schema has.
delete from {table};

-- name: go_on
-- The next number of a column comes after those that were put back.
select setval(
    pg_get_serial_sequence(%(table)s, %(column)s),
    coalesce((select max({column}) from {table}), 0) + 1,
    false
);

-- name: clamp_places
-- A place in the log is never behind its end.
update accounts.webhook_place set seq = %(last)s where seq > %(last)s;
