-- Which submission has which thread and messages, so that a restart goes on where it was.
create table post (
    number bigint primary key,
    person text not null,
    channel text not null,
    problem text not null,
    gpu text not null,
    mode text not null,
    thread text,
    status text,
    report text,
    ended text,
    began_at timestamptz not null default now()
);

create index post_open on post (number) where ended is null;

-- What was synced last, so that a start with the same commands asks Discord for nothing.
create table synced (
    guild text primary key,
    digest text not null
);
