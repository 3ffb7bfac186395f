-- What everybody is told. An event's effect is tried and done once; what it made on Discord is
-- known by its id, and never by its name.
create table outbox (
    event text not null,
    target text not null,
    tries int not null default 1,
    begun_at timestamptz not null default now(),
    done_at timestamptz,
    primary key (event, target)
);

create index outbox_pending on outbox (begun_at) where done_at is null;

create table made (
    name text primary key,
    id text not null,
    at timestamptz not null default now()
);

-- Ranked submissions on their way: an end does not say of which leaderboard it is.
create table expected (
    submission text primary key,
    problem text not null,
    gpu text not null,
    at timestamptz not null default now()
);

-- The post of a problem, and what it says.
create table board (
    problem text primary key,
    thread text not null,
    facts text not null
);

-- Podiums that changed, and when that was last told.
create table podium (
    problem text not null,
    gpu text not null,
    seq bigint not null,
    is_record boolean not null,
    changed_at timestamptz not null default now(),
    told_seq bigint not null default 0,
    told_at timestamptz,
    primary key (problem, gpu)
);
