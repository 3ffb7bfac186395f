-- The fixed times of the yardstick by timed case: the unit of all scores on one leaderboard.
create table yardstick (
    problem text not null,
    gpu text not null,
    problem_number int not null,
    seq bigint not null,
    times_us jsonb not null,
    runs text[] not null,
    at timestamptz not null,
    primary key (problem, gpu, problem_number)
);

-- The score of the yardstick in the unit of the result; null if the run was timed alone.
alter table result add column yardstick_us double precision;

create or replace view scored as
select submission, problem_number, rejudge, run, verdict, is_eligible, code, reason, account,
       problem, gpu, number, source, grade, is_provisional, received_at, at, seq,
       score_us as run_us, low_us, high_us, process_us,
       coalesce(pooled_us, score_us) as score_us,
       case when pooled_us is null then error else pooled_error end as error,
       coalesce(pooled_freedom, freedom) as freedom,
       coalesce(pooled_delta, delta) as delta,
       case when cardinality(pooled_over) > 1 then pooled_over else '{}' end as pooled_over,
       pooled_us is not null as counts,
       yardstick_us
from result;

alter table confirmation add column yardstick_us double precision;

-- Why a ranked run stopped early, '' if it did not.
alter table run add column stopped text not null default '';
