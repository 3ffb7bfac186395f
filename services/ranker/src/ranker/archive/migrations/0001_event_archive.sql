-- The log byte for byte, each event with the hash chain up to it.
create table checkpoint (
    name text primary key,
    seq bigint not null
);
insert into checkpoint (name, seq) values ('archive', 0);

create table event_archive (
    seq bigint primary key,
    subject text not null,
    id text not null,
    at timestamptz not null,
    body bytea not null,
    h bytea not null
);
create index event_archive_seal on event_archive (seq) where subject = 'events.audit.seal';
