-- The contest that a problem's leaderboards belong to, '' for none.
alter table leaderboard add column contest text not null default '';
