-- The read models, all folded from the log; a rebuild fills the same tables in another schema.
create table checkpoint (
    name text primary key,
    seq bigint not null
);
insert into checkpoint (name, seq) values ('ranker', 0);

create table problem (
    slug text not null,
    number int not null,
    digest text not null,
    title text not null,
    manifest text not null,
    gpus text[] not null,
    cases_count jsonb not null,
    ranking_by text not null,
    budgets_s jsonb not null,
    source_bytes_max int not null,
    published_at timestamptz not null,
    primary key (slug, number)
);

create table submission (
    id text primary key,
    number bigint not null unique,
    version bigint not null,
    account text not null,
    problem text not null,
    problem_number int not null,
    gpu text not null,
    mode text not null,
    name text not null,
    source text not null,
    received_at timestamptz not null,
    deadline_at timestamptz not null,
    state text not null,
    job text,
    run text,
    agent text,
    attempt int not null default 0,
    outcome text,
    verdict text,
    code text,
    reason text,
    is_eligible boolean not null default false,
    score_us double precision,
    low_us double precision,
    high_us double precision,
    finished_at timestamptz
);
create index submission_of_account on submission (account, number desc);
create index submission_of_problem on submission (problem, number desc);
create index submission_by_job on submission (job);
create index submission_undecided on submission (number) where state = 'ranking';

create table run (
    id text primary key,
    submission text not null,
    job text not null,
    agent text not null,
    attempt int not null,
    assigned_at timestamptz not null,
    started_at timestamptz,
    ended_at timestamptz,
    level text,
    tier text,
    fingerprint text,
    stage text,
    verdict text,
    reason text,
    took_s double precision,
    cases jsonb not null default '[]',
    environment jsonb not null default '{}',
    log_head text not null default '',
    log_tail text not null default '',
    log text,
    samples text,
    key_commit text,
    key text
);

-- What a submission's page tells, one line an event.
create table history (
    seq bigint primary key,
    submission text not null,
    type text not null,
    at timestamptz not null,
    note text not null
);
create index history_of_submission on history (submission, seq);

-- The best eligible run of each participant.
create table entry (
    problem text not null,
    problem_number int not null,
    gpu text not null,
    account text not null,
    submission text not null,
    number bigint not null,
    score_us double precision not null,
    low_us double precision not null,
    high_us double precision not null,
    received_at timestamptz not null,
    primary key (problem, problem_number, gpu, account)
);
create index entry_in_order on entry (problem, problem_number, gpu, score_us, number);

create table agent (
    id text primary key,
    gpu text not null,
    count int not null,
    fingerprint text not null,
    level text not null,
    harness text not null,
    details jsonb not null,
    registered_at timestamptz not null
);
