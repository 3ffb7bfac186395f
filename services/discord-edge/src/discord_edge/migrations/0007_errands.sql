-- Repositories that are being published: the next process goes on, and says how it ended.
create table errand (
    key text primary key,
    person text not null,
    name text not null,
    roles text[] not null,
    channel text not null,
    said text not null,
    before text not null,
    began_at timestamptz not null default now()
);
