-- name: checkpoint
-- How far the projection has read.
select seq from checkpoint where name = 'ranker' limit 1;

-- name: problems
-- The newest version of each problem.
select distinct on (slug) slug, number, digest, title, gpus, cases_count, ranking_by, budgets_s,
       source_bytes_max, manifest, published_at
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

-- name: leaderboard
-- The entries of one leaderboard, best first; of equals the earlier submission leads.
select entry.account, participant.name as participant, entry.number, entry.score_us, entry.low_us,
       entry.high_us, entry.received_at, run.tier, run.level
from entry
left join accounts.participant on participant.account = entry.account
join submission on submission.id = entry.submission
join run on run.id = submission.run
where entry.problem = %(problem)s and entry.gpu = %(gpu)s and entry.problem_number = %(number)s
order by entry.score_us, entry.number
limit %(limit)s;

-- name: standings
-- Every entry with its place, for comparing two projections; no names.
select problem, problem_number, gpu, account, submission, number, score_us, low_us, high_us,
       received_at,
       rank() over (partition by problem, problem_number, gpu order by score_us, number) as place
from entry
order by problem, problem_number, gpu, place
limit 1000000;

-- name: outcomes
-- Every submission with its state, for comparing two projections.
select number, id, version, state, outcome, verdict, code, is_eligible, score_us
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
       submission.score_us, submission.low_us, submission.high_us, submission.finished_at,
       run.id as run, run.started_at, run.ended_at, run.level, run.tier, run.stage, run.took_s,
       coalesce(run.cases, '[]'::jsonb) as cases,
       coalesce(run.environment, '{}'::jsonb) as environment,
       coalesce(run.log_head, '') as log_head, coalesce(run.log_tail, '') as log_tail,
       run.log, run.samples, run.key_commit, run.key
from submission
left join accounts.participant on participant.account = submission.account
left join run on run.id = submission.run
where submission.number = %(number)s
limit 1;

-- name: place
-- Where a submission stands, if it is its participant's entry.
select place from (
    select submission,
           rank() over (partition by gpu order by score_us, number) as place
    from entry
    where problem = %(problem)s and problem_number = %(problem_number)s and gpu = %(gpu)s
) as board
where submission = %(id)s
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
select id, gpu, count, fingerprint, level, harness, details, registered_at
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
