-- Two submissions timed in alternation: asked for by an operator, or for tied neighbours of a podium.
create table duel (
    id text primary key,
    seq bigint not null,
    problem text not null,
    gpu text not null,
    problem_number int not null,
    first_number bigint not null,
    second_number bigint not null,
    first_source text not null,
    second_source text not null,
    judged_seq bigint,
    run text,
    winner text,
    ratio double precision,
    low double precision,
    high double precision,
    code text not null default '',
    reason text not null default ''
);
create index duel_of_board on duel (problem, gpu, problem_number, seq desc);
create index duel_open on duel (seq) where judged_seq is null;

-- Which source stands before which on a leaderboard where they share a rank.
create table duel_win (
    problem text not null,
    gpu text not null,
    problem_number int not null,
    winner text not null,
    loser text not null,
    ratio double precision not null,
    low double precision not null,
    high double precision not null,
    primary key (problem, gpu, problem_number, winner, loser)
);
