-- The read models, all folded from the log; a rebuild fills the same tables in another schema.
create table checkpoint (
    name text primary key,
    seq bigint not null
);
insert into checkpoint (name, seq) values ('ranker', 0);

-- The event at which a projection stopped: going on without it takes an EventSkipped.
create table parked (
    projection text not null,
    seq bigint not null,
    error text not null,
    parked_at timestamptz not null default now(),
    primary key (projection, seq)
);

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
    source_bytes bigint not null,
    source_media text not null,
    received_at timestamptz not null,
    deadline_at timestamptz not null,
    state text not null,
    state_at timestamptz not null,
    lease_until_at timestamptz,
    job text,
    run text,
    agent text,
    attempt int not null,
    outcome text,
    verdict text,
    code text,
    reason text,
    is_eligible boolean not null,
    is_held boolean not null,
    finished_at timestamptz,
    -- What its page tells, an array an event: sequence, type, time, note.
    timeline json not null
);
create index submission_of_account on submission (account, number desc);
create index submission_of_problem on submission (problem, number desc);
create index submission_by_job on submission (job);
create index submission_open on submission (gpu, number) where state <> 'finished';
create index submission_held on submission (number) where is_held;

create table run (
    id text primary key,
    submission text not null,
    job text not null,
    agent text not null,
    attempt int not null,
    token bigint not null,
    assigned_at timestamptz not null,
    started_at timestamptz,
    ended_at timestamptz,
    ended_seq bigint,
    level text,
    tier text,
    missing text[] not null,
    fingerprint text,
    stage text,
    verdict text,
    reason text,
    took_s double precision,
    cases json not null,
    environment json not null,
    log_head text not null,
    log_tail text not null,
    -- Name, media type, size and digest of each thing that can be downloaded.
    files json not null,
    usage json not null,
    sigma_run double precision not null,
    tie_us double precision not null,
    key_commit text,
    key text
);

-- The score of a submission under a problem version: its own, or that of an applied rejudge.
-- A participant who sends the same source again gains nothing, for the best of many tries is luck:
-- the processes of their eligible runs of it are pooled. The pooled columns are the score that
-- counts, over the submissions in `pooled_over`; they are equal for all results of the participant's
-- source, and null for a result that does not count.
create table result (
    submission text not null,
    problem_number int not null,
    problem text not null,
    gpu text not null,
    account text not null,
    number bigint not null,
    source text not null,
    seq bigint not null,
    rejudge text not null,
    run text,
    verdict text,
    is_eligible boolean not null,
    code text not null,
    reason text not null,
    score_us double precision,
    low_us double precision,
    high_us double precision,
    process_us double precision[] not null,
    error double precision,
    freedom int not null,
    sigma_run double precision not null,
    delta double precision not null,
    grade text not null,
    is_provisional boolean not null,
    received_at timestamptz not null,
    at timestamptz not null,
    pooled_us double precision,
    pooled_error double precision,
    pooled_freedom int,
    pooled_delta double precision,
    pooled_over bigint[],
    primary key (submission, problem_number)
);
create index result_of_source on result (account, source, problem, gpu, problem_number, seq)
    where is_eligible;
create index result_in_order on result (account, problem, gpu, problem_number, pooled_us, number)
    where pooled_us is not null;

-- The one score of a submission under a problem version, which every reader shows: that of the
-- leaderboard where it counts, else that of its own run. `run_us` and its bounds are its own run's.
create view scored as
select submission, problem_number, rejudge, run, verdict, is_eligible, code, reason, account,
       problem, gpu, number, source, grade, is_provisional, received_at, at, seq,
       score_us as run_us, low_us, high_us, process_us,
       coalesce(pooled_us, score_us) as score_us,
       case when pooled_us is null then error else pooled_error end as error,
       coalesce(pooled_freedom, freedom) as freedom,
       coalesce(pooled_delta, delta) as delta,
       case when cardinality(pooled_over) > 1 then pooled_over else '{}' end as pooled_over,
       pooled_us is not null as counts
from result;

-- The best source of each participant, by its pooled score; of equals the earlier submission.
create table entry (
    problem text not null,
    problem_number int not null,
    gpu text not null,
    account text not null,
    submission text not null,
    number bigint not null,
    source text not null,
    pooled_over bigint[] not null,
    score_us double precision not null,
    error double precision,
    freedom int not null,
    delta double precision not null,
    received_at timestamptz not null,
    primary key (problem, gpu, problem_number, account)
);
create index entry_in_order on entry (problem, gpu, problem_number, score_us, number);

-- What was decided about a submission beside its end; `excluded_seq` is the event since which it
-- is kept off its leaderboards, null while it is not.
create table moderation (
    submission text primary key,
    seq bigint not null,
    is_held boolean not null default false,
    is_disqualified boolean not null default false,
    excluded_seq bigint,
    rule text,
    reason text,
    evidence text,
    actor text,
    decided_at timestamptz,
    appeal text check (appeal in ('filed', 'accepted', 'rejected')),
    appeal_text text,
    appeal_reason text,
    appealed_at timestamptz
);
create index moderation_open on moderation (seq) where is_held or appeal = 'filed';

-- A ban hides a participant from leaderboards while it lasts, judged by the clock of who reads.
create table ban (
    account text primary key,
    seq bigint not null,
    reason text not null,
    banned_at timestamptz not null,
    until_at timestamptz
);

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

-- What people and the scheduler decided about an agent; each text is the reason, null if it is not so.
create table agent_standing (
    id text primary key,
    owner text,
    enrolled_at timestamptz,
    cordoned text,
    drained text,
    quarantined text,
    revoked text
);

-- Which key an agent signs with since an event; null since it was revoked.
create table agent_key (
    agent text not null,
    seq bigint not null,
    sign_key text,
    primary key (agent, seq)
);

create table pool (
    gpu text primary key,
    paused text,
    paused_at timestamptz
);

-- How far the history of a leaderboard's records is known, for appending to it.
create table ranking (
    problem text not null,
    gpu text not null,
    seq bigint not null,
    primary key (problem, gpu)
);

create table record (
    seq bigint primary key,
    problem text not null,
    gpu text not null,
    problem_number int not null,
    submission text not null,
    run text not null,
    account text not null,
    score_us double precision not null,
    previous_us double precision,
    at timestamptz not null
);
create index record_of_board on record (problem, gpu, problem_number, seq);

create table podium (
    problem text not null,
    gpu text not null,
    problem_number int not null,
    accounts text[] not null,
    primary key (problem, gpu, problem_number)
);

create table rejudge (
    id text primary key,
    seq bigint not null,
    version bigint not null,
    problem text not null,
    from_number int not null,
    to_number int not null,
    select_ text not null,
    reason text not null,
    actor text not null,
    count int not null,
    state text not null check (state in ('running', 'previewed', 'applied', 'discarded')),
    diff text,
    changed_count int,
    requested_at timestamptz not null,
    previewed_at timestamptz,
    ended_at timestamptz,
    end_reason text,
    end_actor text
);

-- Drafts: nothing public reads them before they are applied.
create table rejudge_item (
    rejudge text not null,
    submission text not null,
    to_number int not null,
    account text not null,
    gpu text not null,
    state text not null,
    state_at timestamptz not null,
    lease_until_at timestamptz,
    job text,
    run text,
    agent text,
    attempt int not null,
    reason text not null,
    result json,
    primary key (rejudge, submission)
);
create index rejudge_item_by_job on rejudge_item (job);
create index rejudge_item_open on rejudge_item (rejudge) where state <> 'judged';
