-- name: add
-- A submission that is to be followed; a repeat changes nothing.
insert into post (number, person, channel, problem, gpu, mode, first, only_case)
values (%(number)s, %(person)s, %(channel)s, %(problem)s, %(gpu)s, %(mode)s, %(first)s, %(case)s)
on conflict (number) do nothing;

-- name: set_thread
-- Where it is told.
update post set thread = %(value)s where number = %(number)s;

-- name: set_status
-- The message that says where it is.
update post set status = %(value)s where number = %(number)s;

-- name: set_report
-- The message with its report.
update post set report = %(value)s where number = %(number)s;

-- name: set_ended
-- Nothing is told of it any more, and why.
update post set ended = %(value)s where number = %(number)s;

-- name: open
-- Those that are still told of, oldest first.
select number, person, channel, problem, gpu, mode, first, thread, status, report, only_case as case
from post where ended is null order by number limit 2000;

-- name: group
-- What was submitted by one command, oldest first.
select number, person, channel, problem, gpu, mode, first, thread, status, report, only_case as case
from post where first = %(first)s order by number limit 100;

-- name: former
-- The newest thread of another submission of a person to a problem.
select thread from post
where person = %(person)s and problem = %(problem)s and number <> %(number)s and thread is not null
order by number desc limit 1;

-- name: want
-- What is sent, until its answer is kept.
insert into wanted (key, person, name, channel, problem, mode, gpus, file, source, only_case)
values (%(key)s, %(person)s, %(name)s, %(channel)s, %(problem)s, %(mode)s, %(gpus)s, %(file)s,
        %(source)s, %(case)s)
on conflict (key) do nothing;

-- name: unwant
-- Its answer is kept, or it was refused.
delete from wanted where key = %(key)s;

-- name: wanted
-- What was sent and not answered, oldest first; a key is good for a day, and then it is forgotten.
with old as (delete from wanted where began_at < now() - interval '20 hours')
select key, person, name, channel, problem, mode, gpus, file, source, only_case
from wanted where began_at > now() - interval '20 hours' order by began_at limit 500;

-- name: synced
-- What was synced last.
select digest from synced where guild = %(guild)s;

-- name: set_synced
-- What is synced now.
insert into synced (guild, digest) values (%(guild)s, %(digest)s)
on conflict (guild) do update set digest = excluded.digest;
