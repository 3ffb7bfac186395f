-- name: problem_published
-- One row a version.
insert into problem (slug, number, digest, title, manifest, gpus, cases_count, ranking_by,
                     budgets_s, source_bytes_max, languages, published_at)
values (%(slug)s, %(number)s, %(digest)s, %(title)s, %(manifest)s, %(gpus)s, %(cases_count)s,
        %(ranking_by)s, %(budgets_s)s, %(source_bytes_max)s, %(languages)s, %(at)s);

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
               missing = %(missing)s, fingerprint = %(fingerprint)s, key_commit = %(key_commit)s
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
               log_head = %(log_head)s, log_tail = %(log_tail)s, files = %(files)s,
               usage = %(usage)s, sigma_run = %(sigma_run)s, tie_us = %(tie_us)s, key = %(key)s
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
    low_us = %(low_us)s, high_us = %(high_us)s, process_us = %(process_us)s, error = %(error)s,
    freedom = %(freedom)s, sigma_run = %(sigma_run)s, delta = %(delta)s, grade = %(grade)s,
    is_provisional = %(is_provisional)s, is_held = %(is_held)s, finished_at = %(at)s
where id = %(submission)s and outcome is null;

-- name: source_run_added
-- An eligible run adds its processes to those of the same source; past 300 nothing is added.
insert into source_score as known
       (problem, problem_number, gpu, source, process_us, runs, history, sigma_run, score_us,
        error, freedom, delta)
select problem, problem_number, gpu, source,
       case when cardinality(process_us) = 0 then array[score_us] else process_us end,
       1, greatest(freedom - cardinality(process_us) + 1, 0), sigma_run, score_us, error, freedom,
       delta
from submission
where id = %(submission)s and is_eligible and version = %(seq)s and score_us is not null
on conflict (problem, problem_number, gpu, source) do update
set process_us = known.process_us || excluded.process_us, runs = known.runs + 1,
    history = greatest(known.history, excluded.history),
    sigma_run = greatest(known.sigma_run, excluded.sigma_run),
    delta = greatest(known.delta, excluded.delta)
where cardinality(known.process_us) < 300;

-- name: source_scored
-- What the processes of several runs say together; one run keeps its own score.
update source_score as known
set score_us = (select exp(avg(ln(one))) from unnest(known.process_us) as one),
    error = (select greatest(stddev_samp(ln(one)), known.sigma_run) / sqrt(count(one))
             from unnest(known.process_us) as one),
    freedom = known.history + cardinality(known.process_us) - 1
from submission as ended
where ended.id = %(submission)s and known.source = ended.source
  and known.problem = ended.problem and known.problem_number = ended.problem_number
  and known.gpu = ended.gpu and known.runs > 1;

-- name: entries_chosen
-- Everybody whose source this is has a new best: the fastest of their sources, of equals the first.
insert into entry (problem, problem_number, gpu, account, submission, number, source, runs,
                   score_us, error, freedom, delta, received_at)
select distinct on (mine.account)
       mine.problem, mine.problem_number, mine.gpu, mine.account, mine.id, mine.number,
       mine.source, known.runs, known.score_us, known.error, known.freedom, known.delta,
       mine.received_at
from submission as ended
join submission as same on same.source = ended.source and same.problem = ended.problem
     and same.problem_number = ended.problem_number and same.gpu = ended.gpu and same.is_eligible
join submission as mine on mine.account = same.account and mine.problem = ended.problem
     and mine.problem_number = ended.problem_number and mine.gpu = ended.gpu and mine.is_eligible
join source_score as known on known.problem = mine.problem
     and known.problem_number = mine.problem_number and known.gpu = mine.gpu
     and known.source = mine.source
where ended.id = %(submission)s
order by mine.account, known.score_us, mine.number
on conflict (problem, problem_number, gpu, account) do update
set submission = excluded.submission, number = excluded.number, source = excluded.source,
    runs = excluded.runs, score_us = excluded.score_us, error = excluded.error,
    freedom = excluded.freedom, delta = excluded.delta, received_at = excluded.received_at;

-- name: agent_registered
-- What an agent offers now.
insert into agent (id, gpu, count, fingerprint, level, harness, details, tier, missing,
                   toolchains, modes, quarantine, registered_at)
values (%(agent)s, %(gpu)s, %(count)s, %(fingerprint)s, %(level)s, %(harness)s, %(details)s,
        %(tier)s, %(missing)s, %(toolchains)s, %(modes)s, %(quarantine)s, %(at)s)
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
       run.verdict, run.stage, run.reason, run.cases, run.level, run.tier, run.sigma_run,
       run.tie_us, problem.ranking_by
from submission
join run on run.id = submission.run
join problem on problem.slug = submission.problem and problem.number = submission.problem_number
where submission.state = 'ranking'
order by submission.number
limit 100;
