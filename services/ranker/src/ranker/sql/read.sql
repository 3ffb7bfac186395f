-- name: checkpoint
-- The checkpoint of the projection.
select seq from checkpoint where name = 'ranker' limit 1;

-- name: snapshot
-- The visible transactions: while they are the same, so are all reads.
select pg_current_snapshot()::text as snapshot;

-- name: problems
-- The newest version of each problem that the reader can see, or one at a version. Of one problem,
-- also the entries of its leaderboards by GPU type and version, newest first.
select distinct on (problem.slug) problem.slug, problem.number as problem_version,
       problem.digest, problem.title,
       coalesce(leaderboard.gpus, problem.gpus) as gpus, array(
           select known.gpu
           from (
               select unnest(one.gpus) as gpu from problem as one where one.slug = problem.slug
               union
               select unnest(leaderboard.gpus_said)
           ) as known
           where known.gpu <> all(coalesce(leaderboard.gpus, problem.gpus))
             and exists (
                 select 1 from entry where entry.problem = problem.slug and entry.gpu = known.gpu
             )
           order by known.gpu
       ) as gpus_closed, array(
           select gpu from unnest(coalesce(leaderboard.gpus, problem.gpus)) as gpu
           where gpu <> all(problem.tested_gpus)
       ) as untested_gpus, problem.tested_gpus, problem.cases_count, problem.ranking_by, problem.budgets_s,
       problem.source_bytes_max, problem.source_files_max, problem.languages, problem.manifest, problem.published_at,
       problem.source_visible, problem.publish, problem.report, problem.unchecked,
       problem.baselines, problem.milestones, problem.roofs,
       coalesce(leaderboard.visibility, 'public') as visibility, leaderboard.deadline_at,
       leaderboard.archived_at, coalesce(leaderboard.contest, '') as contest,
       coalesce(leaderboard.has_practice, false) as has_practice,
       ranks_hidden(problem.slug, %(at)s, %(organiser)s, %(is_staff)s) as are_ranks_hidden,
       sources_hidden(problem.slug, %(at)s, %(organiser)s, %(is_staff)s) as are_sources_hidden, (
           select max(known.number) from problem as known where known.slug = problem.slug
       ) as newest_version,
       case when %(slug)s::text is not null then (
           select coalesce(json_agg(json_build_object(
                      'gpu', counted.gpu, 'problem_version', counted.problem_number,
                      'entries_count', counted.entries_count
                  ) order by counted.problem_number desc, counted.gpu), '[]')
           from (
               select gpu, problem_number, sum(entries_count) as entries_count
               from tie_block
               where tie_block.problem = problem.slug
               group by gpu, problem_number
           ) as counted
       ) end as leaderboards
from problem
left join leaderboard on leaderboard.slug = problem.slug
where (%(slug)s::text is null or problem.slug = %(slug)s)
  and (%(version)s::int is null or problem.number = %(version)s)
  and (%(after)s::text is null or problem.slug > %(after)s)
  and (%(contest)s::text is null or leaderboard.contest = %(contest)s)
  and (%(search)s::text is null or (
      strpos(lower(concat_ws(' ', problem.slug, problem.title, array_to_string(
          coalesce(leaderboard.gpus, problem.gpus), ' '
      ))), lower(%(search)s)) > 0
      and problem.number = (
          select max(known.number) from problem as known where known.slug = problem.slug
      )
  ))
  and (coalesce(leaderboard.visibility, 'public') <> 'closed' or %(is_staff)s
       or problem.slug = any(%(members_of)s::text[]))
  and case %(state)s::text
      when 'active' then leaderboard.archived_at is null
           and (leaderboard.deadline_at is null or leaderboard.deadline_at > %(at)s)
      when 'ended' then leaderboard.archived_at is null and leaderboard.deadline_at <= %(at)s
      when 'archived' then leaderboard.archived_at is not null
      when 'all' then true
      else leaderboard.archived_at is null or %(slug)s::text is not null
      end
order by problem.slug, problem.number desc
limit %(limit)s;

-- name: newest_version
-- The newest version of a problem, for an audit.
select number from problem where slug = %(slug)s order by number desc limit 1;

-- name: leaderboards
-- Every (problem, GPU type) with an entry that the reader can see, its fastest entries and its newest
-- records.
select board.problem, board.problem_number as problem_version, board.gpu, board.entries_count, (
           select score_us
           from entry
           where entry.problem = board.problem and entry.gpu = board.gpu
             and entry.problem_number = board.problem_number and not entry.is_hidden
           order by order_us, order_number, number
           limit 1
       ) as best_us, (
           select score_us
           from entry
           where entry.problem = board.problem and entry.gpu = board.gpu
             and entry.problem_number = board.problem_number
             and entry.account = %(reader)s::text and not entry.is_hidden
           limit 1
       ) as own_us, coalesce(leaders.leaders, '[]') as leaders,
       coalesce(records.records, '[]') as records
from (
    select problem, problem_number, gpu, sum(entries_count)::bigint as entries_count
    from tie_block
    where (%(is_staff)s or problem = any(%(members_of)s::text[]) or not exists (
          select 1 from leaderboard where slug = tie_block.problem and visibility = 'closed'
      ))
      and (%(problem)s::text is null or problem = %(problem)s)
      and not ranks_hidden(problem, %(at)s, %(organiser)s, %(is_staff)s)
    group by problem, problem_number, gpu
    having sum(entries_count) > 0
    order by problem, problem_number desc, gpu
    limit 1000
) as board
left join lateral (
    select json_agg(json_build_object(
               'rank', coalesce(placed.rank, 1), 'number', line.number,
               'participant_id', line.account, 'participant', participant.name,
               'score_us', line.score_us
           ) order by line.order_us, line.order_number, line.number) as leaders
    from (
        select entry.number, entry.account, entry.score_us, entry.order_us, entry.order_number
        from entry
        where entry.problem = board.problem and entry.gpu = board.gpu
          and entry.problem_number = board.problem_number and not entry.is_hidden
        order by entry.order_us, entry.order_number, entry.number
        limit %(top)s
    ) as line
    left join accounts.participant on participant.account = line.account
    left join lateral (
        select rank
        from (
            select first_us, first_number,
                   1 - entries_count + sum(entries_count) over (
                       order by first_us, first_number
                   ) as rank
            from (
                select first_us, first_number, entries_count
                from tie_group
                where tie_group.problem = board.problem and tie_group.gpu = board.gpu
                  and tie_group.problem_number = board.problem_number
                order by first_us, first_number
                limit %(top)s
            ) as first_groups
        ) as ranked
        where (first_us, first_number) <= (line.order_us, line.order_number)
        order by first_us desc, first_number desc
        limit 1
    ) as placed on true
) as leaders on %(top)s > 0
left join lateral (
    select json_agg(json_build_object('at', line.at, 'score_us', line.score_us)
                    order by line.seq) as records
    from (
        select record.seq, record.at, record.score_us
        from record
        left join moderation on moderation.submission = record.submission
        where record.problem = board.problem and record.gpu = board.gpu
          and record.problem_number = board.problem_number and moderation.excluded_seq is null
        order by record.seq desc
        limit %(records)s
    ) as line
) as records on %(records)s > 0
order by board.problem, board.problem_number desc, board.gpu
limit 1000;

-- name: ladder
-- The inputs of ranks: the fastest entries of a leaderboard without participants banned at that
-- time, copies behind their originals, the duels that each won, and the last place of a source that
-- beat it. Places are by score alone.
with won as (
    select winner,
           json_agg(json_build_object('loser', loser, 'ratio', ratio, 'low', low, 'high', high)
                    order by loser) as wins
    from duel_win
    where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
    group by winner
), lost as (
    select duel_win.loser, max(entry.placed_us) as beaten_at_us
    from duel_win
    join entry on entry.source = duel_win.winner and entry.problem = duel_win.problem
         and entry.gpu = duel_win.gpu and entry.problem_number = duel_win.problem_number
    where duel_win.problem = %(problem)s and duel_win.gpu = %(gpu)s
      and duel_win.problem_number = %(number)s
    group by duel_win.loser
)
select submission, account, number, source, pooled_over, score_us, placed_us, error, freedom, delta,
       first_value(placed_us) over copies as order_us,
       first_value(number) over copies as order_number, coalesce(won.wins, '[]') as wins,
       lost.beaten_at_us
from entry
left join won on won.winner = entry.source
left join lost on lost.loser = entry.source
where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
  and not exists (
      select 1 from ban
      where ban.account = entry.account and (ban.until_at is null or ban.until_at > %(at)s)
  )
window copies as (partition by source order by number)
order by order_us, order_number, number
limit %(limit)s;

-- name: page
-- Entries of a leaderboard from a position on, in order except for their duels, with the inputs of
-- their ranks: `before` entries are ahead of the first one's group, `sizes` are those of the groups
-- from there on. It does not hold if a ban ended by the clock alone, or an entry or a duel changed
-- since an event. The first row exists on an empty leaderboard, too.
with state as (
    select (select seq from checkpoint where name = 'ranker') as seq, (
               select coalesce(sum(entries_count), 0)::bigint
               from tie_block
               where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
           ) as total,
           not exists (
               select 1 from ban
               join entry on entry.account = ban.account and entry.problem = %(problem)s
                    and entry.gpu = %(gpu)s and entry.problem_number = %(number)s
               where (ban.until_at <= %(at)s and not ban.is_over)
                  or (ban.until_at > %(at)s and ban.is_over)
           ) as is_settled,
           %(as_of)s::bigint is not null and exists (
               select 1 from entry_before
               where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
                 and until_seq > %(as_of)s
               union all
               select 1 from duel
               where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
                 and judged_seq > %(as_of)s
           ) as is_changed
), block as (
    select block, before
    from (
        select block, sum(entries_count) over (order by block) - entries_count as before
        from tie_block
        where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
    ) as counted
    where before <= %(offset)s
    order by before desc
    limit 1
), start as (
    select first_us, first_number, before
    from (
        select tie_group.first_us, tie_group.first_number,
               block.before - tie_group.entries_count + sum(tie_group.entries_count) over (
                   order by tie_group.first_us, tie_group.first_number
               ) as before
        from block
        join tie_group on tie_group.block = block.block
        where tie_group.problem = %(problem)s and tie_group.gpu = %(gpu)s
          and tie_group.problem_number = %(number)s
    ) as counted
    where before <= %(offset)s
    order by before desc
    limit 1
), sizes as (
    select array_agg(entries_count order by first_us, first_number) as sizes
    from (
        select tie_group.entries_count, tie_group.first_us, tie_group.first_number
        from tie_group
        where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
          and (first_us, first_number) >= (
              (select start.first_us from start), (select start.first_number from start)
          )
        order by first_us, first_number
        limit %(limit)s
    ) as following
)
select state.seq, state.total, state.is_settled, state.is_changed,
       start.before::bigint as before, sizes.sizes, line.submission, line.account, line.number,
       line.source, line.pooled_over, line.score_us, line.placed_us, line.error, line.freedom,
       line.delta, case when first.placed_us > first.score_us then best_rank(
           %(problem)s, %(gpu)s, %(number)s, first.score_us * first.score_us / first.placed_us
       ) end as best_rank, exists (
           select 1 from duel_win
           where duel_win.problem = %(problem)s and duel_win.gpu = %(gpu)s
             and duel_win.problem_number = %(number)s and duel_win.loser = line.source
       ) as is_beaten,
       (
           select coalesce(json_agg(json_build_object('loser', loser, 'ratio', ratio, 'low', low,
                                                      'high', high) order by loser), '[]')
           from duel_win
           where duel_win.problem = %(problem)s and duel_win.gpu = %(gpu)s
             and duel_win.problem_number = %(number)s and duel_win.winner = line.source
       ) as wins
from state
cross join sizes
left join start on true
left join lateral (
    select submission, account, number, source, pooled_over, score_us, placed_us, error, freedom,
           delta, order_us, order_number
    from entry
    where entry.problem = %(problem)s and entry.gpu = %(gpu)s
      and entry.problem_number = %(number)s and not entry.is_hidden
      and (entry.order_us, entry.order_number) >= (start.first_us, start.first_number)
    order by entry.order_us, entry.order_number, entry.number
    offset greatest(%(offset)s - start.before, 0)
    limit %(limit)s
) as line on true
left join lateral (
    select score_us, placed_us
    from entry
    where entry.problem = %(problem)s and entry.gpu = %(gpu)s
      and entry.problem_number = %(number)s and not entry.is_hidden
      and entry.order_us = line.order_us and entry.order_number = line.order_number
      and entry.number = line.order_number
    limit 1
) as first on true
order by line.order_us, line.order_number, line.number;

-- name: standing
-- The place of an account on a leaderboard, and the scores that its entry is compared with; it does
-- not hold if a ban ended by the clock alone.
with own as (
    select submission, number, source, score_us, order_us, order_number
    from entry
    where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
      and account = %(account)s and not is_hidden
    limit 1
), led as (
    select one.first_us, one.first_number, one.block, one.entries_count
    from own
    cross join lateral (
        select first_us, first_number, block, entries_count
        from tie_group
        where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
          and (first_us, first_number) <= (own.order_us, own.order_number)
        order by first_us desc, first_number desc
        limit 1
    ) as one
)
select not exists (
           select 1 from ban
           join entry on entry.account = ban.account and entry.problem = %(problem)s
                and entry.gpu = %(gpu)s and entry.problem_number = %(number)s
           where (ban.until_at <= %(at)s and not ban.is_over)
              or (ban.until_at > %(at)s and ban.is_over)
       ) as is_settled,
       own.submission, own.number, own.source, own.score_us, led.entries_count as shared,
       case when first.placed_us > first.score_us then best_rank(
           %(problem)s, %(gpu)s, %(number)s, first.score_us * first.score_us / first.placed_us
       ) end as best_rank,
       1 + (
           select coalesce(sum(entries_count), 0)::bigint
           from tie_block
           where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
             and block < led.block
       ) + (
           select coalesce(sum(entries_count), 0)::bigint
           from tie_group
           where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
             and block = led.block and (first_us, first_number) < (led.first_us, led.first_number)
       ) as rank, (
           select score_us
           from entry
           where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
             and not is_hidden
           order by order_us, order_number, number
           limit 1
       ) as best_us, (
           select order_us
           from entry
           where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
             and not is_hidden and (order_us, order_number) < (led.first_us, led.first_number)
           order by order_us desc, order_number desc
           limit 1
       ) as ahead_us
from (select 1) as always
left join own on true
left join led on true
left join entry as first on first.problem = %(problem)s and first.gpu = %(gpu)s
     and first.problem_number = %(number)s and not first.is_hidden
     and first.order_us = own.order_us and first.order_number = own.order_number
     and first.number = own.order_number;

-- name: ladder_before
-- The inputs of ranks after an event: entries as they were, with the duels judged by then; none if
-- that state is no longer stored.
with undone as (
    select distinct on (account) account, submission, number, source, pooled_over, score_us,
           placed_us, error, freedom, delta, is_hidden
    from entry_before
    where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
      and until_seq > %(as_of)s
    order by account, until_seq
), was as (
    select account, submission, number, source, pooled_over, score_us, placed_us, error, freedom,
           delta, is_hidden
    from undone
    where submission is not null
    union all
    select account, submission, number, source, pooled_over, score_us, placed_us, error, freedom,
           delta, is_hidden
    from entry
    where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
      and not exists (select 1 from undone where undone.account = entry.account)
), judged as (
    select distinct on (least(first_source, second_source), greatest(first_source, second_source))
           case winner when 'A' then first_source else second_source end as winner,
           case winner when 'A' then second_source else first_source end as loser,
           winner in ('A', 'B') as is_won, ratio, low, high
    from duel
    where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
      and judged_seq <= %(as_of)s and ratio is not null and low is not null
    order by least(first_source, second_source), greatest(first_source, second_source),
             judged_seq desc
), won as (
    select winner,
           json_agg(json_build_object('loser', loser, 'ratio', ratio, 'low', low, 'high', high)
                    order by loser) as wins
    from judged
    where is_won
    group by winner
)
select was.submission, was.account, was.number, was.source, was.pooled_over, was.score_us,
       was.placed_us, was.error, was.freedom, was.delta, coalesce(won.wins, '[]') as wins
from was
left join won on won.winner = was.source
where not was.is_hidden
  and (select seq from entry_before_since) <= %(as_of)s
window copies as (partition by was.source order by was.number)
order by first_value(was.placed_us) over copies, first_value(was.number) over copies, was.number
limit %(limit)s;

-- name: shown
-- The rows that a leaderboard shows for some submissions under one problem version.
select result.submission, result.account as participant_id, participant.name as participant,
       result.number,
       result.run_us, result.low_us, result.high_us, result.grade, result.yardstick_us,
       result.is_provisional, result.received_at, run.tier, run.level,
       coalesce(run.metrics, '{}') as metrics,
       submission.name as file_name, submission.toolchains,
       coalesce(submission.source_media = 'application/vnd.warpboard.files', false)
           as has_several_files,
       version.source_visible as policy, coalesce(moderation.is_withdrawn, false) as is_withdrawn,
       coalesce(version.consent = '' or exists (
           select 1 from consent
           where consent.account = result.account and consent.problem = result.problem
             and consent.digest = version.consent
       ), false) as is_consented, coalesce(confirmation.shown, '') as confirmation
from scored as result
left join submission on submission.id = result.submission
left join problem as version on version.slug = submission.problem
     and version.number = submission.problem_number
left join moderation on moderation.submission = result.submission
left join accounts.participant on participant.account = result.account
left join run on run.id = result.run
left join confirmation on confirmation.run = result.run and confirmation.contest = ''
where result.submission = any(%(submissions)s::text[]) and result.problem_number = %(number)s
limit 1000;

-- name: progress
-- How the participants behind some submissions became faster on a leaderboard, until an instant: of
-- the 60 fastest results of each, those that were faster than all before.
select participant_id, json_agg(json_build_object(
           'number', number, 'at', received_at, 'score_us', score_us
       ) order by number) as points
from (
    select fast.account as participant_id, fast.number, fast.received_at, fast.score_us,
           fast.placed_us < coalesce(min(fast.placed_us) over (
               partition by fast.account
               order by fast.number rows between unbounded preceding and 1 preceding
           ), 'infinity') as is_faster
    from result as shown
    cross join lateral (
        select account, number, received_at, pooled_us as score_us, pooled_placed_us as placed_us
        from result
        where result.account = shown.account and result.problem = %(problem)s
          and result.gpu = %(gpu)s and result.problem_number = %(number)s
          and result.pooled_us is not null
          and (%(until)s::timestamptz is null or result.received_at <= %(until)s)
        order by result.pooled_placed_us, result.number
        limit 60
    ) as fast
    where shown.submission = any(%(followed)s::text[]) and shown.problem_number = %(number)s
) as line
where is_faster
group by participant_id
limit 20;

-- name: leaderboard_details
-- What a leaderboard shows beside its places, in one row of lists.
select (select coalesce(json_agg(line), '[]') from (:shown) as line) as shown,
       (select coalesce(json_agg(line), '[]') from (:records) as line) as records,
       (select coalesce(json_agg(line), '[]') from (:progress) as line) as progress,
       (select coalesce(json_agg(line), '[]') from (:goals) as line) as goals,
       (select coalesce(json_agg(line), '[]') from (:baselines) as line) as baselines,
       (select coalesce(json_agg(line), '[]') from (:milestones_reached) as line) as milestones;

-- name: entry_cases
-- The cases of the runs behind some submissions under one problem version.
select result.submission, run.cases, yardstick.times_us as fixed_us
from scored as result
join run on run.id = result.run
left join yardstick on yardstick.problem = result.problem and yardstick.gpu = result.gpu
     and yardstick.problem_number = result.problem_number
where result.submission = any(%(submissions)s::text[])
  and result.problem_number = %(problem_number)s
limit 100;

-- name: entry_times
-- The times of the public timed cases of the runs behind some submissions under one version.
select result.submission, yardstick.times_us as fixed_us,
       timed.name, timed.stage, timed.verdict, timed.time_us, timed.interval_us,
       timed.yardstick_us, coalesce(timed.weight, 1) as weight
from scored as result
join run on run.id = result.run
cross join lateral json_to_recordset(run.cases) as timed (
    name text, stage text, verdict text, is_hidden boolean, time_us double precision,
    interval_us json, yardstick_us double precision, weight double precision
)
left join yardstick on yardstick.problem = result.problem and yardstick.gpu = result.gpu
     and yardstick.problem_number = result.problem_number
where result.submission = any(%(submissions)s::text[])
  and result.problem_number = %(problem_number)s
  and timed.stage = 'time' and timed.time_us is not null and not coalesce(timed.is_hidden, false)
limit 100000;

-- name: submission
-- One submission with the run that counts, or else its newest run, its result under the newest
-- version that it has one under, and later decisions about it.
select submission.id, submission.number, submission.account as participant_id,
       participant.name as participant,
       submission.problem, submission.problem_number as problem_version, submission.gpu,
       submission.mode, submission.name, submission.source as source_digest, submission.source_bytes,
       submission.pooling_source,
       submission.received_at, submission.deadline_at, submission.baseline,
       coalesce(leaderboard.visibility, 'public') as visibility,
       coalesce(leaderboard.contest, '') as contest,
       leaderboard.deadline_at as board_deadline_at,
       coalesce(problem.source_visible, 'owner') as source_visible,
       coalesce(problem.consent = '' or exists (
           select 1 from consent
           where consent.account = submission.account and consent.problem = submission.problem
             and consent.digest = problem.consent
       ), false) as is_consented,
       coalesce(moderation.is_withdrawn, false) as is_withdrawn,
       submission.state, submission.state_at as state_since, submission.lease_until_at,
       submission.agent, submission.attempt, submission.outcome,
       submission.verdict, coalesce(result.code, submission.code) as code,
       coalesce(result.reason, submission.reason) as reason,
       coalesce(result.is_eligible, submission.is_eligible) as is_eligible,
       coalesce(result.problem_number, submission.problem_number) as result_version,
       result.score_us, result.run_us, result.low_us, result.high_us, result.yardstick_us,
       (select times_us from yardstick
        where yardstick.problem = submission.problem and yardstick.gpu = submission.gpu
          and yardstick.problem_number = submission.problem_number) as fixed_us,
       coalesce(result.process_us, '{}') as process_us,
       coalesce(result.pooled_over, '{}') as pooled_over, result.error, coalesce(result.freedom, 0) as freedom, coalesce(result.delta, 0) as delta,
       coalesce(result.grade, '') as grade,
       coalesce(result.is_provisional, false) as is_provisional,
       coalesce(result.counts, false) as counts,
       submission.is_held, submission.finished_at, submission.timeline,
       run.id as run, run.started_at, run.ended_at, run.level, run.tier,
       coalesce(run.missing, '{}') as missing, run.stage, run.took_s,
       coalesce(run.cases, '[]') as cases,
       coalesce(run.environment, '{}') as environment, run.fingerprint,
       coalesce(run.log_head, '') as log_head, coalesce(run.log_tail, '') as log_tail,
       coalesce(run.files, '[]') as files, coalesce(run.usage, '{}') as usage,
       coalesce(run.metrics, '{}') as metrics,
       run.composition,
       run.key_commit, submission_note.note, submission_note.tag,
       coalesce(problem.roofs, '[]') as roofs,
       coalesce(json_array_length(problem.baselines), 0) > 0 as has_baselines,
       json_build_object(
           'is_held', coalesce(moderation.is_held, false),
           'is_disqualified', coalesce(moderation.is_disqualified, false),
           'rule', moderation.rule, 'reason', moderation.reason,
           'decided_at', moderation.decided_at, 'appeal', moderation.appeal,
           'appeal_reason', moderation.appeal_reason, 'appealed_at', moderation.appealed_at,
           'ban_reason', ban.reason, 'banned_at', ban.banned_at, 'ban_until_at', ban.until_at,
           'is_withdrawn', coalesce(moderation.is_withdrawn, false),
           'withdrawn_reason', moderation.withdrawn_reason,
           'withdrawn_at', moderation.withdrawn_at
       ) as decided
from submission
left join accounts.participant on participant.account = submission.account
left join leaderboard on leaderboard.slug = submission.problem
left join problem on problem.slug = submission.problem
     and problem.number = submission.problem_number
left join accounts.submission_note on submission_note.submission = submission.id
left join moderation on moderation.submission = submission.id
left join ban on ban.account = submission.account
     and (ban.until_at is null or ban.until_at > %(at)s)
left join lateral (
    select problem_number, code, reason, is_eligible, score_us, run_us, low_us, high_us, process_us,
           pooled_over, error, freedom, delta, grade, is_provisional, counts, yardstick_us, run
    from scored
    where scored.submission = submission.id
    order by scored.problem_number desc
    limit 1
) as result on true
left join run on run.submission = submission.id
     and run.id = case when result.problem_number = submission.problem_number
                       then coalesce(result.run, submission.run) else submission.run end
where submission.number = %(number)s
limit 1;

-- name: run_key
-- The key of a run, from which its hidden sizes follow; for authors and staff.
select key from run where id = %(run)s limit 1;

-- name: submission_id
-- The submission with a number.
select id, number, account, problem from submission where number = %(number)s limit 1;

-- name: history
-- The events of a submission, and the columns that decide who may read them.
select submission.number, submission.id, submission.account as participant_id,
       submission.problem, submission.gpu,
       submission.mode, submission.state, submission.timeline, submission.baseline, submission.agent,
       coalesce(leaderboard.visibility, 'public') as visibility,
       ranks_hidden(submission.problem, %(at)s, %(organiser)s, %(is_staff)s) as are_ranks_hidden,
       sources_hidden(submission.problem, %(at)s, %(organiser)s, %(is_staff)s) as are_sources_hidden,
       leaderboard.deadline_at as board_deadline_at
from submission
left join leaderboard on leaderboard.slug = submission.problem
where submission.number = %(number)s
limit 1;

-- name: results
-- The results of a submission under each problem version.
select problem_number as problem_version, rejudge, verdict, is_eligible, code, reason, score_us, run_us, low_us,
       high_us, error, freedom, delta, pooled_over, run, at, yardstick_us
from scored
where submission = %(id)s
order by problem_number
limit 100;

-- name: submissions
-- The newest submissions of participants that the reader can see, filtered by problem and other
-- values.
select submission.number, submission.id, submission.account as participant_id,
       participant.name as participant,
       submission.problem, submission.problem_number as problem_version, submission.gpu,
       submission.mode, submission.name,
       coalesce(submission.source_media = 'application/vnd.warpboard.files', false)
           as has_several_files,
       submission.received_at, submission.state, submission.state_at as state_since,
       submission.deadline_at, submission.lease_until_at, submission.outcome, submission.verdict,
       coalesce(result.code, submission.code) as code,
       coalesce(result.is_eligible, submission.is_eligible) as is_eligible, result.score_us,
       coalesce(result.problem_number, submission.problem_number) as result_version,
       coalesce(result.pooled_over, '{}') as pooled_over,
       coalesce(moderation.is_withdrawn, false) as is_withdrawn,
       submission_note.note, submission_note.tag
from submission
left join accounts.participant on participant.account = submission.account
left join accounts.submission_note on submission_note.submission = submission.id
left join leaderboard on leaderboard.slug = submission.problem
left join moderation on moderation.submission = submission.id
left join lateral (
    select problem_number, code, is_eligible, score_us, pooled_over
    from scored
    where scored.submission = submission.id
    order by scored.problem_number desc
    limit 1
) as result on true
where submission.baseline = '' and (%(problem)s::text is null or submission.problem = %(problem)s)
  and (%(participant)s::text is null or submission.account = (
      select coalesce(merged.into_account, named.account)
      from (
          select account from accounts.participant where name = %(participant)s
          union all
          select account from accounts.former_name where name = %(participant)s
          limit 1
      ) as named
      left join account_merge as merged
           on merged.account = named.account and merged.undone_seq is null
  ))
  and (%(account)s::text is null or (
      submission.account = %(account)s
      and (%(limited_to)s::text[] = '{}' or submission.problem = any(%(limited_to)s::text[]))
  ))
  and (%(mode)s::text is null or submission.mode = %(mode)s)
  and (%(gpu)s::text is null or lower(submission.gpu) = lower(%(gpu)s))
  and (%(tag)s::text is null or submission_note.tag = %(tag)s)
  and (%(state)s::text is null or submission.state = %(state)s
       or (%(state)s = 'open' and submission.state <> 'finished')
       or submission.outcome = %(state)s)
  and (%(before)s::bigint is null or submission.number < %(before)s)
  and (coalesce(leaderboard.visibility, 'public') <> 'closed' or %(is_staff)s
       or submission.problem = any(%(members_of)s::text[]))
  and (%(is_staff)s or submission.mode = 'ranked' or (
      submission.account = %(reader)s
      and (%(limited_to)s::text[] = '{}' or submission.problem = any(%(limited_to)s::text[]))
  ))
  and (
      not ranks_hidden(submission.problem, %(at)s, %(organiser)s, %(is_staff)s)
      or submission.account = %(reader)s
      and (%(limited_to)s::text[] = '{}' or submission.problem = any(%(limited_to)s::text[]))
  )
order by submission.number desc
limit %(limit)s;

-- name: participant
-- The account with a current or former name, or that which it is part of, and its current name.
select participant.account, participant.name
from accounts.participant
where participant.account = (
    select coalesce(merged.into_account, named.account)
    from (
        select account from accounts.participant where name = %(name)s
        union all
        select account from accounts.former_name where name = %(name)s
        limit 1
    ) as named
    left join account_merge as merged
         on merged.account = named.account and merged.undone_seq is null
)
limit 1;

-- name: participant_entries
-- The entry of a participant on each leaderboard that the reader can see, under the newest version
-- under which there is one.
select entry.problem, problem.title, entry.problem_number as problem_version, entry.gpu,
       entry.number, entry.score_us, entry.received_at, (
           select coalesce(sum(tie_block.entries_count), 0)::bigint
           from tie_block
           where tie_block.problem = entry.problem and tie_block.gpu = entry.gpu
             and tie_block.problem_number = entry.problem_number
       ) as entries_count
from (
    select distinct on (problem, gpu) problem, gpu, problem_number, number, score_us, received_at
    from entry
    where account = %(account)s and not is_hidden
    order by problem, gpu, problem_number desc
) as entry
join problem on problem.slug = entry.problem and problem.number = entry.problem_number
left join leaderboard on leaderboard.slug = entry.problem
where (coalesce(leaderboard.visibility, 'public') <> 'closed' or %(is_staff)s
       or entry.problem = any(%(members_of)s::text[]))
  and not ranks_hidden(entry.problem, %(at)s, %(organiser)s, %(is_staff)s)
order by entry.problem, entry.gpu
limit %(limit)s;

-- name: participant_records
-- The records of a participant on the leaderboards that have an entry of theirs and that the reader
-- can see, newest first; `is_standing` unless invalidated since.
select record.problem, record.problem_number as problem_version, record.gpu, submission.number,
       record.score_us, record.previous_us, record.at,
       moderation.excluded_seq is null and ban.account is null as is_standing
from record
join submission on submission.id = record.submission
left join leaderboard on leaderboard.slug = record.problem
left join moderation on moderation.submission = record.submission
left join ban on ban.account = record.account
     and (ban.until_at is null or ban.until_at > %(at)s)
where record.account = %(account)s
  and (record.problem, record.gpu, record.problem_number) in (
      select problem, gpu, problem_number from entry where account = %(account)s
  )
  and (coalesce(leaderboard.visibility, 'public') <> 'closed' or %(is_staff)s
       or record.problem = any(%(members_of)s::text[]))
  and not ranks_hidden(record.problem, %(at)s, %(organiser)s, %(is_staff)s)
order by record.seq desc
limit %(limit)s;

-- name: own_best
-- The best score of another source that a participant had before one of their submissions, and the
-- rank that it would have among the entries of the others now.
with best as (
    select min(pooled_us) as score_us
    from result
    where account = %(account)s and problem = %(problem)s and gpu = %(gpu)s
      and problem_number = %(problem_number)s and pooled_us is not null and number < %(before)s
      and source <> %(source)s
)
select best.score_us, case when best.score_us is not null then 1 + (
           select count(*)
           from entry
           where entry.problem = %(problem)s and entry.gpu = %(gpu)s
             and entry.problem_number = %(problem_number)s and entry.account <> %(account)s
             and not entry.is_hidden and entry.score_us < best.score_us
       ) end as rank_before
from best;

-- name: personal
-- Every ranked submission of a participant on a leaderboard, newest first, with its result there
-- and whether it was the participant's fastest at the time.
with mine as (
    select submission.number, submission.id, submission.name, submission.received_at,
           submission.finished_at, submission.outcome, submission.verdict, submission.code,
           submission.reason, result.problem_number, result.is_eligible, result.score_us,
           result.run_us, result.low_us, result.high_us, result.error, result.freedom,
           result.delta, result.pooled_over, result.grade, result.is_provisional, result.seq,
           result.counts
    from submission
    left join scored as result on result.submission = submission.id
         and result.problem_number = %(problem_number)s
    where submission.account = %(account)s and submission.problem = %(problem)s
      and submission.gpu = %(gpu)s and submission.mode = 'ranked'
      and submission.state = 'finished'
      and (submission.problem_number = %(problem_number)s or result.submission is not null)
    order by submission.number desc
    limit 1000
)
select number, id, name, received_at, finished_at, outcome, verdict, code, reason,
       problem_number as problem_version, coalesce(is_eligible, false) as is_eligible, score_us,
       run_us, low_us,
       high_us, error, freedom, delta, coalesce(pooled_over, '{}') as pooled_over,
       coalesce(grade, '') as grade, coalesce(is_provisional, false) as is_provisional,
       coalesce(counts, false) as counts,
       coalesce(is_eligible and run_us < coalesce(
           min(run_us) filter (where is_eligible) over (
               order by seq, number rows between unbounded preceding and 1 preceding
           ), 'infinity'), false) as was_best
from mine
order by number desc
limit 1000;

-- name: records
-- The records of a leaderboard, newest first; `is_standing` unless invalidated since.
select record.seq, record.problem, record.gpu, record.problem_number as problem_version,
       record.submission, submission.number, record.account as participant_id,
       participant.name as participant, record.score_us, record.previous_us, record.at,
       moderation.excluded_seq is null and ban.account is null as is_standing
from record
join submission on submission.id = record.submission
left join accounts.participant on participant.account = record.account
left join moderation on moderation.submission = record.submission
left join ban on ban.account = record.account
     and (ban.until_at is null or ban.until_at > %(at)s)
where record.problem = %(problem)s and record.gpu = %(gpu)s
  and record.problem_number = %(number)s
order by record.seq desc
limit %(limit)s;

-- name: recent_records
-- The newest standing records of all leaderboards that the reader can see.
select record.seq, record.problem, record.gpu, record.problem_number as problem_version,
       record.submission, submission.number, record.account as participant_id,
       participant.name as participant, record.score_us, record.previous_us, record.at,
       true as is_standing
from record
join submission on submission.id = record.submission
left join accounts.participant on participant.account = record.account
left join leaderboard on leaderboard.slug = record.problem
left join moderation on moderation.submission = record.submission
left join ban on ban.account = record.account
     and (ban.until_at is null or ban.until_at > %(at)s)
where moderation.excluded_seq is null and ban.account is null
  and (coalesce(leaderboard.visibility, 'public') <> 'closed' or %(is_staff)s
       or record.problem = any(%(members_of)s::text[]))
  and not ranks_hidden(record.problem, %(at)s, %(organiser)s, %(is_staff)s)
order by record.seq desc
limit %(limit)s;

-- name: records_known
-- The announced records, newest first; `is_standing` unless invalidated since, and
-- `disqualified_seq` if the submission was disqualified.
select record.submission, record.score_us,
       moderation.excluded_seq is null and ban.account is null as is_standing,
       case when moderation.is_disqualified then moderation.excluded_seq end as disqualified_seq
from record
left join moderation on moderation.submission = record.submission
left join ban on ban.account = record.account
     and (ban.until_at is null or ban.until_at > %(at)s)
where record.problem = %(problem)s and record.gpu = %(gpu)s
  and record.problem_number = %(number)s
order by record.seq desc
limit 1000;

-- name: best_of_others
-- The best score that a leaderboard ever had besides one source's own, whatever happened to it;
-- submissions disqualified before an event and noisy times do not count.
select (
    select result.score_us
    from scored as result
    left join moderation on moderation.submission = result.submission
    where result.problem = %(problem)s and result.gpu = %(gpu)s
      and result.problem_number = %(number)s and result.is_eligible and result.grade <> 'noisy'
      and not (result.account = %(account)s and result.source = %(source)s and result.counts)
      and (moderation.is_disqualified is not true or moderation.excluded_seq > %(seq)s)
    order by result.score_us
    limit 1
) as score_us
limit 1;

-- name: movers
-- Accounts whose place may have changed by a run: the newest event of each one's score, unless
-- there was a decision about the leaderboard since.
select result.account, max(result.seq) as seq
from result
where result.problem = %(problem)s and result.gpu = %(gpu)s
  and result.problem_number = %(number)s and result.account = any(%(accounts)s::text[])
  and result.pooled_us is not null
group by result.account
having max(result.seq) > (
    select coalesce(max(decided.seq), 0)
    from (
        select moderation.seq
        from moderation
        join result as other on other.submission = moderation.submission
        where other.problem = %(problem)s and other.gpu = %(gpu)s
          and other.problem_number = %(number)s
        union all
        select ban.seq
        from ban
        join result as other on other.account = ban.account
        where other.problem = %(problem)s and other.gpu = %(gpu)s
          and other.problem_number = %(number)s
    ) as decided
)
limit 10;

-- name: duels_open
-- Duels without a result.
select id, seq, problem, gpu, problem_number
from duel
where judged_seq is null
order by seq
limit 10000;

-- name: duels_of_board
-- The pairs of sources with a requested or judged duel on a leaderboard.
select id, first_source, second_source, judged_seq
from duel
where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
order by seq desc
limit 10000;

-- name: duel_sides
-- The data that a duel needs of two submissions of one leaderboard, while its version is the
-- newest.
select submission.id, submission.number, submission.account, submission.name, submission.source,
       submission.pooling_source, submission.source_bytes, submission.source_media, problem.digest
from submission
join problem on problem.slug = submission.problem and problem.number = %(number)s
where submission.id = any(%(submissions)s::text[])
  and not exists (
      select 1 from problem as newer
      where newer.slug = problem.slug and newer.number > problem.number
  )
limit 2;

-- name: duel_agents
-- An agent of a GPU type that takes duels, if there is one.
select agent.id
from agent
left join agent_standing on agent_standing.id = agent.id
where agent.gpu = %(gpu)s and 'duel' = any(agent.modes) and agent.quarantine = ''
  and agent_standing.enrolled_at is not null
limit 1;

-- name: confirmations_open
-- Confirmations without a result, with the inputs of their run's score.
select confirmation.id, confirmation.seq, confirmation.problem, confirmation.gpu,
       confirmation.problem_number, confirmation.score_us, confirmation.yardstick_us,
       confirmation.is_fresh, problem.ranking_by, problem.roofs,
       (select times_us from yardstick
        where yardstick.problem = problem.slug and yardstick.problem_number = problem.number
          and yardstick.gpu = confirmation.gpu) as fixed_us
from confirmation
join problem on problem.slug = confirmation.problem
     and problem.number = confirmation.problem_number
where confirmation.judged_seq is null
order by confirmation.seq
limit 10000;

-- name: first_runs
-- The ranked runs with a yardstick that were scored on a leaderboard before its unit was fixed.
select result.submission, result.run, problem.ranking_by, run.cases, run.sigma_run, run.tie_us,
       coalesce(run.tier, '') as tier
from result
join run on run.id = result.run
join problem on problem.slug = result.problem and problem.number = result.problem_number
where result.problem = %(problem)s and result.gpu = %(gpu)s
  and result.problem_number = %(problem_number)s
  and result.yardstick_us is not null
  and (result.is_eligible or result.code = any(%(codes)s))
order by result.seq, result.number
limit 100;

-- name: confirmations_of_board
-- The confirmations requested for a leaderboard.
select id, judged_seq
from confirmation
where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
order by seq desc
limit 10000;

-- name: confirmations_shown
-- The confirmation texts of a leaderboard, for an audit.
select result.submission, confirmation.shown
from confirmation
join result on result.run = confirmation.run and result.submission = confirmation.submission
     and result.problem_number = confirmation.problem_number
where confirmation.problem = %(problem)s and confirmation.gpu = %(gpu)s
  and confirmation.problem_number = %(number)s and confirmation.shown <> ''
  and confirmation.contest = ''
limit 10000;

-- name: runs_to_confirm
-- The runs of some entries, where the version is the newest and another enrolled agent takes ranked
-- runs of the GPU type.
select submission.id as submission, submission.account, submission.name, submission.source,
       submission.source_bytes, submission.source_media, problem.digest, result.run, run.agent,
       result.score_us, result.yardstick_us
from result
join submission on submission.id = result.submission
join run on run.id = result.run
join problem on problem.slug = submission.problem and problem.number = %(number)s
where result.submission = any(%(submissions)s::text[]) and result.problem_number = %(number)s
  and result.score_us is not null
  and not exists (
      select 1 from problem as newer
      where newer.slug = problem.slug and newer.number > problem.number
  )
  and exists (
      select 1 from agent
      join agent_standing on agent_standing.id = agent.id
      where agent.gpu = submission.gpu and agent.id <> run.agent and agent.quarantine = ''
        and 'ranked' = any(agent.modes) and agent_standing.enrolled_at is not null
  )
order by result.score_us
limit 10;

-- name: retimes_due
-- Entries whose run was noisy and that are due to be timed again, with their earlier attempts and
-- the open ones of their leaderboards. The delays are in seconds, one for each attempt.
select noisy.problem, noisy.gpu, noisy.problem_number, noisy.digest, noisy.submission,
       submission.account, submission.name, submission.source, submission.source_bytes,
       submission.source_media, earlier.attempts, (
           select count(*) from retime
           where retime.problem = noisy.problem and retime.gpu = noisy.gpu
             and retime.problem_number = noisy.problem_number and retime.state = 'running'
       ) as open_count
from noisy_entry as noisy
join submission on submission.id = noisy.submission
cross join lateral (
    select count(*)::int as attempts, max(ended_at) as ended_at,
           coalesce(bool_or(state = 'running'), false) as is_open
    from retime
    where retime.submission = noisy.submission and retime.problem_number = noisy.problem_number
) as earlier
where not earlier.is_open and (noisy.deadline_at is null or noisy.deadline_at > %(at)s)
  and coalesce(earlier.ended_at, noisy.at)
      + make_interval(secs => (%(delays_s)s::float8[])[earlier.attempts + 1]) <= %(at)s
order by noisy.number
limit 1000;

-- name: retimes_needless
-- Open attempts to time an entry again that has changed or left its leaderboard since.
select retime.id, retime.version
from retime
where retime.state = 'running' and retime.item_state <> 'judged'
  and not exists (
      select 1 from noisy_entry as noisy
      where noisy.submission = retime.submission and noisy.problem_number = retime.problem_number
  )
limit 1000;

-- name: retimes_judged
-- Open attempts to time an entry again whose run is judged.
select id, version, result from retime where state = 'running' and item_state = 'judged' limit 100;

-- name: agent_then
-- The signing key and harness code of an agent before an event.
select (select sign_key from agent_key
         where agent = %(agent)s and seq < %(seq)s order by seq desc limit 1) as sign_key,
       (select digest from agent_harness
         where agent = %(agent)s and seq < %(seq)s order by seq desc limit 1) as harness_code;

-- name: announced
-- The announced podium, and the version of the leaderboard's history.
select ranking.seq, podium.accounts
from ranking
left join podium on podium.problem = ranking.problem and podium.gpu = ranking.gpu
     and podium.problem_number = %(number)s
where ranking.problem = %(problem)s and ranking.gpu = %(gpu)s
limit 1;

-- name: leader
-- The newest event of a source's score, and the run that it came from.
select seq, coalesce(run, '') as run
from result
where account = %(account)s and problem = %(problem)s and gpu = %(gpu)s
  and problem_number = %(number)s and source = %(source)s and pooled_us is not null
order by seq desc
limit 1;

-- name: goals
-- The baselines, milestones and roofline inputs of a version.
select baselines, milestones, roofs, ranking_by
from problem
where slug = %(problem)s and number = %(number)s
limit 1;

-- name: baselines
-- The runs of a version's baselines on a GPU type that were not taken off, newest first, until an
-- instant.
select submission.baseline as name, submission.number, submission.id, submission.state,
       submission.outcome, submission.verdict, submission.code, submission.reason,
       submission.deadline_at, submission.finished_at, result.score_us, result.low_us,
       result.high_us, result.grade, run.tier, run.level
from submission
left join result on result.submission = submission.id
     and result.problem_number = submission.problem_number
left join run on run.id = submission.run and run.submission = submission.id
where submission.problem = %(problem)s and submission.gpu = %(gpu)s
  and submission.problem_number = %(number)s and submission.baseline <> ''
  and (%(until)s::timestamptz is null or submission.finished_at <= %(until)s)
  and not exists (
      select 1 from moderation
      where moderation.submission = submission.id and moderation.excluded_seq is not null
  )
order by submission.number desc
limit 200;

-- name: set_problems
-- The newest version of each problem of a set that the reader can see, and its GPU types.
select distinct on (problem.slug) problem.slug, problem.number,
       coalesce(leaderboard.gpus, problem.gpus) as gpus
from problem
left join leaderboard on leaderboard.slug = problem.slug
where starts_with(problem.slug || '-', %(prefix)s)
  and (coalesce(leaderboard.visibility, 'public') <> 'closed' or %(is_staff)s
       or problem.slug = any(%(members_of)s::text[]))
  and not ranks_hidden(problem.slug, %(at)s, %(organiser)s, %(is_staff)s)
order by problem.slug, problem.number desc
limit 1000;

-- name: set_entries
-- The entries of the leaderboards of some problem versions on a GPU type.
select entry.problem, entry.account as participant_id, participant.name as participant,
       entry.score_us
from unnest(%(slugs)s::text[], %(numbers)s::int[]) as known (slug, number)
join entry on entry.problem = known.slug and entry.problem_number = known.number
     and entry.gpu = %(gpu)s and not entry.is_hidden
left join accounts.participant on participant.account = entry.account
limit 100000;

-- name: set_baselines
-- The runs of the baselines of some problem versions on a GPU type that were not taken off, newest
-- first.
select submission.problem, submission.baseline as name, submission.outcome, submission.code,
       result.score_us
from unnest(%(slugs)s::text[], %(numbers)s::int[]) as known (slug, number)
join submission on submission.problem = known.slug and submission.problem_number = known.number
     and submission.gpu = %(gpu)s and submission.baseline <> ''
left join result on result.submission = submission.id
     and result.problem_number = submission.problem_number
where not exists (
    select 1 from moderation
    where moderation.submission = submission.id and moderation.excluded_seq is not null
)
order by submission.number desc
limit 100000;

-- name: baseline_cases
-- The cases of some runs of baselines.
select submission.id, submission.baseline as name, coalesce(run.cases, '[]') as cases
from submission
join run on run.id = submission.run and run.submission = submission.id
where submission.id = any(%(submissions)s::text[])
limit 100;

-- name: unmet_by_score
-- Participants with a score within bounds who have not reached a milestone; a noisy time counts by
-- the slow end of its interval.
select account, submission, placed_us as measured
from entry
where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
  and placed_us between %(low)s and %(high)s
  and not exists (
      select 1 from milestone
      where milestone.problem = entry.problem and milestone.gpu = entry.gpu
        and milestone.milestone = %(milestone)s
        and entry.account in (milestone.account, milestone.into_account)
  )
  and not exists (
      select 1 from ban
      where ban.account = entry.account and (ban.until_at is null or ban.until_at > %(at)s)
  )
order by number
limit %(limit)s;

-- name: unmet_by_cases
-- Participants with enough passed cases, in submissions that are not kept off, who have not reached
-- a milestone.
select distinct on (submission.account) submission.account, submission.id as submission,
       submission.cases_passed::float8 as measured
from submission
where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
  and mode = 'ranked' and baseline = '' and state = 'finished' and not is_held
  and outcome in ('passed', 'failed', 'timed_out')
  and cases_passed between %(low)s and %(high)s
  and not exists (
      select 1 from milestone
      where milestone.problem = submission.problem and milestone.gpu = submission.gpu
        and milestone.milestone = %(milestone)s
        and submission.account in (milestone.account, milestone.into_account)
  )
  and not exists (
      select 1 from moderation
      where moderation.submission = submission.id and moderation.excluded_seq is not null
  )
  and not exists (
      select 1 from ban
      where ban.account = submission.account and (ban.until_at is null or ban.until_at > %(at)s)
  )
order by submission.account, submission.number
limit %(limit)s;

-- name: milestones_reached
-- How many participants reached each milestone of a leaderboard with a standing submission, and
-- whether the reader did.
select milestone.milestone, count(distinct participant.account) as reached,
       min(milestone.at) filter (where participant.account = %(reader)s) as reached_at,
       min(submission.number) filter (where participant.account = %(reader)s) as number
from milestone
cross join lateral (
    select coalesce(nullif(milestone.into_account, ''), milestone.account) as account
) as participant
join submission on submission.id = milestone.submission
left join moderation on moderation.submission = milestone.submission
left join ban on ban.account = participant.account
     and (ban.until_at is null or ban.until_at > %(at)s)
where milestone.problem = %(problem)s and milestone.gpu = %(gpu)s
  and (%(until)s::timestamptz is null or milestone.at <= %(until)s)
  and moderation.excluded_seq is null and ban.account is null
group by milestone.milestone
limit 1000;

-- name: own_milestones
-- The milestones that a participant reached, newest first, on leaderboards that the reader can see.
select milestone.problem, milestone.gpu, milestone.milestone as id, milestone.title,
       milestone.problem_number as problem_version, milestone.value, submission.number,
       milestone.at as reached_at
from milestone
join submission on submission.id = milestone.submission
left join leaderboard on leaderboard.slug = milestone.problem
left join moderation on moderation.submission = milestone.submission
where coalesce(nullif(milestone.into_account, ''), milestone.account) = %(account)s
  and moderation.excluded_seq is null
  and not exists (
      select 1 from milestone as earlier
      where earlier.problem = milestone.problem and earlier.gpu = milestone.gpu
        and earlier.milestone = milestone.milestone and earlier.seq < milestone.seq
        and coalesce(nullif(earlier.into_account, ''), earlier.account) = %(account)s
  )
  and (%(limited_to)s::text[] = '{}' or milestone.problem = any(%(limited_to)s::text[]))
  and (coalesce(leaderboard.visibility, 'public') <> 'closed' or %(is_staff)s
       or milestone.problem = any(%(members_of)s::text[]))
order by milestone.seq desc
limit %(limit)s;

-- name: boards_with_goals
-- The leaderboards whose version has milestones and submissions.
select problem.slug as problem, one.gpu, problem.number as problem_number
from problem
cross join lateral (
    select distinct gpu from submission
    where submission.problem = problem.slug and submission.problem_number = problem.number
) as one
where json_array_length(problem.milestones) > 0
limit 10000;

-- name: boards
-- Every leaderboard with entries or announcements.
select distinct problem, gpu, problem_number from entry
union
select problem, gpu, problem_number from podium
limit 10000;

-- name: boards_of_bans_over
-- The leaderboards with entries of participants whose ban just ended.
select distinct result.problem, result.gpu, result.problem_number
from ban
join result on result.account = ban.account and result.pooled_us is not null
where ban.until_at > %(since)s and ban.until_at <= %(at)s
limit 10000;

-- name: results_before
-- The results of submissions under a problem version.
select submission, verdict, is_eligible, code, reason, score_us
from result
where submission = any(%(submissions)s::text[]) and problem_number = %(number)s
limit 1000;

-- name: moderation
-- Decisions about submissions, made or pending, newest first, for their owners, staff, and the
-- authors of their problems.
select submission.number, submission.id, participant.name as participant, submission.problem,
       submission.problem_number as problem_version, submission.gpu, submission.outcome,
       submission.code, submission.reason as end_reason, submission.is_held as is_held_by_rule,
       coalesce(moderation.is_held, false) as is_held,
       coalesce(moderation.is_disqualified, false) as is_disqualified, moderation.rule,
       moderation.reason, moderation.actor, moderation.decided_at, moderation.evidence,
       moderation.appeal, moderation.appeal_text, moderation.appeal_reason,
       moderation.appealed_at, coalesce(moderation.is_withdrawn, false) as is_withdrawn,
       moderation.withdrawn_at, submission.account as participant_id,
       submission.baseline
from (
    select submission as id from moderation
    where not %(open)s or is_held or appeal = 'filed'
    union
    select id from submission
    where is_held and not exists (
        select 1 from moderation
        where moderation.submission = submission.id and moderation.decided_at is not null
    )
) as listed
join submission on submission.id = listed.id
left join moderation on moderation.submission = listed.id
left join accounts.participant on participant.account = submission.account
where (submission.mode = 'ranked' and submission.problem = any(%(author_of)s::text[]))
   or (not %(authored)s and (%(is_staff)s or (
       submission.account = %(reader)s
       and (%(limited_to)s::text[] = '{}' or submission.problem = any(%(limited_to)s::text[]))
   )))
order by submission.number desc
limit %(limit)s;

-- name: rejudges
-- Rejudges, newest first, with the number of drafts but not the drafts. Noisy runs that are timed
-- again are found by their id only.
select rejudge.id, rejudge.problem, rejudge.from_number as from_version,
       rejudge.to_number as to_version, rejudge.select_ as "select", rejudge.reason, rejudge.actor, rejudge.count, rejudge.state,
       rejudge.changed_count, rejudge.diff, rejudge.requested_at, rejudge.previewed_at,
       rejudge.ended_at, rejudge.end_reason, rejudge.end_actor,
       (select count(submission) from rejudge_item as item
        where item.rejudge = rejudge.id and item.state = 'judged') as judged
from rejudge
where rejudge.id = %(id)s
   or (%(id)s::text is null and rejudge.from_number <> rejudge.to_number)
order by rejudge.seq desc
limit %(limit)s;

-- name: best_items
-- The submissions of a leaderboard's entries, to be run again.
select submission.id as submission, submission.account, submission.gpu, submission.name,
       submission.source, submission.source_bytes, submission.source_media
from entry
join submission on submission.id = entry.submission
where entry.problem = %(problem)s and entry.problem_number = %(number)s
  and (%(gpu)s::text is null or entry.gpu = %(gpu)s)
order by submission.number
limit %(limit)s;

-- name: all_items
-- All ranked submissions of a problem version with a verdict, to be run again.
select submission.id as submission, submission.account, submission.gpu, submission.name,
       submission.source, submission.source_bytes, submission.source_media
from submission
where submission.problem = %(problem)s and submission.problem_number = %(number)s
  and (%(gpu)s::text is null or submission.gpu = %(gpu)s)
  and submission.mode = 'ranked' and submission.verdict is not null
  and submission.baseline = ''
order by submission.number
limit %(limit)s;

-- name: agents
-- Every agent that was ever registered or enrolled, decisions about it, and its newest canaries.
select coalesce(agent.id, standing.id) as id, coalesce(agent.gpu, '') as gpu,
       coalesce(agent.count, 0) as count, agent.fingerprint, coalesce(agent.level, '') as level,
       agent.harness, coalesce(agent.details, '{}') as details, coalesce(agent.tier, '') as tier,
       coalesce(agent.missing, '[]') as missing, coalesce(agent.toolchains, '{}') as toolchains,
       coalesce(agent.modes, '{}') as modes, coalesce(agent.quarantine, '') as quarantine,
       agent.registered_at, standing.owner, standing.enrolled_at, standing.cordoned,
       standing.drained, standing.quarantined, standing.revoked,
       standing.enrolled_at is not null and standing.revoked is null as is_enrolled, (
           select coalesce(json_agg(json_build_object(
                      'at', newest.at, 'ratio', newest.ratio, 'is_good', newest.is_good
                  ) order by newest.seq desc), '[]')
           from (
               select seq, at, ratio, is_good
               from canary
               where canary.agent = coalesce(agent.id, standing.id)
               order by seq desc
               limit 20
           ) as newest
       ) as canaries
from agent
full join agent_standing as standing on standing.id = agent.id
order by 1
limit 1000;

-- name: harnesses
-- The registered harness codes, or one of them, with the agents that have each now; newest
-- registration first.
select harness.digest, harness.version, harness.seen_at,
       coalesce(
           json_agg(
               json_build_object(
                   'id', agent.id, 'gpu', agent.gpu, 'registered_at', agent.registered_at
               )
               order by agent.registered_at desc, agent.id
           ) filter (where agent.id is not null),
           '[]'
       ) as agents
from harness
left join agent
     on agent.details ->> 'harness_code' = harness.digest
     and not exists (
         select 1 from agent_standing as standing
         where standing.id = agent.id and standing.revoked is not null
     )
where %(digest)s::text is null or harness.digest = %(digest)s
group by harness.digest, harness.version, harness.seen_at, harness.seq
order by max(agent.registered_at) desc nulls last, harness.seq desc
limit %(limit)s;

-- name: waiting
-- The number of participants' submissions in each unfinished state, by GPU type.
select gpu, state, count(id) as submissions, min(received_at) as oldest_at
from submission
where state <> 'finished' and baseline = ''
group by gpu, state
order by gpu, state
limit 1000;

-- name: numbers
-- The numbers of some submissions, and the columns that decide who may see them; each forecast has
-- at most 300.
select submission.id, submission.number, submission.account as participant_id, submission.problem,
       submission.mode, submission.baseline,
       coalesce(leaderboard.visibility, 'public') as visibility,
       ranks_hidden(submission.problem, %(at)s, %(organiser)s, %(is_staff)s) as are_ranks_hidden
from submission
left join leaderboard on leaderboard.slug = submission.problem
where submission.id = any(%(submissions)s::text[])
limit 100000;

-- name: pools
-- The GPU types whose jobs are paused, and why.
select gpu, paused, paused_at from pool order by gpu limit 1000;

-- name: gpus
-- Every GPU type of a problem, an agent or an operator's decision.
select gpu from agent where gpu <> ''
union
select gpu from pool
union
select unnest(gpus) as gpu from problem
union
select unnest(gpus) from leaderboard
limit 1000;

-- name: stats
-- Counts since an instant, for a problem or for all.
select count(id) as num_submissions, count(id) filter (where state <> 'finished') as sub_waiting,
       count(distinct account) as num_users, count(distinct source) as num_unique_codes
from submission
where baseline = '' and (%(since)s::timestamptz is null or received_at >= %(since)s)
  and (%(problem)s::text is null or problem = %(problem)s);

-- name: stats_by_gpu
-- The runs since an instant by GPU type; delays from acceptance to start, all times in seconds.
select submission.gpu, count(run.id) as num_run,
       count(run.id) filter (where run.verdict = 'passed') as runs_passed,
       count(run.id) filter (where result.is_eligible) as runs_scored,
       count(run.id) filter (where submission.mode = 'ranked') as runs_secret,
       coalesce(max(extract(epoch from run.started_at - submission.received_at)), 0)::float8
           as max_delay,
       coalesce(avg(extract(epoch from run.started_at - submission.received_at)), 0)::float8
           as avg_delay,
       coalesce(sum(run.took_s), 0)::float8 as total_runtime
from run
join submission on submission.id = run.submission
left join result on result.submission = submission.id and result.run = run.id
     and result.rejudge = ''
where submission.baseline = ''
  and (%(since)s::timestamptz is null or submission.received_at >= %(since)s)
  and (%(problem)s::text is null or submission.problem = %(problem)s)
group by submission.gpu
order by submission.gpu
limit 1000;

-- name: stats_by_account
-- The seconds that each participant's runs took since an instant, longest first.
select submission.account, coalesce(sum(run.took_s), 0)::float8 as total
from run
join submission on submission.id = run.submission
where submission.baseline = '' and (%(since)s::timestamptz is null or submission.received_at >= %(since)s)
  and (%(problem)s::text is null or submission.problem = %(problem)s)
group by submission.account
order by total desc
limit 1000;

-- name: evaluations
-- Evaluations, newest first: one by its id, those of an account, or all.
select evaluation.id, evaluation.seq, evaluation.version, evaluation.account as participant_id,
       participant.name as participant, evaluation.problem,
       evaluation.problem_number as problem_version, evaluation.problem_digest, evaluation.gpu,
       evaluation.mode, evaluation.state, evaluation.is_cancelling, evaluation.outcome,
       evaluation.file, evaluation.sources, cardinality(evaluation.sources) as items,
       evaluation.completed + evaluation.failed + evaluation.cancelled as ended,
       evaluation.completed, evaluation.failed, evaluation.cancelled,
       evaluation.cached_count as cached, evaluation.device_s, evaluation.requested_at,
       evaluation.deadline_at, evaluation.started_at, evaluation.finished_at
from evaluation
left join accounts.participant on participant.account = evaluation.account
where (%(id)s::text is null or evaluation.id = %(id)s)
  and (%(account)s::text is null or evaluation.account = %(account)s)
  and (%(problem)s::text is null or evaluation.problem = %(problem)s)
  and (%(before)s::bigint is null or evaluation.seq < %(before)s)
order by evaluation.seq desc
limit %(limit)s;

-- name: evaluation_parts
-- The items of an evaluation that ended, in the order of their results.
select seq, first, count, outcome, verdicts, results, line, is_cached, harness, code, reason
from evaluation_part
where evaluation = %(id)s
order by seq, first;

-- name: evaluation_uses
-- What evaluations used since an instant, by token and GPU type.
select evaluation.account as participant_id, participant.name as participant, evaluation.token,
       evaluation.gpu, count(*) as evaluations, sum(cardinality(evaluation.sources)) as items,
       sum(evaluation.cached_count) as cached, sum(evaluation.device_s) as device_s
from evaluation
left join accounts.participant on participant.account = evaluation.account
where evaluation.requested_at >= %(since)s
group by evaluation.account, participant.name, evaluation.token, evaluation.gpu
order by sum(evaluation.device_s) desc, evaluation.account, evaluation.token, evaluation.gpu
limit %(limit)s;

-- name: verdicts
-- The known verdicts of some sources under some harness codes, the oldest of each.
select distinct on (source) source, verdict, results, line
from verdict
where source = any(%(sources)s::text[]) and problem_digest = %(problem_digest)s
  and gpu = %(gpu)s and harness = any(%(harnesses)s::text[])
order by source, seq;

-- name: submissions_unread
-- Ranked submissions that no search has read, the oldest first; the signatures of known sources.
select submission.number, submission.account, submission.problem, submission.gpu,
       submission.pooling_source, submission.source as digest, source_text.signature
from submission
left join retrieval.source_text on source_text.digest = submission.source
where submission.mode = 'ranked' and submission.baseline = ''
  and submission.number > (select coalesce(max(number), 0) from retrieval.near_copy)
order by submission.number
limit %(limit)s;

-- name: sources_unlabelled
-- The sources of ranked submissions that this version of the advisory screen has not read, the
-- newest first.
select submission.source as digest, submission.name as file_name
from submission
left join retrieval.source_labels as label
     on label.digest = submission.source and label.file_name = submission.name
where submission.mode = 'ranked' and submission.baseline = ''
  and label.version is distinct from %(version)s
group by submission.source, submission.name
order by max(submission.number) desc
limit %(limit)s;

-- name: source_labels
-- What this version of the advisory screen found in a source.
select findings
from retrieval.source_labels
where digest = %(digest)s and file_name = %(file_name)s and version = %(version)s;

-- name: labelled
-- Ranked submissions with labels of some rules, newest first.
select submission.number, participant.name as participant, submission.account as participant_id,
       submission.problem, submission.problem_number as problem_version, submission.gpu,
       submission.received_at, submission.outcome, submission.code, label.findings
from submission
join retrieval.source_labels as label
     on label.digest = submission.source and label.file_name = submission.name
left join accounts.participant on participant.account = submission.account
where submission.mode = 'ranked' and submission.baseline = '' and label.rules && %(rules)s::text[]
  and (%(problem)s::text is null or submission.problem = %(problem)s)
  and (%(before)s::bigint is null or submission.number < %(before)s)
order by submission.number desc
limit %(limit)s;

-- name: sources_before
-- The newest ranked submissions to a problem before another one, with the signatures of their sources.
select submission.number, submission.account, submission.problem, submission.gpu,
       submission.pooling_source, source_text.signature
from submission
join retrieval.source_text on source_text.digest = submission.source
where submission.problem = %(problem)s and submission.number < %(before)s
  and submission.mode = 'ranked' and submission.baseline = ''
  and cardinality(source_text.signature) > 0
order by submission.number desc
limit %(limit)s;

-- name: problems_unread
-- The newest versions of problems that no search has read.
select problem.manifest as digest, problem.slug, problem.title
from problem
where not exists (
    select 1 from retrieval.problem_text where problem_text.digest = problem.manifest
) and not exists (
    select 1 from problem as newer
    where newer.slug = problem.slug and newer.number > problem.number
)
order by problem.slug
limit %(limit)s;

-- name: problem_texts
-- What the problems that the reader can see are about.
select problem.slug, problem.title, problem_text.terms, problem_text.operations
from problem
join retrieval.problem_text on problem_text.digest = problem.manifest
left join leaderboard on leaderboard.slug = problem.slug
where (%(problem)s::text is null or problem.slug = %(problem)s)
  and (coalesce(leaderboard.visibility, 'public') <> 'closed' or %(is_staff)s
       or problem.slug = any(%(members_of)s::text[]))
  and not exists (
      select 1 from problem as newer
      where newer.slug = problem.slug and newer.number > problem.number
  )
order by problem.slug
limit 2000;

-- name: source_text
-- What a source is about.
select terms, operations, signature
from retrieval.source_text
where digest = %(digest)s
limit 1;

-- name: search_kernels
-- The correct ranked kernels whose source the reader may read, those first that have most in common
-- with a query; the best submission of each source on a leaderboard. `best_us` is the fastest
-- entry's score there, `baseline_us` that of the fastest baseline.
with kernel as (
    select distinct on (submission.problem, submission.gpu, submission.source)
           submission.number, submission.account as participant_id, submission.problem,
           result.problem_number as problem_version, submission.gpu, submission.mode,
           submission.name as file_name, submission.toolchains, submission.source,
           submission.baseline, submission.received_at,
           coalesce(leaderboard.visibility, 'public') as visibility,
           ranks_hidden(submission.problem, %(at)s, %(organiser)s, %(is_staff)s) as are_ranks_hidden,
           sources_hidden(submission.problem, %(at)s, %(organiser)s, %(is_staff)s) as are_sources_hidden,
           leaderboard.deadline_at as board_deadline_at, version.source_visible,
           (version.consent = '' or exists (
               select 1 from consent
               where consent.account = submission.account and consent.problem = submission.problem
                 and consent.digest = version.consent
           )) as is_consented, false as is_withdrawn, result.score_us, result.yardstick_us
    from scored as result
    join submission on submission.id = result.submission
    join problem as version on version.slug = submission.problem
         and version.number = submission.problem_number
    left join leaderboard on leaderboard.slug = submission.problem
    where result.is_eligible and submission.mode = 'ranked' and submission.baseline = ''
      and (%(problem)s::text is null or submission.problem = %(problem)s)
      and (%(problems)s::text[] is null or submission.problem = any(%(problems)s::text[]))
      and (%(gpu)s::text is null or lower(submission.gpu) = lower(%(gpu)s))
      and (%(suffix)s::text is null or right(submission.name, length(%(suffix)s)) = %(suffix)s)
      and (%(toolchain)s::text is null or %(toolchain)s = any(submission.toolchains))
      and (coalesce(leaderboard.visibility, 'public') <> 'closed' or %(is_staff)s
           or submission.problem = any(%(members_of)s::text[]))
      and not sources_hidden(submission.problem, %(at)s, %(organiser)s, %(is_staff)s)
      and (%(is_staff)s or version.source_visible = 'always'
           or (version.source_visible = 'after_close' and leaderboard.deadline_at <= %(at)s)
           or (submission.account = %(reader)s
               and (%(limited_to)s::text[] = '{}'
                    or submission.problem = any(%(limited_to)s::text[]))))
      and not exists (
          select 1 from moderation
          where moderation.submission = submission.id and moderation.excluded_seq is not null
      )
      and not exists (
          select 1 from ban
          where ban.account = submission.account
            and (ban.until_at is null or ban.until_at > %(at)s)
      )
    order by submission.problem, submission.gpu, submission.source, result.problem_number desc,
             result.score_us, submission.number
), matching as (
    select kernel.*, source_text.terms, source_text.operations, source_text.signature,
           ts_rank(source_text.words, to_tsquery('simple', %(words)s), 32) + (
               select count(*) from unnest(source_text.bands) as band
               where band = any(%(bands)s::bigint[])
           ) + case when kernel.problem = any(%(nearest)s::text[]) then 0.5 else 0 end as closeness
    from kernel
    join retrieval.source_text on source_text.digest = kernel.source
)
select matching.*, participant.name as participant, fastest.score_us as best_us,
       baseline.name as baseline_name, baseline.score_us as baseline_us
from matching
left join accounts.participant on participant.account = matching.participant_id
left join lateral (
    select min(entry.score_us) as score_us
    from entry
    where entry.problem = matching.problem and entry.gpu = matching.gpu
      and entry.problem_number = matching.problem_version and not entry.is_hidden
) as fastest on true
left join lateral (
    select submission.baseline as name, result.score_us
    from submission
    join result on result.submission = submission.id
         and result.problem_number = submission.problem_number
    where submission.problem = matching.problem and submission.gpu = matching.gpu
      and submission.problem_number = matching.problem_version and submission.baseline <> ''
      and result.score_us is not null
    order by result.score_us
    limit 1
) as baseline on true
order by matching.closeness desc,
         matching.yardstick_us / nullif(matching.score_us, 0) desc nulls last, matching.number
limit %(limit)s;

-- name: lineage
-- A submission with its ancestors, its descendants, and other parents of these, within some
-- generations and not more than a number of descendants. Each has the parent that was declared, 0
-- if none was, and the one that it is nearly a copy of.
with recursive ancestor (number, generation) as (
    select number, 0 from submission where number = %(number)s
    union
    select link.parent, ancestor.generation + 1
    from ancestor
    join lateral (
        select parent from submission where number = ancestor.number and parent > 0
        union all
        select parent from retrieval.near_copy
        where number = ancestor.number and parent is not null
    ) as link on true
    where ancestor.generation < %(ancestors)s
), endless_descendant (number, generation) as (
    select number, 0 from submission where number = %(number)s
    union
    select link.number, endless_descendant.generation + 1
    from endless_descendant
    join lateral (
        (select number from submission where parent = endless_descendant.number and parent > 0
           and (mode = 'ranked' or account = %(reader)s or %(is_staff)s)
         order by number limit %(children)s)
        union all
        (select number from retrieval.near_copy where parent = endless_descendant.number
         order by number limit %(children)s)
    ) as link on true
    where endless_descendant.generation < %(descendants)s
), descendant as (
    select number from endless_descendant limit %(limit)s
), shown as (
    select number from ancestor
    union
    select number from descendant
    union
    select submission.parent from descendant join submission using (number)
    union
    select near_copy.parent from descendant join retrieval.near_copy using (number)
)
select submission.number, submission.account as participant_id,
       participant.name as participant, submission.problem,
       submission.problem_number as problem_version, submission.gpu, submission.mode,
       submission.received_at, submission.baseline,
       coalesce(leaderboard.visibility, 'public') as visibility,
       ranks_hidden(submission.problem, %(at)s, %(organiser)s, %(is_staff)s) as are_ranks_hidden,
       sources_hidden(submission.problem, %(at)s, %(organiser)s, %(is_staff)s) as are_sources_hidden,
       leaderboard.deadline_at as board_deadline_at,
       coalesce(version.source_visible, 'owner') as source_visible,
       coalesce(version.consent = '' or exists (
           select 1 from consent
           where consent.account = submission.account and consent.problem = submission.problem
             and consent.digest = version.consent
       ), false) as is_consented,
       coalesce(moderation.is_withdrawn, false) as is_withdrawn,
       result.problem_number as result_version, result.score_us, result.low_us, result.high_us,
       result.error, coalesce(result.freedom, 0) as freedom, coalesce(result.delta, 0) as delta,
       coalesce(result.pooled_over, '{}') as pooled_over,
       submission.parent, near_copy.parent as copy_of, near_copy.similarity
from shown
join submission using (number)
left join retrieval.near_copy using (number)
left join accounts.participant on participant.account = submission.account
left join leaderboard on leaderboard.slug = submission.problem
left join problem as version on version.slug = submission.problem
     and version.number = submission.problem_number
left join moderation on moderation.submission = submission.id
left join lateral (
    select problem_number, score_us, low_us, high_us, pooled_over, error, freedom, delta
    from scored
    where scored.submission = submission.id
    order by scored.problem_number desc
    limit 1
) as result on true
order by submission.number
limit 2000;

-- name: contests
-- The newest definition of all contests, or of one.
select slug, number, seq, definition
from contest
where %(contest)s::text is null or slug = %(contest)s
order by slug
limit 1000;

-- name: contest_people
-- Who ever registered for a contest.
select account, division, team, declaration, question, is_registered, is_disqualified
from contest_person
where contest = %(contest)s
order by account
limit 100000;

-- name: contest_teams
-- The teams of a contest.
select team, name, captain, division, declaration, question, is_disqualified
from contest_team
where contest = %(contest)s
order by team
limit 100000;

-- name: contest_results
-- What was announced of a contest.
select stage, seq, as_of_seq, places, at, appeals_until_at
from contest_result
where contest = %(contest)s
order by stage
limit 3;

-- name: contest_boards
-- The newest version of these problems, with the GPU types that accept submissions.
select problem.slug, problem.number, coalesce(leaderboard.gpus, problem.gpus) as gpus,
       coalesce(leaderboard.visibility, 'public') as visibility
from problem
left join leaderboard on leaderboard.slug = problem.slug
where problem.slug = any(%(problems)s::text[])
  and not exists (
      select 1 from problem as newer
      where newer.slug = problem.slug and newer.number > problem.number
  )
order by problem.slug
limit 1000;

-- name: contest_runs
-- The results that count on a problem of a contest, in the order of their decisions, of
-- submissions that were received within an interval; without a contest, those of everybody.
select result.submission, result.account, submission.contestant, result.number, result.source,
       result.received_at, result.run, result.score_us, result.process_us, result.error,
       result.freedom, result.sigma_run, result.delta, result.grade, result.yardstick_us
from result
join submission on submission.id = result.submission
where result.problem = %(problem)s and result.gpu = %(gpu)s
  and result.problem_number = %(number)s and result.is_eligible
  and result.score_us is not null
  and result.received_at >= %(from_at)s
  and (%(until_at)s::timestamptz is null or result.received_at < %(until_at)s)
  and (%(contest)s::text is null
       or submission.contest = %(contest)s and submission.contestant <> '')
  and not exists (
      select 1 from moderation
      where moderation.submission = result.submission and moderation.excluded_seq is not null
  )
  and not exists (
      select 1 from ban
      where ban.account = result.account and (ban.until_at is null or ban.until_at > %(at)s)
  )
order by result.seq, result.submission
limit 200000;

-- name: practice_runs
-- The results of a leaderboard's practice, in the order of their decisions: passed submissions that
-- were received after its deadline.
select result.submission, result.account, result.number, result.source, result.received_at,
       result.run, result.score_us, result.process_us, result.error, result.freedom,
       result.sigma_run, result.delta, result.grade, result.yardstick_us
from result
where result.problem = %(problem)s and result.gpu = %(gpu)s
  and result.problem_number = %(number)s and result.code = 'practice'
  and result.score_us is not null
  and not exists (
      select 1 from moderation
      where moderation.submission = result.submission and moderation.excluded_seq is not null
  )
  and not exists (
      select 1 from ban
      where ban.account = result.account and (ban.until_at is null or ban.until_at > %(at)s)
  )
order by result.seq, result.submission
limit 200000;

-- name: contest_wins
-- The duels that were won on a leaderboard.
select winner, loser, ratio, low, high
from duel_win
where problem = %(problem)s and gpu = %(gpu)s and problem_number = %(number)s
order by winner, loser
limit 10000;

-- name: contest_submissions
-- How many ranked submissions each contestant sent to a problem within an interval.
select contestant, count(*)::int as submissions_count
from submission
where contest = %(contest)s and problem = %(problem)s and mode = 'ranked' and contestant <> ''
  and received_at >= %(from_at)s
  and (%(until_at)s::timestamptz is null or received_at < %(until_at)s)
group by contestant
order by contestant
limit 100000;

-- name: participant_names
-- The current names of accounts.
select account, name from accounts.participant where account = any(%(accounts)s::text[]);

-- name: boards_hidden
-- Which problems have ranks that are hidden from everybody at an instant.
select distinct contest_embargo.problem
from contest_embargo
join leaderboard on leaderboard.slug = contest_embargo.problem
     and leaderboard.contest = contest_embargo.contest
where from_at <= %(at)s and (until_at is null or until_at > %(at)s) and hides_ranks
order by contest_embargo.problem
limit 10000;

-- name: embargo
-- What the contest of a problem hides from the reader.
select ranks_hidden(%(problem)s, %(at)s, %(organiser)s, %(is_staff)s) as are_ranks_hidden,
       sources_hidden(%(problem)s, %(at)s, %(organiser)s, %(is_staff)s) as are_sources_hidden;

-- name: boards_with_entries
-- The leaderboards that have entries at an instant, under each version: also those of participants
-- whose ban has ended by the clock alone.
select problem, gpu, problem_number from tie_block
union
select entry.problem, entry.gpu, entry.problem_number
from ban
join entry on entry.account = ban.account and entry.is_hidden
where ban.until_at <= %(at)s and not ban.is_over
order by problem, gpu, problem_number
limit 20000;

-- name: closed_leaderboards
-- The problems whose leaderboards not everybody may see.
select slug from leaderboard
where visibility = 'closed'
order by slug
limit 20000;

-- name: contest_reviews
-- The decisions on the check lists of a contest.
select contestant, item, is_passed, note, actor, at
from contest_review
where contest = %(contest)s
order by contestant, item
limit 1000;

-- name: entries_to_review
-- The entries of winners with the runs behind them, equal sources of others, and sources of others
-- that nearly are. What somebody sent for another contestant, such as a team that they left, counts.
select submission.problem, submission.number, submission.id as submission, submission.account,
       submission.gpu, submission.name, submission.source, submission.source_bytes,
       submission.source_media, problem.digest, problem.number as problem_number, result.run,
       run.agent, result.score_us, result.yardstick_us, array(
           select other.number from submission as other
           where other.problem = submission.problem
             and (other.account <> submission.account
                  or other.contest = submission.contest and other.contestant <> '')
             and other.pooling_source = submission.pooling_source and other.pooling_source <> ''
             and other.contestant <> submission.contestant
           order by other.number
           limit 50
       ) as copies, coalesce((
           select json_agg(json_build_object(
               'number', other.number, 'similarity', near.similarity
           ) order by near.similarity desc, other.number)
           from (
               select parent as number, similarity
               from retrieval.near_copy
               where near_copy.number = submission.number and parent is not null
               union
               select number, similarity
               from retrieval.near_copy
               where parent = submission.number
               order by similarity desc
               limit 50
           ) as near
           join submission as other on other.number = near.number
           where (other.account <> submission.account
                  or other.contest = submission.contest and other.contestant <> '')
             and (other.contestant = '' or other.contestant <> submission.contestant)
             and (other.pooling_source = '' or other.pooling_source <> submission.pooling_source)
       ), '[]') as near_copies
from submission
join problem on problem.slug = submission.problem and not exists (
    select 1 from problem as newer
    where newer.slug = problem.slug and newer.number > problem.number
)
left join result on result.submission = submission.id and result.problem_number = problem.number
left join run on run.id = result.run
where submission.number = any(%(numbers)s::bigint[])
order by submission.number
limit 10000;

-- name: contest_confirmations
-- The repetitions of runs of a contest's winners, in the order of their requests.
select id, run, agent, judged_seq, code, reason, shown, is_fresh
from confirmation
where contest = %(contest)s and contest <> ''
order by seq
limit 10000;

-- name: ranking_agents
-- The enrolled agents that take ranked runs, with their GPU types.
select agent.id, agent.gpu
from agent
join agent_standing on agent_standing.id = agent.id
where agent.quarantine = '' and 'ranked' = any(agent.modes)
  and agent_standing.enrolled_at is not null
order by agent.id
limit 10000;

-- name: contest_submissions_open
-- A ranked submission of a contestant that was received before an instant and is not judged yet.
select id from submission
where contest = %(contest)s and contestant <> '' and mode = 'ranked' and state <> 'finished'
  and received_at < %(until_at)s
limit 1;
