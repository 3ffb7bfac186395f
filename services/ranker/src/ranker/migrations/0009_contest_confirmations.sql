-- Runs of a contest's winners are repeated on several agents. `contest` is '' for entries among the
-- first three of a leaderboard, which have one confirmation. `agent` repeated a run of a contest.
alter table confirmation add column contest text not null default '';
alter table confirmation add column is_fresh boolean not null default false;
alter table confirmation add column agent text not null default '';

drop index confirmation_of_run;
create unique index confirmation_of_run on confirmation (run) where contest = '';
create index confirmation_of_contest on confirmation (contest, run, seq) where contest <> '';

-- Until when provisional results may be appealed.
alter table contest_result add column appeals_until_at timestamptz;
