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
    languages text[] not null,
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
    process_us double precision[] not null default '{}',
    error double precision,
    freedom int not null default 0,
    sigma_run double precision not null default 0,
    delta double precision not null default 0,
    grade text not null default '',
    is_provisional boolean not null default false,
    is_held boolean not null default false,
    finished_at timestamptz
);
create index submission_of_account on submission (account, number desc);
create index submission_of_problem on submission (problem, number desc);
create index submission_by_job on submission (job);
create index submission_of_source on submission (source, problem, problem_number, gpu)
    where is_eligible;
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
    missing text[] not null default '{}',
    fingerprint text,
    stage text,
    verdict text,
    reason text,
    took_s double precision,
    cases jsonb not null default '[]',
    environment jsonb not null default '{}',
    log_head text not null default '',
    log_tail text not null default '',
    -- Name, media type, size and digest of each thing that can be downloaded.
    files jsonb not null default '[]',
    usage jsonb not null default '{}',
    sigma_run double precision not null default 0,
    tie_us double precision not null default 0,
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

-- The same source is one thing on one GPU type, whoever sends it and however often: the processes
-- of its eligible runs are pooled, for the best of many tries is luck. `history` is what the
-- machines add to the degrees of freedom.
create table source_score (
    problem text not null,
    problem_number int not null,
    gpu text not null,
    source text not null,
    process_us double precision[] not null,
    runs int not null,
    history int not null,
    sigma_run double precision not null,
    score_us double precision not null,
    error double precision,
    freedom int not null,
    delta double precision not null,
    primary key (problem, problem_number, gpu, source)
);

-- The best source of each participant, by its score; of equals the earlier submission.
create table entry (
    problem text not null,
    problem_number int not null,
    gpu text not null,
    account text not null,
    submission text not null,
    number bigint not null,
    source text not null,
    runs int not null,
    score_us double precision not null,
    error double precision,
    freedom int not null,
    delta double precision not null,
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
    tier text not null,
    missing jsonb not null,
    toolchains jsonb not null,
    modes text[] not null,
    quarantine text not null,
    registered_at timestamptz not null
);
