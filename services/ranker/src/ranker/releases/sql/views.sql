-- SQLite: what the views of a release are sorted by, in a temporary file.

-- name: create_steps
-- The rows that an account's entries follow from, as MessagePack.
create table step (account text, kind text, data blob);

-- name: create_entries
-- The best entry of each account on each leaderboard, and then its rank.
create table entry (
    id integer primary key, problem text, gpu text, version integer, number integer,
    score_us real, error real, freedom integer, delta real, source text, is_noisy integer,
    account text, run integer, rank integer
);

-- name: index_entries_by_board
-- The entries of one leaderboard.
create index entry_of_board on entry (problem, gpu, version);

-- name: index_entries_by_run
-- The entry of a run.
create index entry_of_run on entry (run);

-- name: create_cases
-- The public timed cases of the runs that entries have.
create table timed (
    run integer, name text, time_us real, low_us real, high_us real, yardstick_us real
);

-- name: add_step
-- A row of a table.
insert into step values (?, ?, ?);

-- name: steps
-- The rows of one account after the other.
select account, kind, data from step order by account;

-- name: drop_steps
-- The rows are not needed once the entries are there.
drop table step;

-- name: add_entry
-- An entry, whose rank is not known yet.
insert into entry values (null, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, null);

-- name: boards
-- The leaderboards with entries.
select distinct problem, gpu, version from entry;

-- name: entries
-- The entries of a leaderboard.
select * from entry where problem = ? and gpu = ? and version = ?;

-- name: set_rank
-- The rank of an entry.
update entry set rank = ? where id = ?;

-- name: has_entry
-- Whether an entry has a run.
select 1 from entry where run = ? limit 1;

-- name: add_case
-- A timed case of a run.
insert into timed values (?, ?, ?, ?, ?, ?);

-- name: best_times
-- The entries of each leaderboard at each case, the fastest first.
select problem, version, gpu, name as "case",
       row_number() over (
           partition by problem, gpu, version, name
           order by yardstick_us / time_us desc, number
       ) as place,
       number as submission, account as participant, rank, time_us, low_us, high_us,
       yardstick_us, yardstick_us / time_us as speedup
from timed
join entry using (run)
order by problem, gpu, version, name, place;
