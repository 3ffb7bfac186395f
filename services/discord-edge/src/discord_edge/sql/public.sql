-- name: made
-- The id of what was made under a name.
select id from made where name = %(name)s;

-- name: keep
-- What was made under a name; a new one takes the place of one that is gone.
insert into made (name, id) values (%(name)s, %(id)s)
on conflict (name) do update set id = excluded.id, at = now();

-- name: expect
-- A ranked submission is on its way to a leaderboard.
insert into expected (submission, problem, gpu)
values (%(submission)s, %(problem)s, %(gpu)s)
on conflict (submission) do nothing;

-- name: expected
-- To which leaderboard a submission was on its way.
select problem, gpu from expected where submission = %(submission)s;

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
-- A podium changed, or a record fell; what was said before stays said.
insert into podium (problem, gpu, seq, is_record)
values (%(problem)s, %(gpu)s, %(seq)s, %(is_record)s)
on conflict (problem, gpu) do update
set
    seq = greatest(podium.seq, excluded.seq),
    is_record
    = excluded.is_record or (podium.is_record and podium.seq > podium.told_seq),
    changed_at = now();

-- name: due
-- Podiums that changed, are quiet for a moment, and of which nothing was told for a while.
select problem, gpu, seq, is_record from podium
where
    seq > told_seq
    and changed_at < now() - make_interval(secs => %(quiet_s)s)
    and (told_at is null or told_at < now() - make_interval(secs => %(every_s)s))
order by changed_at limit 50;

-- name: told
-- A podium was told of, as of an event.
update podium set told_seq = %(seq)s, told_at = now()
where problem = %(problem)s and gpu = %(gpu)s;
