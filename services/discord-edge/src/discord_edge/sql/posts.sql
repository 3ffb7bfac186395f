-- name: add
-- Add a submission to track; a repeat changes nothing.
insert into post (number, person, channel, problem, gpu, mode, first, only_case, runner)
values (%(number)s, %(person)s, %(channel)s, %(problem)s, %(gpu)s, %(mode)s, %(first)s, %(case)s,
        %(runner)s)
on conflict (number) do nothing;

-- name: set_thread
-- Set the thread of a submission.
update post set thread = %(value)s where number = %(number)s;

-- name: set_status
-- Set the status message of a submission.
update post set status = %(value)s where number = %(number)s;

-- name: set_report
-- Set the report message of a submission.
update post set report = %(value)s where number = %(number)s;

-- name: set_ended
-- Stop tracking a submission, with the reason.
update post set ended = %(value)s where number = %(number)s;

-- name: open
-- The tracked submissions, oldest first.
select number, person, channel, problem, gpu, mode, first, thread, status, report, runner,
    only_case as case
from post where ended is null order by number limit 2000;

-- name: group
-- The submissions of one command, oldest first.
select number, person, channel, problem, gpu, mode, first, thread, status, report, runner,
    only_case as case
from post where first = %(first)s order by number limit 100;

-- name: former
-- The newest thread of another submission of the same user and problem.
select thread from post
where person = %(person)s and problem = %(problem)s and number <> %(number)s and thread is not null
order by number desc limit 1;

-- name: want
-- Add a request until its answer is stored.
insert into wanted (key, person, name, channel, problem, mode, gpus, file, source, only_case, runner)
values (%(key)s, %(person)s, %(name)s, %(channel)s, %(problem)s, %(mode)s, %(gpus)s, %(file)s,
        %(source)s, %(case)s, %(runner)s)
on conflict (key) do nothing;

-- name: unwant
-- Remove a request whose answer is stored or that was refused.
delete from wanted where key = %(key)s;

-- name: wanted
-- The requests without a stored answer, oldest first; a key is valid for a day, older requests are
-- deleted.
with old as (delete from wanted where began_at < now() - interval '20 hours')
select key, person, name, channel, problem, mode, gpus, file, source, only_case, runner
from wanted where began_at > now() - interval '20 hours' order by began_at limit 500;

-- name: synced
-- The digest of the synced commands.
select digest from synced where guild = %(guild)s;

-- name: set_synced
-- Set the digest of the synced commands.
insert into synced (guild, digest) values (%(guild)s, %(digest)s)
on conflict (guild) do update set digest = excluded.digest;
