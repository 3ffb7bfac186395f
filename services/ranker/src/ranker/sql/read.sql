-- name: checkpoint
-- How far the projection has read.
select seq from checkpoint where name = 'ranker' limit 1;

-- name: problems
-- The newest version of each problem.
select distinct on (slug) slug, number, digest, title, gpus, cases_count, ranking_by, budgets_s,
       source_bytes_max, languages, manifest, published_at
from problem
where %(slug)s::text is null or slug = %(slug)s
order by slug, number desc
limit 1000;

-- name: leaderboards
-- Every (problem, GPU type) with an entry.
select problem, problem_number, gpu, count(account) as entries_count, min(score_us) as best_us
from entry
group by problem, problem_number, gpu
order by problem, problem_number desc, gpu
limit 1000;

-- name: ladder
-- What ranks are made of: the fastest entries of one leaderboard.
select submission, account, number, source, runs, score_us, error, freedom, delta
from entry
where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
order by score_us, number
limit %(limit)s;

-- name: leaderboard
-- The entries of one leaderboard that have these numbers.
select entry.account, participant.name as participant, entry.number, entry.score_us, entry.error,
       entry.freedom, entry.delta, entry.runs, entry.received_at, run.tier, run.level,
       submission.low_us, submission.high_us, submission.grade, submission.is_provisional
from entry
left join accounts.participant on participant.account = entry.account
join submission on submission.id = entry.submission
join run on run.id = submission.run
where entry.problem = %(problem)s and entry.gpu = %(gpu)s
  and entry.problem_number = %(problem_version)s and entry.number = any(%(numbers)s)
limit 1000;

-- name: standings
-- Every entry with its place, for comparing two projections; no names.
select problem, problem_number, gpu, account, submission, number, source, runs, score_us, error,
       freedom, delta, received_at,
       rank() over (partition by problem, problem_number, gpu order by score_us, number) as place
from entry
order by problem, problem_number, gpu, place
limit 1000000;

-- name: outcomes
-- Every submission with its state, for comparing two projections.
select number, id, version, state, outcome, verdict, code, is_eligible, is_held, score_us
from submission
order by number
limit 1000000;

-- name: submission
-- One submission with its newest run.
select submission.id, submission.number, submission.account, participant.name as participant,
       submission.problem, submission.problem_number, submission.gpu, submission.mode,
       submission.name, submission.source, submission.received_at, submission.deadline_at,
       submission.state, submission.agent, submission.attempt, submission.outcome,
       submission.verdict, submission.code, submission.reason, submission.is_eligible,
       submission.score_us, submission.low_us, submission.high_us, submission.process_us,
       submission.error, submission.freedom, submission.delta, submission.grade,
       submission.is_provisional, submission.is_held, submission.finished_at,
       run.id as run, run.started_at, run.ended_at, run.level, run.tier,
       coalesce(run.missing, '{}') as missing, run.stage, run.took_s,
       coalesce(run.cases, '[]'::jsonb) as cases,
       coalesce(run.environment, '{}'::jsonb) as environment,
       coalesce(run.log_head, '') as log_head, coalesce(run.log_tail, '') as log_tail,
       coalesce(run.files, '[]'::jsonb) as files, coalesce(run.usage, '{}'::jsonb) as usage,
       run.key_commit, run.key
from submission
left join accounts.participant on participant.account = submission.account
left join run on run.id = submission.run
where submission.number = %(number)s
limit 1;

-- name: jobs_ahead
-- How many jobs for the same GPU type wait in front of this one.
select count(id) as ahead
from submission
where gpu = %(gpu)s and state in ('received', 'queued') and number < %(number)s;

-- name: history
-- What happened to a submission, in order.
select seq, type, at, note from history where submission = %(id)s order by seq limit 1000;

-- name: submissions
-- The newest submissions, of a problem or a participant if asked.
select submission.number, submission.id, participant.name as participant, submission.problem,
       submission.problem_number, submission.gpu, submission.mode, submission.name,
       submission.received_at, submission.state, submission.outcome, submission.verdict,
       submission.code, submission.is_eligible, submission.score_us
from submission
left join accounts.participant on participant.account = submission.account
where (%(problem)s::text is null or submission.problem = %(problem)s)
  and (%(participant)s::text is null or participant.name = %(participant)s)
  and (%(before)s::bigint is null or submission.number < %(before)s)
order by submission.number desc
limit %(limit)s;

-- name: agents
-- Every agent that ever registered.
select id, gpu, count, fingerprint, level, harness, details, tier, missing, toolchains, modes,
       quarantine, registered_at
from agent
order by id
limit 1000;

-- name: waiting
-- How many submissions are in each state that is not the last, by GPU type.
select gpu, state, count(id) as submissions, min(received_at) as oldest_at
from submission
where state <> 'finished'
group by gpu, state
order by gpu, state
limit 1000;
