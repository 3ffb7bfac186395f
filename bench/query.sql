-- A leaderboard with %(runs)s eligible runs of %(accounts)s participants, each with one best entry.
insert into submission (id, number, version, account, problem, problem_number, gpu, mode, name,
                        source, received_at, deadline_at, state, job, run, agent, attempt, outcome,
                        verdict, code, reason, is_eligible, score_us, low_us, high_us, process_us,
                        error, freedom, sigma_run, delta, grade, finished_at)
select 's' || n, 10 + n, 10 + n, 'account' || n %% %(accounts)s, 'identity', 1, 'H100', 'ranked',
       'kernel.py', 'source' || n, now(), now(), 'finished', 'j' || n, 'r' || n, 'a1', 1, 'passed',
       'passed', 'ranked', 'passed every case', true, score, score * 0.998, score * 1.002,
       array[score, score, score, score], 0.001, 22, 0, 0.003, 'ok', now()
from (select n, 100 + 10000 * random() as score from generate_series(1, %(runs)s) as n) as one;

insert into run (id, submission, job, agent, attempt, assigned_at, started_at, ended_at, level, tier,
                 stage, verdict, reason, took_s)
select 'r' || n, 's' || n, 'j' || n, 'a1', 1, now(), now(), now(), 'strong', 'C1', 'time', 'passed',
       '', 1.0
from generate_series(1, %(runs)s) as n;

insert into source_score (problem, problem_number, gpu, source, process_us, runs, history, sigma_run,
                          score_us, error, freedom, delta)
select problem, problem_number, gpu, source, process_us, 1, 19, 0, score_us, error, freedom, delta
from submission;

insert into entry (problem, problem_number, gpu, account, submission, number, source, runs, score_us,
                   error, freedom, delta, received_at)
select distinct on (account) problem, problem_number, gpu, account, id, number, source, 1, score_us,
       error, freedom, delta, received_at
from submission
order by account, score_us, number;

insert into accounts.participant (account, name)
select 'account' || n, 'p' || n from generate_series(0, %(accounts)s - 1) as n;

analyze;
