-- name: problem_published
-- One row a version.
insert into problem (slug, number, digest, title, manifest, gpus, cases_count, ranking_by,
                     budgets_s, source_bytes_max, published_at)
values (%(slug)s, %(number)s, %(digest)s, %(title)s, %(manifest)s, %(gpus)s, %(cases_count)s,
        %(ranking_by)s, %(budgets_s)s, %(source_bytes_max)s, %(at)s);

-- name: submission_received
-- Its number is the sequence of this event.
insert into submission (id, number, version, account, problem, problem_number, gpu, mode, name,
                        source, received_at, deadline_at, state)
values (%(submission)s, %(seq)s, %(seq)s, %(account)s, %(problem)s, %(problem_number)s, %(gpu)s,
        %(mode)s, %(name)s, %(source)s, %(at)s, %(deadline_at)s, 'received');

-- name: job_queued
-- The submission waits for an agent.
update submission set state = 'queued', job = %(job)s
where id = %(submission)s and outcome is null;

-- name: job_leased
-- Only the run that a lease names may speak for the submission.
update submission set state = 'assigned', run = %(run)s, agent = %(agent)s, attempt = %(attempt)s
where job = %(job)s and outcome is null;

-- name: job_requeued
-- The run is over without a verdict; the submission waits again.
update submission set state = 'queued', run = null, agent = null
where job = %(job)s and run = %(run)s and outcome is null;

-- name: job_assigned
-- One row a run.
insert into run (id, submission, job, agent, attempt, assigned_at)
values (%(run)s, %(submission)s, %(job)s, %(agent)s, %(attempt)s, %(at)s);

-- name: run_started
-- What the agent said of itself when it began.
update run set started_at = %(at)s, level = %(level)s, tier = %(tier)s,
               fingerprint = %(fingerprint)s, key_commit = %(key_commit)s
where id = %(run)s;

-- name: submission_running
-- The submission's own run has begun.
update submission set state = 'running'
where run = %(run)s and agent = %(agent)s and state = 'assigned';

-- name: run_stage_finished
-- The stage that ended last.
update run set stage = %(stage)s where id = %(run)s;

-- name: run_completed
-- The verdict and everything the agent measured.
update run set ended_at = %(at)s, stage = %(stage)s, verdict = %(verdict)s, reason = %(reason)s,
               took_s = %(took_s)s, cases = %(cases)s, environment = %(environment)s,
               log_head = %(log_head)s, log_tail = %(log_tail)s, log = %(log)s,
               samples = %(samples)s, key = %(key)s
where id = %(run)s;

-- name: submission_ranking
-- A verdict is there; the decision on eligibility is due.
update submission set state = 'ranking'
where run = %(run)s and agent = %(agent)s and outcome is null;

-- name: run_ended
-- The run is over without a verdict.
update run set ended_at = %(at)s, reason = %(reason)s where id = %(run)s and ended_at is null;

-- name: submission_ended
-- The one end of a submission.
update submission
set state = 'finished', version = %(seq)s, outcome = %(outcome)s, verdict = %(verdict)s,
    code = %(code)s, reason = %(reason)s, is_eligible = %(is_eligible)s, score_us = %(score_us)s,
    low_us = %(low_us)s, high_us = %(high_us)s, finished_at = %(at)s
where id = %(submission)s and outcome is null;

-- name: entry_improved
-- A participant's entry is their best eligible run; of equals the earlier one stays.
insert into entry (problem, problem_number, gpu, account, submission, number, score_us, low_us,
                   high_us, received_at)
select problem, problem_number, gpu, account, id, number, score_us, low_us, high_us, received_at
from submission
where id = %(submission)s and is_eligible and version = %(seq)s
  and score_us is not null and low_us is not null and high_us is not null
on conflict (problem, problem_number, gpu, account) do update
set submission = excluded.submission, number = excluded.number, score_us = excluded.score_us,
    low_us = excluded.low_us, high_us = excluded.high_us, received_at = excluded.received_at
where (excluded.score_us, excluded.number) < (entry.score_us, entry.number);

-- name: agent_registered
-- What an agent offers now.
insert into agent (id, gpu, count, fingerprint, level, harness, details, registered_at)
values (%(agent)s, %(gpu)s, %(count)s, %(fingerprint)s, %(level)s, %(harness)s, %(details)s, %(at)s)
on conflict (id) do update
set gpu = excluded.gpu, count = excluded.count, fingerprint = excluded.fingerprint,
    level = excluded.level, harness = excluded.harness, details = excluded.details,
    registered_at = excluded.registered_at;

-- name: history_of_submission
-- An event of the submission itself.
insert into history (seq, submission, type, at, note)
values (%(seq)s, %(submission)s, %(type)s, %(at)s, %(note)s);

-- name: history_of_job
-- An event of the submission's job.
insert into history (seq, submission, type, at, note)
select %(seq)s, id, %(type)s, %(at)s, %(note)s from submission where job = %(job)s;

-- name: history_of_run
-- An event of one of the submission's runs.
insert into history (seq, submission, type, at, note)
select %(seq)s, submission, %(type)s, %(at)s, %(note)s from run where id = %(run)s;

-- name: undecided
-- Runs with a verdict whose submission has no end yet.
select submission.id, submission.version, submission.mode, submission.job, run.id as run,
       run.verdict, run.stage, run.reason, run.cases, problem.ranking_by
from submission
join run on run.id = submission.run
join problem on problem.slug = submission.problem and problem.number = submission.problem_number
where submission.state = 'ranking'
order by submission.number
limit 100;
