-- name: made
-- The id of what was made under a name.
select id from made where name = %(name)s;

-- name: begun
-- What was about to be said in a room under a name.
select text, after from begun where name = %(name)s and room = %(room)s;

-- name: begin
-- What is about to be said in a room under a name.
insert into begun (name, room, text, after)
values (%(name)s, %(room)s, %(text)s, %(after)s)
on conflict (name, room) do update set text = excluded.text, after = excluded.after;

-- name: keep
-- What was made under a name; a new one takes the place of one that is gone. What was begun and
-- came to nothing is looked for no more after a month.
with said as (delete from begun where name = %(name)s or at < now() - interval '30 days')
insert into made (name, id) values (%(name)s, %(id)s)
on conflict (name) do update set id = excluded.id, at = now();

-- name: room
-- Where a submission is told to its owner.
select thread from post where number = %(number)s and thread is not null;

-- name: newest_room
-- Where the newest submission of a person to a problem is told.
select thread from post
where person = %(person)s and problem = %(problem)s and thread is not null
order by number desc limit 1;

-- name: board
-- The post of a problem.
select thread, facts from board where problem = %(problem)s;

-- name: set_board
-- The post of a problem, and what it says now.
insert into board (problem, thread, facts) values (%(problem)s, %(thread)s, %(facts)s)
on conflict (problem) do update set thread = excluded.thread, facts = excluded.facts;

-- name: boards
-- Every problem that has a post.
select problem, facts from board order by problem limit 2000;

-- name: moved
-- A podium changed, or a record fell; what was said before stays said, and what was ahead then.
-- What is being told just now is said as far as it goes.
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
-- Podiums that changed, are quiet for a moment, and of which nothing was told for a while; what is
-- being told is told to its end.
select problem, gpu, coalesce(telling_seq, seq) as seq, is_record, before from podium
where
    seq > told_seq
    and changed_at < now() - make_interval(secs => %(quiet_s)s)
    and (told_at is null or told_at < now() - make_interval(secs => %(every_s)s))
order by changed_at limit 50;

-- name: telling
-- A podium is being told of, as of an event.
update podium set telling_seq = %(seq)s where problem = %(problem)s and gpu = %(gpu)s;

-- name: told
-- A podium was told of, as of an event.
update podium set told_seq = %(seq)s, told_at = now(), telling_seq = null
where problem = %(problem)s and gpu = %(gpu)s;
