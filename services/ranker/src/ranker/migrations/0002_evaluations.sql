-- Many sources of one participant for one problem version, which no leaderboard shows. `sources`
-- are the digests of its items' texts in order; the last items are those whose verdict was cached.
-- `file` is the digest of the sources themselves. `token` is '' for a login without a token.
create table evaluation (
    id text primary key,
    seq bigint not null,
    version bigint not null,
    account text not null,
    token text not null,
    problem text not null,
    problem_number int not null,
    problem_digest text not null,
    gpu text not null,
    mode text not null,
    file text not null,
    sources text[] not null,
    cached_count int not null,
    state text not null check (state in ('queued', 'running', 'finished')),
    is_cancelling boolean not null default false,
    outcome text,
    completed int not null,
    failed int not null default 0,
    cancelled int not null default 0,
    device_s double precision not null default 0,
    requested_at timestamptz not null,
    deadline_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz
);

create index evaluation_of_account on evaluation (account, seq desc);
create index evaluation_by_age on evaluation (seq desc);

-- Items of an evaluation that one event ended, in the order of their results: `count` of them, from
-- the item `first` on. Those with `verdicts` have the lines of the file `results` from `line` on;
-- the others ended without one, as `code` and `reason` say.
create table evaluation_part (
    evaluation text not null,
    seq bigint not null,
    first int not null,
    count int not null,
    outcome text not null check (outcome in ('completed', 'failed', 'cancelled')),
    verdicts text[] not null default '{}',
    results text not null default '',
    line int not null default 0,
    is_cached boolean not null default false,
    harness text not null default '',
    run text not null default '',
    code text not null default '',
    reason text not null default '',
    primary key (evaluation, seq, first)
);

-- The verdict of each source that was tested, by the conditions under which it holds: the line
-- `line` of the file `results`. Those of old events are forgotten.
create table verdict (
    source text not null,
    problem_digest text not null,
    gpu text not null,
    harness text not null,
    seq bigint not null,
    verdict text not null,
    results text not null,
    line int not null,
    primary key (source, problem_digest, gpu, harness)
);

create index verdict_by_age on verdict (seq);
