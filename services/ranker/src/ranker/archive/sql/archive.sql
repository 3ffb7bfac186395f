-- name: head
-- The last sequence that is archived, and the chain up to it.
select checkpoint.seq, event_archive.h
from checkpoint
left join event_archive on event_archive.seq = checkpoint.seq
where checkpoint.name = 'archive'
limit 1;

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
select seq, body from event_archive where subject = 'events.audit.seal' order by seq desc limit 1;

-- name: seals
-- The newest seals, for whoever keeps them elsewhere; read on a connection of the read models.
select seq, body from archive.event_archive
where subject = 'events.audit.seal'
order by seq desc
limit %(limit)s;
