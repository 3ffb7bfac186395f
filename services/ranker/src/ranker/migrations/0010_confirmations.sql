-- A ranked run that is repeated on another agent; `shown` is what its leaderboard says of it.
create table confirmation (
    id text primary key,
    seq bigint not null,
    problem text not null,
    gpu text not null,
    problem_number int not null,
    submission text not null,
    run text not null,
    score_us double precision not null,
    judged_seq bigint,
    code text not null default '',
    reason text not null default '',
    shown text not null default ''
);
create index confirmation_of_board on confirmation (problem, gpu, problem_number, seq desc);
create unique index confirmation_of_run on confirmation (run);
create index confirmation_open on confirmation (seq) where judged_seq is null;
