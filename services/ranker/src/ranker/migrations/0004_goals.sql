-- What a version's scores are held against beside each other, as its event says it.
alter table problem
    add column baselines json not null default '[]',
    add column milestones json not null default '[]';

-- Which baseline of its problem a submission of the platform's is, '' for everybody's; and how many
-- of the shown checked cases its run passed.
alter table submission
    add column baseline text not null default '',
    add column cases_passed int not null default 0;
create index submission_baseline on submission (problem, gpu, problem_number, number desc)
    where baseline <> '';

-- Who reached what on which leaderboard: one row for ever, whatever version came since.
create table milestone (
    problem text not null,
    gpu text not null,
    milestone text not null,
    account text not null,
    problem_number int not null,
    submission text not null,
    title text not null,
    value double precision not null,
    seq bigint not null,
    at timestamptz not null,
    primary key (problem, gpu, milestone, account)
);
create index milestone_of_account on milestone (account, seq);
