-- Make a migrated database clean again for the next test.
--
-- `seeds` keeps the rows that the migrations themselves inserted, one table per table.
create schema seeds;

do $$
declare
    t record;
    is_filled boolean;
begin
    for t in
        select schemaname, tablename from pg_tables
        where schemaname <> 'seeds' and schemaname !~ '^pg_' and schemaname <> 'information_schema'
            and tablename <> 'migration'
    loop
        execute format('select exists (select from %I.%I)', t.schemaname, t.tablename)
        into is_filled;
        if is_filled then
            execute format(
                'create table seeds.%I as table %I.%I',
                t.schemaname || '.' || t.tablename, t.schemaname, t.tablename
            );
        end if;
    end loop;
end
$$;

-- What the tables look like: a test that changes this costs a fresh migration.
create function seeds.shape(schemas text []) returns text language sql as $$
    select md5(string_agg(
        concat_ws(' ', n.nspname, c.relname, c.relkind, a.attname, a.atttypid, a.attnotnull), ','
        order by n.nspname, c.relname, a.attnum
    ))
    from pg_attribute as a
    join pg_class as c on c.oid = a.attrelid
    join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = any(schemas) and a.attnum > 0
$$;

-- Disconnect everybody else, and drop every schema but these.
create function seeds.clear(schemas text []) returns void language plpgsql as $$
declare
    schema text;
begin
    perform pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid();
    -- To let pg_terminate_backend wait takes 100 ms each.
    for attempt in 1..5000 loop
        perform pg_stat_clear_snapshot();
        exit when not exists (
            select from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()
        );
        perform pg_sleep(0.001);
    end loop;
    for schema in
        select nspname from pg_namespace
        where nspname !~ '^pg_' and nspname <> all(schemas)
            and nspname not in ('information_schema', 'seeds', 'public')
    loop
        execute format('drop schema %I cascade', schema);
    end loop;
end
$$;

create function seeds.refill(schemas text []) returns void language plpgsql as $$
declare
    t record;
begin
    -- Foreign keys are not checked row by row: all tables are emptied anyway.
    set local session_replication_role = replica;
    for t in
        select schemaname, tablename from pg_tables
        where schemaname = any(schemas) and tablename <> 'migration'
    loop
        execute format('delete from %I.%I', t.schemaname, t.tablename);
    end loop;
    for t in select tablename from pg_tables where schemaname = 'seeds' loop
        execute format(
            'insert into %I.%I table seeds.%I',
            split_part(t.tablename, '.', 1), split_part(t.tablename, '.', 2), t.tablename
        );
    end loop;
    for t in select schemaname, sequencename from pg_sequences where schemaname = any(schemas) loop
        execute format('alter sequence %I.%I restart', t.schemaname, t.sequencename);
    end loop;
end
$$;
