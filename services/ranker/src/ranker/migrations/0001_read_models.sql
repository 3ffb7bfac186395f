-- The read models. All of them are folded from the log: a rebuild fills the same tables in another
-- schema, and the two are compared row by row.

-- How far the log is folded. `folded_at` is the newest time in an event of the platform itself;
-- bans end in these tables by that time, so that a rebuild has the same rows.
create table checkpoint (
    name text primary key,
    seq bigint not null,
    folded_at timestamptz not null default '1970-01-01 00:00:00Z'
);

insert into checkpoint (name, seq) values ('ranker', 0);

-- The event at which a projection stopped. It goes on only after an EventSkipped.
create table parked (
    projection text not null,
    seq bigint not null,
    error text not null,
    parked_at timestamptz not null default now(),
    primary key (projection, seq)
);

-- The versions of each problem. `roofs` has the minimum work of each timed case and the times that
-- no call can be under. `baselines` and `milestones` are as in the event. `source_visible` and
-- `publish` say who reads the sources submitted to a version, and when they are published;
-- `consent` is the digest of the text to accept, '' for none. `report` is the report of its check,
-- `unchecked` why there is none. On `tested_gpus` the check ran its code and a correct solution.
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
    roofs jsonb not null default '[]',
    baselines json not null default '[]',
    milestones json not null default '[]',
    source_visible text not null default 'after_close',
    publish text not null default 'after_close',
    consent text not null default '',
    report text not null default '',
    unchecked text not null default '',
    tested_gpus text[] not null default '{}',
    primary key (slug, number)
);

-- `timeline` is what a submission's page shows: an array for each event, with its sequence, type,
-- time, note and actor. A `baseline` is the platform's own, by that name; '' for all others.
-- `cases_passed` counts the public checked cases that its run passed. `pooling_source` is what
-- equal sources have in common: the digest of the source without comments, white space and the
-- names of local variables, or of its bytes if it has no such form. `toolchains` are what an agent
-- needs to build and run it.
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
    toolchains text[] not null default '{}',
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
    timeline json not null,
    baseline text not null default '',
    cases_passed int not null default 0,
    pooling_source text not null default ''
);

create index submission_of_account on submission (account, number desc);
create index submission_of_problem on submission (problem, number desc);
create index submission_by_job on submission (job);
create index submission_open on submission (gpu, number) where state <> 'finished';
create index submission_held on submission (number) where is_held;
create index submission_baseline on submission (problem, gpu, problem_number, number desc)
    where baseline <> '';

-- `files` has the name, media type, size and digest of each file to download. `composition` is what
-- produced the answer, null if it was not recorded. `stopped` is why a ranked run stopped early, ''
-- if it did not.
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
    files json not null,
    usage json not null,
    sigma_run double precision not null,
    tie_us double precision not null,
    key_commit text,
    key text,
    composition json,
    stopped text not null default ''
);

-- The score of a submission under a problem version: its own, or that of an applied rejudge. The
-- best of many runs of one source is luck, so a participant gains nothing by sending it again: the
-- processes of all their eligible runs of it are pooled. The pooled columns are the score that
-- counts, over the submissions in `pooled_over`. All results of a participant's source have the
-- same values there, and a result that does not count has null. `source` is a `pooling_source`.
-- `yardstick_us` is the score of the yardstick in the same unit, null if the run was timed alone.
-- `placed_us` decides the place: the score, or for a noisy time the slow end of its interval.
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
    yardstick_us double precision,
    placed_us double precision,
    pooled_placed_us double precision,
    primary key (submission, problem_number)
);

create index result_of_source on result (account, source, problem, gpu, problem_number, seq)
    where is_eligible;
create index result_in_order
    on result (account, problem, gpu, problem_number, pooled_placed_us, number)
    where pooled_us is not null;
create index result_noisy on result (submission, problem_number) where grade = 'noisy';
-- For the best score that ever counted, which is read whenever a first place changes.
create index result_by_score
    on result (problem, gpu, problem_number, (coalesce(pooled_us, score_us))) where is_eligible;

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
       pooled_us is not null as counts,
       yardstick_us
from result;

-- The best source of each participant, by its pooled score; of equals the earlier submission. An
-- entry is hidden while its participant is banned. Entries are in the order of (order_us,
-- order_number, number). A copy has the order of its original, the earliest entry of an equal
-- source, whatever its own score: `order_number` is the number of the original. `order_us` is its
-- `placed_us`, or the next value after that of a slower entry that beat it in a duel.
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
    is_hidden boolean not null default false,
    order_us double precision not null,
    order_number bigint not null,
    placed_us double precision not null,
    primary key (problem, gpu, problem_number, account)
);

create index entry_by_place on entry (problem, gpu, problem_number, placed_us);
create index entry_of_original on entry (problem, gpu, problem_number, order_us, order_number)
    where not is_hidden and number = order_number;
create index entry_in_order on entry (problem, gpu, problem_number, order_us, order_number, number)
    where not is_hidden;
create index entry_of_source on entry (source, problem, gpu, problem_number);
create index entry_of_account on entry (account);

-- What an entry was until a batch that ended with an event, for as long as cursors are valid. It
-- has no submission if the entry did not exist. A rebuild leaves this out: it belongs to the pages
-- that were sent.
create table entry_before (
    problem text not null,
    gpu text not null,
    problem_number int not null,
    account text not null,
    until_seq bigint not null,
    at timestamptz not null,
    submission text,
    number bigint,
    source text,
    pooled_over bigint[],
    score_us double precision,
    error double precision,
    freedom int,
    delta double precision,
    is_hidden boolean not null,
    placed_us double precision,
    primary key (problem, gpu, problem_number, account, until_seq)
);

create index entry_before_in_order on entry_before (problem, gpu, problem_number, until_seq);
create index entry_before_by_age on entry_before (at);

-- Since which event earlier states of all entries are in that table.
create table entry_before_since (
    seq bigint not null
);

insert into entry_before_since (seq) values (0);

-- A rank, and how many entries share it, so that no read has to compute ranks. It begins with its
-- leader, the fastest, and ends before the leader of the next rank. So a changed entry rewrites the
-- row of its own rank, and of those that follow as long as their leaders change. `reach_us` is the
-- smallest upper end of the intervals of its entries: an entry that begins above it is separate
-- from at least one of them, and does not share the rank. Nor does one that a duel separates from
-- one of them.
create table tie_group (
    problem text not null,
    gpu text not null,
    problem_number int not null,
    first_us double precision not null,
    first_number bigint not null,
    block int not null,
    entries_count int not null,
    reach_us double precision not null,
    primary key (problem, gpu, problem_number, first_us, first_number)
);

create index tie_group_of_block
    on tie_group (problem, gpu, problem_number, block, first_us, first_number);

-- How many entries the groups have whose leaders are within a tenth of each other, so that a rank
-- is a sum over few rows, however long the leaderboard is.
create table tie_block (
    problem text not null,
    gpu text not null,
    problem_number int not null,
    block int not null,
    entries_count int not null,
    primary key (problem, gpu, problem_number, block)
);

-- The best rank that an interval allows, by its fast end: one more than the entries up to the last
-- group that it is behind.
create function best_rank(slug text, gpu_type text, version int, fast_us double precision)
returns bigint
language sql
stable
as $$
    select 1 + coalesce((
        select (
            select coalesce(sum(entries_count), 0)
            from tie_block
            where problem = slug and gpu = gpu_type and problem_number = version
              and block < last.block
        ) + (
            select coalesce(sum(entries_count), 0)
            from tie_group
            where problem = slug and gpu = gpu_type and problem_number = version
              and block = last.block
              and (first_us, first_number) <= (last.first_us, last.first_number)
        )
        from tie_group as last
        where last.problem = slug and last.gpu = gpu_type and last.problem_number = version
          and last.first_us < fast_us and last.reach_us < fast_us
        order by last.first_us desc, last.first_number desc
        limit 1
    ), 0)::bigint
$$;

-- The fixed times of the yardstick by timed case: the unit of all scores on one leaderboard.
create table yardstick (
    problem text not null,
    gpu text not null,
    problem_number int not null,
    seq bigint not null,
    times_us jsonb not null,
    runs text[] not null,
    at timestamptz not null,
    primary key (problem, gpu, problem_number)
);

-- The state of each leaderboard beside its versions; without a row it is public and has no
-- deadline. `gpus` accept submissions, null for those of the newest version; `gpus_said` are all
-- that any event named. `contest` is '' for none.
create table leaderboard (
    slug text primary key,
    visibility text not null default 'public',
    deadline_at timestamptz,
    archived_at timestamptz,
    gpus text[],
    gpus_said text[] not null default '{}',
    contest text not null default ''
);

-- Who accepts which text of a problem; withdrawing it withdraws all of the problem's texts.
create table consent (
    account text not null,
    problem text not null,
    digest text not null,
    primary key (account, problem, digest)
);

-- Decisions about a submission beside its end. `excluded_seq` is the event since which it is kept
-- off its leaderboards, null while it is not. A withdrawn submission was taken off for ever by its
-- owner or an operator.
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
    appealed_at timestamptz,
    is_withdrawn boolean not null default false,
    withdrawn_reason text,
    withdrawn_at timestamptz
);

create index moderation_open on moderation (seq) where is_held or appeal = 'filed';

-- A ban hides a participant's entries while it lasts.
create table ban (
    account text primary key,
    seq bigint not null,
    reason text not null,
    banned_at timestamptz not null,
    until_at timestamptz,
    is_over boolean not null default false
);

create index ban_ending on ban (until_at) where until_at is not null and not is_over;
create index ban_ended on ban (until_at) where until_at is not null and is_over;

-- What each agent offers.
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

-- What operators and the scheduler decided about an agent; each column is the reason, null if it
-- does not apply.
create table agent_standing (
    id text primary key,
    owner text,
    enrolled_at timestamptz,
    cordoned text,
    drained text,
    quarantined text,
    revoked text
);

-- The key with which an agent signs since an event, null since it was revoked.
create table agent_key (
    agent text not null,
    seq bigint not null,
    sign_key text,
    primary key (agent, seq)
);

-- The harness code that an agent has registered since an event, '' if none; its runs may name no
-- other.
create table agent_harness (
    agent text not null,
    seq bigint not null,
    digest text not null,
    primary key (agent, seq)
);

-- Each harness code that any agent registered, by the digest of its zip. Its version is what the
-- agent says.
create table harness (
    digest text primary key,
    version text not null,
    seq bigint not null,
    seen_at timestamptz not null
);

-- How each canary on an agent was judged; `ratio` is its time divided by the pool's usual time, 0
-- if it failed.
create table canary (
    agent text not null,
    seq bigint not null,
    at timestamptz not null,
    ratio double precision not null,
    is_good boolean not null,
    primary key (agent, seq)
);

-- Whether jobs of a GPU type are paused, and why.
create table pool (
    gpu text primary key,
    paused text,
    paused_at timestamptz
);

-- The last event in the history of a leaderboard: the version that the next append to it expects.
create table ranking (
    problem text not null,
    gpu text not null,
    seq bigint not null,
    primary key (problem, gpu)
);

-- The records of each leaderboard.
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

-- The accounts in the first three places, as they were last announced.
create table podium (
    problem text not null,
    gpu text not null,
    problem_number int not null,
    accounts text[] not null,
    primary key (problem, gpu, problem_number)
);

-- Who reached which milestone on which leaderboard: one row for ever, in all versions.
create table milestone (
    problem text not null,
    gpu text not null,
    milestone text not null,
    account text not null,
    problem_number int not null,
    submission text not null,
    title text not null,
    value double precision not null,
    seq bigint not null,
    at timestamptz not null,
    primary key (problem, gpu, milestone, account)
);

create index milestone_of_account on milestone (account, seq);

-- Two submissions timed in alternation, requested by an operator or for tied neighbours on a
-- podium. The sources are `pooling_source`s.
create table duel (
    id text primary key,
    seq bigint not null,
    problem text not null,
    gpu text not null,
    problem_number int not null,
    first_number bigint not null,
    second_number bigint not null,
    first_source text not null,
    second_source text not null,
    judged_seq bigint,
    run text,
    winner text,
    ratio double precision,
    low double precision,
    high double precision,
    code text not null default '',
    reason text not null default ''
);

create index duel_of_board on duel (problem, gpu, problem_number, seq desc);
create index duel_open on duel (seq) where judged_seq is null;

-- Which source comes before which other one on a leaderboard where their scores are tied.
create table duel_win (
    problem text not null,
    gpu text not null,
    problem_number int not null,
    winner text not null,
    loser text not null,
    ratio double precision not null,
    low double precision not null,
    high double precision not null,
    primary key (problem, gpu, problem_number, winner, loser)
);

create index duel_win_of_loser on duel_win (problem, gpu, problem_number, loser);

-- A ranked run that is repeated on another agent. `shown` is what its leaderboard says of it;
-- `yardstick_us` is the score of its yardstick, null if it was timed alone.
create table confirmation (
    id text primary key,
    seq bigint not null,
    problem text not null,
    gpu text not null,
    problem_number int not null,
    submission text not null,
    run text not null,
    score_us double precision not null,
    judged_seq bigint,
    code text not null default '',
    reason text not null default '',
    shown text not null default '',
    yardstick_us double precision
);

create index confirmation_of_board on confirmation (problem, gpu, problem_number, seq desc);
create unique index confirmation_of_run on confirmation (run);
create index confirmation_open on confirmation (seq) where judged_seq is null;

-- Runs of many submissions under another version of their problem.
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

-- The submissions of a rejudge. Their results are drafts: nothing public reads them before the
-- rejudge is applied. A retime is a run under the same version, which times a noisy run again.
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
    is_retime boolean not null default false,
    primary key (rejudge, submission)
);

create index rejudge_item_by_job on rejudge_item (job);
create index rejudge_item_open on rejudge_item (rejudge) where state <> 'judged';
create index retime_of_submission on rejudge_item (submission) where is_retime;

create view retime as
select rejudge.id, rejudge.problem, rejudge.to_number as problem_number, item.gpu, item.submission,
       rejudge.version, rejudge.state, rejudge.ended_at, item.state as item_state, item.result
from rejudge
join rejudge_item as item on item.rejudge = rejudge.id
where item.is_retime;

-- What may be timed again: entries whose run was noisy, of the newest version of an open problem.
create view noisy_entry as
select entry.problem, entry.gpu, entry.problem_number, entry.submission, entry.number,
       result.at, version.digest, leaderboard.deadline_at
from result
join entry on entry.problem = result.problem and entry.gpu = result.gpu
     and entry.problem_number = result.problem_number and entry.account = result.account
     and entry.submission = result.submission
join problem as version on version.slug = entry.problem and version.number = entry.problem_number
left join leaderboard on leaderboard.slug = entry.problem
where result.grade = 'noisy' and not entry.is_hidden and leaderboard.archived_at is null
  and not exists (
      select 1 from problem as newer
      where newer.slug = version.slug and newer.number > version.number
  );
