-- name: commit_lazily
-- What Postgres lost when it was killed is copied again, for the checkpoint is lost with it.
set synchronous_commit = off;

-- name: head
-- The last sequence that is archived, and the chain up to it.
select checkpoint.seq, event_archive.h
from checkpoint
left join event_archive on event_archive.seq = checkpoint.seq
where checkpoint.name = 'archive'
limit 1;

-- name: touch
-- Nothing changes, but it is written: a server that takes no writes says so.
update checkpoint set seq = seq where name = 'archive';

-- name: up_to
-- The chain up to an event.
select h from event_archive where seq = %(seq)s limit 1;

-- name: keep
-- Rows in bulk: seven times faster than statements.
copy event_archive (seq, subject, id, at, body, h) from stdin (format binary);

-- name: page
-- The next events after one, with the chain up to each.
select seq, subject, id, body, h from event_archive
where seq > %(after)s
order by seq
limit %(limit)s;

-- name: newest_seal
-- The last event of the seals' own aggregate.
select seq, subject, id, body
from event_archive
where subject = 'events.audit.seal'
order by seq desc
limit 1;

-- name: seals
-- The newest seals, for whoever keeps them elsewhere; read on a connection of the read models.
select seq, subject, id, body from archive.event_archive
where subject = 'events.audit.seal'
order by seq desc
limit %(limit)s;

-- name: some
-- Some events, by their sequences, on a connection of the read models.
select seq, subject, id, body from archive.event_archive
where seq = any(%(seqs)s::bigint[])
order by seq
limit 1000;

-- name: spoken
-- What people may have said in a stretch of the log, newest first.
select seq, subject, id, body from archive.event_archive
where seq > %(start)s and seq < %(before)s
  and split_part(subject, '.', 2) = any(%(aggregates)s::text[])
order by seq desc
limit 20000;

-- name: newest_then
-- The last event that had happened by an instant.
select coalesce(max(seq), 0) from archive.event_archive where at <= %(at)s;

-- name: then
-- What had happened by an instant to everything that ever counted on a leaderboard; the read
-- models, on whose connection this runs, know which submissions that are.
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
    select 'events.rejudge.' || id from rejudge where problem = %(problem)s
    union all
    select 'events.duel.' || id from duel where problem = %(problem)s and gpu = %(gpu)s
    union all
    select 'events.confirmation.' || id
    from confirmation where problem = %(problem)s and gpu = %(gpu)s
)
order by seq
limit %(limit)s;
