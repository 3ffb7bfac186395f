-- name: commit_lazily
-- What Postgres loses in a crash is copied again, because the checkpoint is lost with it.
set synchronous_commit = off;

-- name: head
-- The last archived sequence, and the chain up to it.
select checkpoint.seq, event_archive.h
from checkpoint
left join event_archive on event_archive.seq = checkpoint.seq
where checkpoint.name = 'archive'
limit 1;

-- name: touch
-- Write without a change: fails on a server that accepts no writes.
update checkpoint set seq = seq where name = 'archive';

-- name: up_to
-- The chain up to an event.
select h from event_archive where seq = %(seq)s limit 1;

-- name: keep
-- Insert rows in bulk: seven times faster than statements.
copy event_archive (seq, subject, id, at, body, h) from stdin (format binary);

-- name: page
-- The next events after a sequence, with the chain up to each.
select seq, subject, id, body, h from event_archive
where seq > %(after)s
order by seq
limit %(limit)s;

-- name: claim_scrub
-- Only one ranker scrubs; the claim ends with its connection.
select pg_try_advisory_lock(hashtext('warpboard scrub')) limit 1;

-- name: newest_seal
-- The newest event of the seals' aggregate.
select seq, subject, id, body
from event_archive
where subject = 'events.audit.seal'
order by seq desc
limit 1;

-- name: seals
-- The newest seals, for external auditors; read on a connection of the read models.
select seq, subject, id, body from archive.event_archive
where subject = 'events.audit.seal'
order by seq desc
limit %(limit)s;

-- name: some
-- Some events by sequence, on a connection of the read models.
select seq, subject, id, body from archive.event_archive
where seq = any(%(seqs)s::bigint[])
order by seq
limit 1000;

-- name: spoken
-- Events that people may have caused in a stretch of the log, newest first.
select seq, subject, id, body from archive.event_archive
where seq > %(start)s and seq < %(before)s
  and split_part(subject, '.', 2) = any(%(aggregates)s::text[])
order by seq desc
limit 20000;

-- name: newest_then
-- The last event by an instant.
select coalesce(max(seq), 0) from archive.event_archive where at <= %(at)s;

-- name: then
-- All events by an instant that ever mattered to a leaderboard; the read models, on whose
-- connection this runs, know its submissions.
select seq, subject, id, body
from archive.event_archive
where at <= %(at)s and subject in (
    select 'events.problem.' || %(problem)s
    union all
    select 'events.submission.' || submission
    from result where problem = %(problem)s and gpu = %(gpu)s
    union all
    select 'events.moderation.' || submission
    from result where problem = %(problem)s and gpu = %(gpu)s
    union all
    select 'events.account.' || account
    from result where problem = %(problem)s and gpu = %(gpu)s
    union all
    select 'events.account.' || unnest(array[account, into_account]) from account_merge
    union all
    select 'events.rejudge.' || id from rejudge where problem = %(problem)s
    union all
    select 'events.duel.' || id from duel where problem = %(problem)s and gpu = %(gpu)s
    union all
    select 'events.confirmation.' || id
    from confirmation where problem = %(problem)s and gpu = %(gpu)s
    union all
    select 'events.yardstick.' || problem || '.' || gpu || '.' || problem_number
    from yardstick where problem = %(problem)s and gpu = %(gpu)s
)
order by seq
limit %(limit)s;

-- name: contest_history_then
-- The events of a contest itself by an instant.
select seq, subject, id, body
from archive.event_archive
where at <= %(at)s and subject = 'events.contest.' || %(contest)s
order by seq
limit %(limit)s;

-- name: contest_then
-- All events by an instant that ever mattered to the standing of a contest; the read models, on
-- whose connection this runs, know its submissions.
select seq, subject, id, body
from archive.event_archive
where at <= %(at)s and subject in (
    select 'events.contest.' || %(contest)s
    union all
    select 'events.problem.' || slug from unnest(%(problems)s::text[]) as slug
    union all
    select 'events.submission.' || id
    from submission where problem = any(%(problems)s::text[]) and mode = 'ranked'
    union all
    select 'events.moderation.' || submission
    from result where problem = any(%(problems)s::text[])
    union all
    select 'events.account.' || account
    from result where problem = any(%(problems)s::text[])
    union all
    select 'events.account.' || unnest(array[account, into_account]) from account_merge
    union all
    select 'events.yardstick.' || problem || '.' || gpu || '.' || problem_number
    from yardstick where problem = any(%(problems)s::text[])
    union all
    select 'events.rejudge.' || id from rejudge where problem = any(%(problems)s::text[])
    union all
    select 'events.duel.' || id from duel where problem = any(%(problems)s::text[])
)
order by seq
limit %(limit)s;

-- name: rating_then
-- All events by an instant that ever mattered to a rating; the read models, on whose connection
-- this runs, know the submissions.
select seq, subject, id, body
from archive.event_archive
where at <= %(at)s and subject in (
    select 'events.contest.' || slug from contest
    union all
    select 'events.problem.' || slug from problem
    union all
    select 'events.submission.' || submission from result
    union all
    select 'events.moderation.' || submission from result
    union all
    select 'events.account.' || account from result
    union all
    select 'events.account.' || unnest(array[account, into_account]) from account_merge
    union all
    select 'events.yardstick.' || problem || '.' || gpu || '.' || problem_number from yardstick
    union all
    select 'events.rejudge.' || id from rejudge
    union all
    select 'events.duel.' || id from duel
)
order by seq
limit %(limit)s;
