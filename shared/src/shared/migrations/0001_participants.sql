-- Personal data: never in an event, so that it can be erased. Written by ingest, read by ranker.
create table participant (
    account text primary key,
    name text not null unique,
    opened_at timestamptz not null default now()
);
