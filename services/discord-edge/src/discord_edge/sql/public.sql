-- name: made
-- The id of what was created under a name.
select id from made where name = %(name)s;

-- name: begun
-- The message that was about to be sent to a channel under a name.
select text, after from begun where name = %(name)s and room = %(room)s;

-- name: begin
-- Store a message before it is sent to a channel under a name.
insert into begun (name, room, text, after)
values (%(name)s, %(room)s, %(text)s, %(after)s)
on conflict (name, room) do update set text = excluded.text, after = excluded.after;

-- name: keep
-- Store the id of what was created under a name, or replace it. Pending messages that were never
-- sent are deleted after a month.
with said as (delete from begun where name = %(name)s or at < now() - interval '30 days')
insert into made (name, id) values (%(name)s, %(id)s)
on conflict (name) do update set id = excluded.id, at = now();

-- name: room
-- The thread of a submission.
select thread from post where number = %(number)s and thread is not null;

-- name: newest_room
-- The thread of a user's newest submission to a problem.
select thread from post
where person = %(person)s and problem = %(problem)s and thread is not null
order by number desc limit 1;

-- name: board
-- The forum post of a problem.
select thread, facts from board where problem = %(problem)s;

-- name: set_board
-- Set the forum post of a problem and what it shows.
insert into board (problem, thread, facts) values (%(problem)s, %(thread)s, %(facts)s)
on conflict (problem) do update set thread = excluded.thread, facts = excluded.facts;

-- name: boards
-- All problems with a forum post.
select problem, facts from board order by problem limit 2000;

-- name: moved
-- Store that a podium changed or a record was set. The last announced podium is kept to compare
-- with; an announcement in progress continues as of its own event.
insert into podium (problem, gpu, seq, is_record, before)
values (%(problem)s, %(gpu)s, %(seq)s, %(is_record)s, %(before)s)
on conflict (problem, gpu) do update
set
    is_record
    = excluded.is_record or (
        podium.is_record and podium.seq > greatest(podium.told_seq, podium.telling_seq)
    ),
    before
    = case
        when podium.seq > greatest(podium.told_seq, podium.telling_seq)
            then coalesce(podium.before, excluded.before)
        else excluded.before
    end,
    seq = greatest(podium.seq, excluded.seq),
    changed_at = now();

-- name: due
-- The podiums to announce: changed, quiet for a moment, and not announced recently. An announcement
-- in progress is finished first.
select problem, gpu, coalesce(telling_seq, seq) as seq, is_record, before from podium
where
    seq > told_seq
    and changed_at < now() - make_interval(secs => %(quiet_s)s)
    and (told_at is null or told_at < now() - make_interval(secs => %(every_s)s))
order by changed_at limit 50;

-- name: telling
-- Mark a podium as being announced, as of an event.
update podium set telling_seq = %(seq)s where problem = %(problem)s and gpu = %(gpu)s;

-- name: told
-- Mark a podium as announced, as of an event.
update podium set told_seq = %(seq)s, told_at = now(), telling_seq = null
where problem = %(problem)s and gpu = %(gpu)s;
