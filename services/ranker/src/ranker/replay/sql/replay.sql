-- name: take_turn
-- One replay of a schema at a time; the lock ends with its connection, however that ends.
select pg_try_advisory_lock(hashtextextended('warpboard replay ' || %(schema)s, 0));

-- name: end_turn
-- At once: a closed connection would give it up a moment later.
select pg_advisory_unlock(hashtextextended('warpboard replay ' || %(schema)s, 0));

-- name: exists
-- Whether a schema is there.
select count(schema_name) = 1 from information_schema.schemata where schema_name = %(schema)s;

-- name: tables
-- What is compared: everything but the schema's own history, where a projection stands still, and
-- what was kept for pages that were given out.
select table_name
from information_schema.tables
where table_schema = %(schema)s and table_type = 'BASE TABLE' and table_name <> all(array['migration', 'parked', 'entry_before',
    'entry_before_since'])
order by table_name
limit 1000;

-- name: patience
-- To compare whole tables takes longer than any other statement may.
set local statement_timeout = '15min';

-- name: hold
-- No projector moves on until the transaction ends; readers read on.
lock table {schema}.checkpoint in exclusive mode;

-- name: checkpoint
-- How far a projection has folded.
select seq from {schema}.checkpoint where name = %(name)s limit 1;

-- name: rows
-- How many rows there are.
select count(*) from {schema}.{table};

-- name: lacking
-- Rows that one schema has and another has not, by their bytes, so that any type can be compared,
-- at half of what their text costs; what is told of each is its beginning.
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
-- Whoever names the schema means the other tables from the next statement on.
alter schema {schema} rename to {name};

-- name: drop
-- All tables of a schema that nobody needs any more.
drop schema if exists {schema} cascade;
