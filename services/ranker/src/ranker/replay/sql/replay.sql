-- name: take_turn
-- Allow one replay of a schema at a time; the lock ends with its connection.
select pg_try_advisory_lock(hashtextextended('warpboard replay ' || %(schema)s, 0));

-- name: end_turn
-- Release the lock at once: a closed connection would release it a moment later.
select pg_advisory_unlock(hashtextextended('warpboard replay ' || %(schema)s, 0));

-- name: exists
-- Whether a schema exists.
select count(schema_name) = 1 from information_schema.schemata where schema_name = %(schema)s;

-- name: tables
-- The tables to compare: all but the schema's own history, the record of a stopped projection, and
-- the earlier states of entries.
select table_name
from information_schema.tables
where table_schema = %(schema)s and table_type = 'BASE TABLE' and table_name <> all(array['migration', 'parked', 'entry_before',
    'entry_before_since'])
order by table_name
limit 1000;

-- name: patience
-- Comparing whole tables takes longer than other statements may.
set local statement_timeout = '15min';

-- name: hold
-- Block projectors until the transaction ends; readers continue.
lock table {schema}.checkpoint in exclusive mode;

-- name: checkpoint
-- The checkpoint of a projection.
select seq from {schema}.checkpoint where name = %(name)s limit 1;

-- name: rows
-- The number of rows.
select count(*) from {schema}.{table};

-- name: lacking
-- Rows that one schema has and another lacks, compared by their bytes, so that any type can be
-- compared at half the cost of text; of each row its beginning is returned.
select left(here::text, 1000)
from {schema}.{table} as here
where record_send(here) in (
    select lacking.one
    from (
        select record_send(here) as one from {schema}.{table} as here
        except all
        select record_send(there) as one from {other}.{table} as there
    ) as lacking
    limit %(limit)s
)
limit %(limit)s;

-- name: rename
-- From the next statement on, the name means the other schema.
alter schema {schema} rename to {name};

-- name: drop
-- Drop a schema with all tables.
drop schema if exists {schema} cascade;
