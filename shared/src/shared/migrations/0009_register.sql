-- Which database this is, in one row: it is made with the tables and goes into every copy of them.
-- The log names the register whose names are good (AccountTablesAdopted). While `is_lost`, the
-- accounts in the log are not those of these tables, and nobody gets a name here that another
-- participant may have had. `written_at` is written every few seconds, to know that the server takes
-- writes.
create table register (
    is_only boolean primary key default true check (is_only),
    register text not null default gen_random_uuid()::text,
    is_lost boolean not null default false,
    written_at timestamptz not null default now()
);

insert into register default values;
