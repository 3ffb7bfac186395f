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

alter table confirmation add column yardstick_us double precision;

-- Why a ranked run stopped early, '' if it did not.
alter table run add column stopped text not null default '';
