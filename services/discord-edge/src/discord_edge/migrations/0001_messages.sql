-- What the bot needs after a restart. Whatever it created on Discord is known by its id, never by
-- its name.

-- The thread and messages of each submission, which are updated until it `ended`. `first` is the
-- first submission of the same command, whose thread it shares. `only_case` is the case to profile,
-- counted from 1, and 0 means all; `runner` is the requested launcher, '' for any agent. Both are
-- for a repetition.
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
    began_at timestamptz not null default now(),
    first bigint not null,
    only_case int not null default 0,
    runner text not null default ''
);

create index post_open on post (number) where ended is null;
create index post_first on post (first);

-- Submissions that were sent to ingest and whose answer is not stored yet: the next process sends
-- them again under the same key.
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
    began_at timestamptz not null default now(),
    only_case int not null default 0,
    runner text not null default ''
);

-- A message that is about to be sent to a channel. After a lost answer it is searched for after the
-- message `after`.
create table begun (
    name text not null,
    room text not null,
    after text not null,
    text text not null,
    at timestamptz not null default now(),
    primary key (name, room)
);

-- The digest of the commands that a guild has, so that a start with the same commands sends none.
create table synced (
    guild text primary key,
    digest text not null
);

-- Effects of events on Discord, each of which is begun and done once.
create table outbox (
    event text not null,
    target text not null,
    tries int not null default 1,
    begun_at timestamptz not null default now(),
    done_at timestamptz,
    primary key (event, target)
);

create index outbox_pending on outbox (begun_at) where done_at is null;

-- The ids of channels and roles that the bot created.
create table made (
    name text primary key,
    id text not null,
    at timestamptz not null default now()
);

-- The forum post of each problem, and the facts that it shows.
create table board (
    problem text primary key,
    thread text not null,
    facts text not null
);

-- Podiums that changed, and when they were announced last; `before` is who was on it then. While
-- one is announced, `telling_seq` is the event as of which it is read.
create table podium (
    problem text not null,
    gpu text not null,
    seq bigint not null,
    is_record boolean not null,
    changed_at timestamptz not null default now(),
    told_seq bigint not null default 0,
    told_at timestamptz,
    before text[],
    telling_seq bigint,
    primary key (problem, gpu)
);
