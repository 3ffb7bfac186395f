-- Where entries stand is kept beside them, so that no read has to work it out.

-- The newest time that any of the platform's own events says: by it bans end in these tables.
alter table checkpoint add column folded_at timestamptz not null default '1970-01-01 00:00:00Z';
alter table ban add column is_over boolean not null default false;
create index ban_ending on ban (until_at) where until_at is not null and not is_over;
create index ban_ended on ban (until_at) where until_at is not null and is_over;

-- An entry is hidden while its participant is banned. Entries are shown in the order of
-- (order_us, order_number, number): by their own score and number, but a copy stands behind the
-- earliest submission of its source that shares its rank.
alter table entry
    add column is_hidden boolean not null default false,
    add column order_us double precision not null,
    add column order_number bigint not null;
drop index entry_in_order;
create index entry_by_score on entry (problem, gpu, problem_number, score_us, number);
create index entry_in_order on entry (problem, gpu, problem_number, order_us, order_number, number)
    where not is_hidden;
create index entry_of_source on entry (source, problem, gpu, problem_number);
create index entry_of_account on entry (account);

-- A rank and how many entries share it. It begins with its leader, the fastest, and ends before the
-- next rank's: so a change of an entry rewrites its own rank's row, and those of the ranks that
-- follow as far as their leaders are others.
create table tie_group (
    problem text not null,
    gpu text not null,
    problem_number int not null,
    first_us double precision not null,
    first_number bigint not null,
    block int not null,
    entries_count int not null,
    primary key (problem, gpu, problem_number, first_us, first_number)
);
create index tie_group_of_block
    on tie_group (problem, gpu, problem_number, block, first_us, first_number);

-- How many entries the groups have whose leaders are within a tenth of each other, so that a rank is
-- the sum of few rows however long the leaderboard is.
create table tie_block (
    problem text not null,
    gpu text not null,
    problem_number int not null,
    block int not null,
    entries_count int not null,
    primary key (problem, gpu, problem_number, block)
);

create index duel_win_of_loser on duel_win (problem, gpu, problem_number, loser);

-- What an entry was until a batch that ended with an event, for as long as cursors are good; without
-- a submission it was not there. Nobody rebuilds it: it belongs to the pages that were given out.
create table entry_before (
    problem text not null,
    gpu text not null,
    problem_number int not null,
    account text not null,
    until_seq bigint not null,
    at timestamptz not null,
    submission text,
    number bigint,
    source text,
    pooled_over bigint[],
    score_us double precision,
    error double precision,
    freedom int,
    delta double precision,
    is_hidden boolean not null,
    primary key (problem, gpu, problem_number, account, until_seq)
);
create index entry_before_in_order on entry_before (problem, gpu, problem_number, until_seq);
create index entry_before_by_age on entry_before (at);

-- Since which event all that entries were is kept there.
create table entry_before_since (
    seq bigint not null
);
insert into entry_before_since (seq) values (0);

-- The best score that ever stood is asked for whenever the first place of a leaderboard changes.
create index result_by_score
    on result (problem, gpu, problem_number, (coalesce(pooled_us, score_us))) where is_eligible;
