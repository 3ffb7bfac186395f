-- name: end_bans
-- End bans that the log's own time has passed; hide the entries of banned participants, and show
-- the others again. Returns each such entry before and after, as `choose_entries` does.
with clock as (
    select folded_at from checkpoint where name = 'ranker'
), ended as (
    update ban
    set is_over = true
    from clock
    where ban.until_at <= clock.folded_at and not ban.is_over
    returning ban.account
), turned as (
    select account, exists (
               select 1 from ban
               where ban.account = named.account
                 and (ban.until_at is null or ban.until_at > (select folded_at from clock))
           ) as is_hidden
    from (
        select unnest(%(banned)s::text[]) as account
        union
        select account from ended
    ) as named
), changed as (
    select entry.problem, entry.gpu, entry.problem_number, entry.account, entry.submission,
           entry.number, entry.source, entry.pooled_over, entry.score_us, entry.placed_us,
           entry.order_us, entry.order_number, entry.error, entry.freedom, entry.delta,
           turned.is_hidden
    from entry
    join turned on turned.account = entry.account and turned.is_hidden <> entry.is_hidden
), hidden as (
    update entry
    set is_hidden = changed.is_hidden, order_us = entry.placed_us, order_number = entry.number
    from changed
    where entry.problem = changed.problem and entry.gpu = changed.gpu
      and entry.problem_number = changed.problem_number and entry.account = changed.account
), remembered as (
    insert into entry_before (problem, gpu, problem_number, account, until_seq, at, submission,
                              number, source, pooled_over, score_us, placed_us, error, freedom,
                              delta, is_hidden)
    select problem, gpu, problem_number, account, %(seq)s, %(at)s, submission, number, source,
           pooled_over, score_us, placed_us, error, freedom, delta, not is_hidden
    from changed
    where %(is_recent)s
    on conflict do nothing
)
select changed.problem, changed.gpu, changed.problem_number, changed.account, changed.is_hidden,
       changed.number, changed.score_us, changed.placed_us, changed.error, changed.freedom,
       changed.delta, changed.source, changed.order_us as old_order_us,
       changed.order_number as old_order_number, exists (
           select 1 from entry as copy
           where copy.source = changed.source and copy.problem = changed.problem
             and copy.gpu = changed.gpu and copy.problem_number = changed.problem_number
             and not copy.is_hidden and copy.account <> changed.account
           union all
           select 1 from duel_win
           where duel_win.problem = changed.problem and duel_win.gpu = changed.gpu
             and duel_win.problem_number = changed.problem_number
             and (duel_win.winner = changed.source or duel_win.loser = changed.source)
       ) as is_linked
from changed;

-- name: forget_before
-- Cursors are valid for an hour: older states of entries are never requested.
with gone as (
    delete from entry_before where at < %(until_at)s returning until_seq
)
update entry_before_since
set seq = greatest(entry_before_since.seq, (select max(until_seq) from gone));

-- name: begin_before
-- Record that states of entries before an event were not stored.
update entry_before_since set seq = %(seq)s;

-- name: groups_at
-- The groups that places fall into, and the group before each, nearest first.
select asked.placed_us as at_us, asked.number as at_number, one.first_us, one.first_number,
       one.reach_us
from unnest(%(keys_us)s::float8[], %(numbers)s::bigint[]) as asked(placed_us, number)
cross join lateral (
    select first_us, first_number, reach_us
    from tie_group
    where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
      and (first_us, first_number) <= (asked.placed_us, asked.number)
    order by first_us desc, first_number desc
    limit 2
) as one
order by asked.placed_us, asked.number, one.first_us desc, one.first_number desc;

-- name: wins
-- The duels that each source of a leaderboard won.
select winner,
       json_agg(json_build_object('loser', loser, 'ratio', ratio, 'low', low, 'high', high)) as wins
from duel_win
where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
group by winner;

-- name: entries_from
-- The entries from a place on without copies, and which of them led a group so far.
select entry.number, entry.source, entry.score_us, entry.placed_us, entry.error, entry.freedom,
       entry.delta, entry.order_us, entry.order_number, won.wins,
       tie_group.first_number is not null as is_leader
from entry
left join tie_group on tie_group.problem = entry.problem and tie_group.gpu = entry.gpu
     and tie_group.problem_number = entry.problem_number
     and tie_group.first_us = entry.order_us and tie_group.first_number = entry.order_number
left join (:wins) as won on won.winner = entry.source
where entry.problem = %(problem)s and entry.gpu = %(gpu)s and entry.problem_number = %(number)s
  and (entry.order_us, entry.order_number) >= (%(from_us)s::float8, %(from_number)s::bigint)
  and entry.number = entry.order_number and not entry.is_hidden
order by entry.order_us, entry.order_number
limit %(limit)s;

-- name: lead_groups
-- Start groups with these leaders and delete the other groups between the first and the end; each
-- has the entries up to the next, or to the end.
with leader as (
    select first_us, first_number, block, reach_us,
           lead(first_us, 1, %(end_us)s::float8) over this as next_us,
           lead(first_number, 1, %(end_number)s::bigint) over this as next_number
    from unnest(%(firsts_us)s::float8[], %(first_numbers)s::bigint[], %(blocks)s::int[],
                %(reaches_us)s::float8[])
         as one(first_us, first_number, block, reach_us)
    window this as (order by first_us, first_number)
), gone as (
    delete from tie_group
    where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
      and (first_us, first_number) >= (%(from_us)s::float8, %(from_number)s::bigint)
      and (first_us, first_number) < (%(end_us)s::float8, %(end_number)s::bigint)
      and not exists (
          select 1 from leader
          where leader.first_us = tie_group.first_us
            and leader.first_number = tie_group.first_number
      )
    returning block
), led as (
    insert into tie_group (problem, gpu, problem_number, first_us, first_number, block,
                           reach_us, entries_count)
    select %(problem)s, %(gpu)s, %(number)s, leader.first_us, leader.first_number, leader.block,
           leader.reach_us, counted.entries_count
    from leader
    cross join lateral (
        select count(entry.number) as entries_count
        from entry
        where entry.problem = %(problem)s and entry.gpu = %(gpu)s
          and entry.problem_number = %(number)s and not entry.is_hidden
          and (entry.order_us, entry.order_number) >= (leader.first_us, leader.first_number)
          and (entry.order_us, entry.order_number) < (leader.next_us, leader.next_number)
    ) as counted
    on conflict (problem, gpu, problem_number, first_us, first_number) do update
    set entries_count = excluded.entries_count, reach_us = excluded.reach_us
    returning block
)
select block from gone
union
select block from led;

-- name: count_entries
-- Update the sizes of groups whose leaders are unchanged.
update tie_group
set entries_count = tie_group.entries_count + one.entries_count
from unnest(%(firsts_us)s::float8[], %(first_numbers)s::bigint[], %(entries_counts)s::int[])
     as one(first_us, first_number, entries_count)
where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
  and tie_group.first_us = one.first_us and tie_group.first_number = one.first_number
returning block;

-- name: count_blocks
-- Update the entry counts of blocks; delete those without groups.
with counted as (
    select one.block, (
               select coalesce(sum(entries_count), 0)
               from tie_group
               where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
                 and tie_group.block = one.block
           ) as entries_count
    from unnest(%(blocks)s::int[]) as one(block)
), gone as (
    delete from tie_block
    using counted
    where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
      and tie_block.block = counted.block and counted.entries_count = 0
)
insert into tie_block (problem, gpu, problem_number, block, entries_count)
select %(problem)s, %(gpu)s, %(number)s, block, entries_count
from counted
where entries_count > 0
on conflict (problem, gpu, problem_number, block) do update
set entries_count = excluded.entries_count;

-- name: linked_entries
-- The entries of some sources, and of all that duels link with these, with their current order.
with recursive linked as (
    select unnest(%(sources)s::text[]) as source
    union
    select one.source
    from linked
    cross join lateral (
        select loser as source
        from duel_win
        where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
          and winner = linked.source
        union all
        select winner
        from duel_win
        where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
          and loser = linked.source
    ) as one
)
select entry.account, entry.number, entry.score_us, entry.placed_us, entry.error, entry.freedom,
       entry.delta, entry.source, entry.order_us, entry.order_number, won.wins
from entry
left join (:wins) as won on won.winner = entry.source
where entry.source in (select source from linked) and entry.problem = %(problem)s
  and entry.gpu = %(gpu)s and entry.problem_number = %(number)s and not entry.is_hidden
order by entry.number;

-- name: sources_dueled
-- The sources of duels.
select problem, gpu, problem_number, array[first_source, second_source] as sources
from duel
where id = any(%(duels)s::text[]);

-- name: order_entries
-- Change the order of entries.
update entry
set order_us = one.order_us, order_number = one.order_number
from unnest(%(accounts)s::text[], %(orders_us)s::float8[], %(order_numbers)s::bigint[])
     as one(account, order_us, order_number)
where entry.problem = %(problem)s and entry.gpu = %(gpu)s and entry.problem_number = %(number)s
  and entry.account = one.account;
