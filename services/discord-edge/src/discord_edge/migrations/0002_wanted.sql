-- What was sent to ingest and whose answer is not kept yet: the next process sends it again.
create table wanted (
    key text primary key,
    person text not null,
    name text not null,
    channel text not null,
    problem text not null,
    mode text not null,
    gpus text[] not null,
    file text not null,
    source bytea not null,
    began_at timestamptz not null default now()
);
