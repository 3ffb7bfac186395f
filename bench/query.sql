-- A leaderboard with %(runs)s eligible runs of %(accounts)s participants, each with one best entry.
insert into result (submission, problem_number, problem, gpu, account, number, source, seq, rejudge,
                    run, verdict, is_eligible, code, reason, score_us, placed_us, low_us, high_us, process_us,
                    error, freedom, sigma_run, delta, grade, is_provisional, received_at, at,
                    pooled_us, pooled_placed_us, pooled_error, pooled_freedom, pooled_delta, pooled_over)
select 's' || n, 1, 'identity', 'H100', 'account' || n %% %(accounts)s, 200 + n, 'source' || n,
       200 + n, '', 'r' || n, 'passed', true, 'ranked', 'passed every case', score, score, score * 0.998,
       score * 1.002, array[score, score, score, score], 0.001, 22, 0, 0.003, 'ok', false, now(),
       now(), score, score, 0.001, 22, 0.003, array[200 + n]::bigint[]
from (select n, 100 + 10000 * random() as score from generate_series(1, %(runs)s) as n) as one;

insert into submission (id, number, version, account, problem, problem_number, gpu, mode, name,
                        source, source_bytes, source_media, received_at, deadline_at, state,
                        state_at, job, run, agent, attempt, outcome, verdict, code, reason,
                        is_eligible, is_held, finished_at, timeline)
select submission, number, number, account, problem, problem_number, gpu, 'ranked', 'kernel.py',
       source, 700, 'text/x-python', received_at, received_at, 'finished', at, 'j' || number, run,
       'a1', 1, 'passed', verdict, code, reason, true, false, at, '[]'
from result;

insert into run (id, submission, job, agent, attempt, token, assigned_at, started_at, ended_at,
                 level, tier, missing, stage, verdict, reason, took_s, cases, environment, log_head,
                 log_tail, files, usage, sigma_run, tie_us)
select run, submission, 'j' || number, 'a1', 1, number, at, at, at, 'strong', 'C1', '{}', 'time',
       verdict, '', 1.0, '[]', '{}', '', '', '[]', '{}', 0, 0
from result;

insert into entry (problem, problem_number, gpu, account, submission, number, source, pooled_over,
                   score_us, placed_us, error, freedom, delta, received_at, order_us,
                   order_number)
select distinct on (account) problem, problem_number, gpu, account, submission, number, source,
       pooled_over, score_us, score_us, error, freedom, delta, received_at, score_us, number
from result
order by account, score_us, number;

insert into accounts.participant (account, name)
select 'account' || n, 'p' || n from generate_series(0, %(accounts)s - 1) as n;

analyze;
