-- What is about to be said, and after which message of its room it is looked for.
create table begun (
    name text not null,
    room text not null,
    after text not null,
    text text not null,
    at timestamptz not null default now(),
    primary key (name, room)
);

-- As of which event a podium is being told, until it was.
alter table podium add column telling_seq bigint;
