-- A leaderboard with practice takes submissions after its deadline, when it is in no contest. They
-- are ranked among each other only, so their results are not eligible for the leaderboard itself.
alter table leaderboard add column has_practice boolean not null default false;
alter table submission add column is_practice boolean not null default false;

create index result_of_practice on result (problem, gpu, problem_number, seq)
    where code = 'practice';
