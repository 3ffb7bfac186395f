-- name: plan_once
-- Plan statements once: by their keys, whatever the size of a batch or of a fresh table.
set plan_cache_mode = force_generic_plan;

-- name: commit_lazily
-- What Postgres loses in a crash is folded again, because the checkpoint is lost with it.
set synchronous_commit = off;

-- name: analyze
-- Collect the statistics of tables that have grown: without them Postgres takes any index.
analyze result, entry, tie_group;

-- name: claim
-- Move the checkpoint from where the caller believes it is, or not at all; after a switch by a
-- replay it is in another table. The log's own time never goes back.
update checkpoint
set seq = %(last)s, folded_at = greatest(folded_at, %(at)s::timestamptz)
where name = %(name)s and seq = %(after)s
returning tableoid::bigint, exists (
    select 1 from ban where ban.until_at <= checkpoint.folded_at and not ban.is_over
) as is_ban_over;

-- name: touch
-- Write without a change: fails on a server that accepts no writes.
update checkpoint set seq = seq where name = %(name)s;

-- name: load_submissions
-- The submissions of a batch: named directly, by their jobs, or by their runs.
select to_json(found)::text
from submission as found
where found.id in (
    select unnest(%(submissions)s::text[])
    union
    select id from submission where job = any(%(jobs)s::text[])
    union
    select submission from run where id = any(%(runs)s::text[])
    union
    select submission from rejudge_item where rejudge = any(%(ended)s::text[])
);

-- name: load_runs
-- The runs of a batch.
select to_json(found)::text from run as found where found.id = any(%(runs)s::text[]);

-- name: load_items
-- The rejudge items of a batch, by their rejudge, their job or their run's job.
select to_json(found)::text
from rejudge_item as found
where found.rejudge = any(%(rejudges)s::text[])
union all
select to_json(found)::text
from rejudge_item as found
where not found.rejudge = any(%(rejudges)s::text[])
  and found.job in (
    select unnest(%(jobs)s::text[])
    union
    select job from run where id = any(%(runs)s::text[])
);

-- name: keep_submissions
-- Insert new submissions and update the changed columns of others.
insert into submission (id, number, version, account, sender, problem, problem_number, gpu, mode, name,
                        toolchains, source, pooling_source, source_bytes, source_media, received_at, deadline_at, state,
                        state_at, lease_until_at, job, run, agent, attempt, outcome, verdict, code,
                        reason, is_eligible, is_held, finished_at, timeline, baseline,
                        cases_passed, parent, contest, contestant, is_practice)
select id, number, version, coalesce(merged.into_account, sent.account),
       case when merged.account is null then '' else sent.account end, problem, problem_number,
       gpu, mode, name, toolchains, source, pooling_source, source_bytes, source_media, received_at, deadline_at, state, state_at, lease_until_at, job,
       run, agent, attempt, outcome, verdict, code, reason, is_eligible, is_held, finished_at,
       timeline, baseline, cases_passed, parent, contest, contestant, is_practice
from json_populate_recordset(null::submission, %(rows)s::json) as sent
left join account_merge as merged on merged.account = sent.account and merged.undone_seq is null
on conflict (id) do update
set version = excluded.version, state = excluded.state, state_at = excluded.state_at,
    lease_until_at = excluded.lease_until_at, job = excluded.job, run = excluded.run,
    agent = excluded.agent, attempt = excluded.attempt, outcome = excluded.outcome,
    verdict = excluded.verdict, code = excluded.code, reason = excluded.reason,
    is_eligible = excluded.is_eligible, is_held = excluded.is_held,
    finished_at = excluded.finished_at, timeline = excluded.timeline,
    cases_passed = excluded.cases_passed;

-- name: keep_runs
-- Insert or update runs.
insert into run (id, submission, job, agent, attempt, token, assigned_at, started_at, ended_at,
                 ended_seq, level, tier, missing, fingerprint, stage, verdict, reason, took_s,
                 cases, environment, log_head, log_tail, files, usage, sigma_run, tie_us,
                 key_commit, key, composition, stopped, metrics, over_limit)
select id, submission, job, agent, attempt, token, assigned_at, started_at, ended_at, ended_seq,
       level, tier, missing, fingerprint, stage, verdict, reason, took_s, cases, environment,
       log_head, log_tail, files, usage, sigma_run, tie_us, key_commit, key, composition, stopped,
       metrics, over_limit
from json_populate_recordset(null::run, %(rows)s::json)
on conflict (id) do update
set started_at = excluded.started_at, ended_at = excluded.ended_at,
    ended_seq = excluded.ended_seq, level = excluded.level, tier = excluded.tier,
    missing = excluded.missing, fingerprint = excluded.fingerprint, stage = excluded.stage,
    verdict = excluded.verdict, reason = excluded.reason, took_s = excluded.took_s,
    cases = excluded.cases, environment = excluded.environment, log_head = excluded.log_head,
    log_tail = excluded.log_tail, files = excluded.files, usage = excluded.usage,
    sigma_run = excluded.sigma_run, tie_us = excluded.tie_us, key_commit = excluded.key_commit,
    key = excluded.key, composition = excluded.composition, stopped = excluded.stopped,
    metrics = excluded.metrics, over_limit = excluded.over_limit;

-- name: keep_items
-- Insert or update rejudge items.
insert into rejudge_item (rejudge, submission, to_number, is_retime, account, gpu, state, state_at,
                          lease_until_at, job, run, agent, attempt, reason, result)
select rejudge, item.submission, to_number, is_retime, coalesce(submission.account, item.account),
       item.gpu, item.state, item.state_at, item.lease_until_at, item.job, item.run, item.agent,
       item.attempt, item.reason, result
from json_populate_recordset(null::rejudge_item, %(rows)s::json) as item
left join submission on submission.id = item.submission
on conflict (rejudge, submission) do update
set state = excluded.state, state_at = excluded.state_at,
    lease_until_at = excluded.lease_until_at, job = excluded.job, run = excluded.run,
    agent = excluded.agent, attempt = excluded.attempt, reason = excluded.reason,
    result = excluded.result;

-- name: keep_results
-- Insert new results; under one problem version a newer one replaces the older and is pooled again.
insert into result (submission, problem_number, problem, gpu, account, number, source, seq,
                    rejudge, run, verdict, is_eligible, code, reason, score_us, placed_us, low_us,
                    high_us, process_us, error, freedom, sigma_run, delta, grade, is_provisional,
                    received_at, at, yardstick_us)
select one.submission, one.problem_number, one.problem, one.gpu, submission.account, one.number,
       one.source, seq, rejudge, one.run, one.verdict, one.is_eligible, one.code, one.reason,
       score_us, placed_us, low_us, high_us, process_us, error, freedom, sigma_run, delta, grade,
       is_provisional, one.received_at, at, yardstick_us
from json_populate_recordset(null::result, %(rows)s::json) as one
join submission on submission.id = one.submission
on conflict (submission, problem_number) do update
set seq = excluded.seq, rejudge = excluded.rejudge, run = excluded.run,
    verdict = excluded.verdict, is_eligible = excluded.is_eligible, code = excluded.code,
    reason = excluded.reason, score_us = excluded.score_us, placed_us = excluded.placed_us,
    low_us = excluded.low_us, high_us = excluded.high_us, process_us = excluded.process_us, error = excluded.error,
    freedom = excluded.freedom, sigma_run = excluded.sigma_run, delta = excluded.delta,
    grade = excluded.grade, is_provisional = excluded.is_provisional, at = excluded.at,
    yardstick_us = excluded.yardstick_us,
    pooled_us = null, pooled_placed_us = null, pooled_error = null, pooled_freedom = null,
    pooled_delta = null, pooled_over = null;

-- name: unpool
-- Remove results that are kept off their leaderboards or are no longer eligible.
update result
set pooled_us = null, pooled_placed_us = null, pooled_error = null, pooled_freedom = null,
    pooled_delta = null, pooled_over = null
where submission = any(%(touched)s::text[]) and pooled_us is not null
  and (not is_eligible or exists (
      select 1 from moderation
      where moderation.submission = result.submission and moderation.excluded_seq is not null
  ));

-- name: pool
-- Pool the processes of a participant's runs of equal sources into one score, in the order of their
-- ends; runs past 300 processes are not added, and a single run keeps its own score. Of noisy runs
-- only the first counts, and none once there is a run that is not noisy.
with source as (
    select distinct account, problem, gpu, problem_number, source
    from result
    where submission = any(%(touched)s::text[])
), counted as (
    select one.submission, one.number, one.seq, one.account, one.problem, one.gpu,
           one.problem_number, one.source, one.score_us, one.placed_us, one.error, one.freedom,
           one.sigma_run, one.delta, one.is_noisy, one.has_quiet,
           case when cardinality(one.process_us) = 0 then array[one.score_us]
                else one.process_us end as process_us,
           greatest(one.freedom - cardinality(one.process_us) + 1, 0) as history
    from source
    cross join lateral (
        select found.submission, found.number, found.seq, found.account, found.problem, found.gpu,
               found.problem_number, found.source, found.score_us, found.placed_us, found.error,
               found.freedom, found.sigma_run, found.delta, found.process_us, found.grade = 'noisy' as is_noisy,
               bool_or(found.grade <> 'noisy') over () as has_quiet
        from result as found
        where found.is_eligible and found.source = source.source
          and found.account = source.account and found.problem = source.problem
          and found.gpu = source.gpu and found.problem_number = source.problem_number
          and not exists (
              select 1 from moderation
              where moderation.submission = found.submission
                and moderation.excluded_seq is not null
          )
        order by found.grade = 'noisy', found.seq, found.submission
        limit 300
    ) as one
), placed as (
    select submission, number, account, problem, gpu, problem_number, source, score_us, placed_us,
           error, freedom, sigma_run, delta, process_us, history, is_noisy,
           row_number() over this as place,
           coalesce(sum(cardinality(process_us)) over (this rows between unbounded preceding
                                                      and 1 preceding), 0) as before
    from counted
    where not (is_noisy and has_quiet)
    window this as (
        partition by account, problem, gpu, problem_number, source order by seq, submission
    )
), pool as (
    select account, problem, gpu, problem_number, source,
           array_agg(number order by number) filter (where at = 1) as pooled_over,
           count(process) as processes,
           exp(avg(ln(process) order by place, at)) as middle_us,
           stddev_samp(ln(process) order by place, at) as spread,
           max(sigma_run) as sigma_run, max(delta) as delta, max(history) as history,
           bool_or(is_noisy) as is_noisy,
           min(score_us) filter (where place = 1) as own_us,
           min(placed_us) filter (where place = 1) as own_placed_us,
           min(error) filter (where place = 1) as own_error,
           min(freedom) filter (where place = 1) as own_freedom
    from placed
    cross join lateral unnest(process_us) with ordinality as one(process, at)
    where before < 300 and (place = 1 or not is_noisy)
    group by account, problem, gpu, problem_number, source
), fresh as (
    select account, problem, gpu, problem_number, source, is_noisy, pooled_over, delta,
           case when cardinality(pooled_over) = 1 then own_us else middle_us end as score_us,
           case when cardinality(pooled_over) = 1 then own_placed_us
                else middle_us end as placed_us,
           case when cardinality(pooled_over) = 1 then own_error
                else greatest(spread, sigma_run) / sqrt(processes) end as error,
           case when cardinality(pooled_over) = 1 then own_freedom
                else history + processes - 1 end as freedom
    from pool
), given as (
    select account, problem, gpu, problem_number, source, is_noisy, score_us, placed_us, error,
           freedom, delta, pooled_over
    from fresh
    union all
    select account, problem, gpu, problem_number, source, true, null, null, null, null, null, null
    from fresh
    where not is_noisy
)
update result
set pooled_us = given.score_us, pooled_placed_us = given.placed_us, pooled_error = given.error,
    pooled_freedom = given.freedom, pooled_delta = given.delta, pooled_over = given.pooled_over
from given
where (result.grade = 'noisy') = given.is_noisy
  and result.account = given.account and result.source = given.source
  and result.problem = given.problem and result.gpu = given.gpu
  and result.problem_number = given.problem_number and result.is_eligible
  and not exists (
      select 1 from moderation
      where moderation.submission = result.submission and moderation.excluded_seq is not null
  )
  and (result.pooled_us, result.pooled_placed_us, result.pooled_error, result.pooled_freedom,
       result.pooled_delta, result.pooled_over)
      is distinct from
      (given.score_us, given.placed_us, given.error, given.freedom, given.delta, given.pooled_over);

-- name: choose_entries
-- Choose the best entry of each affected participant, if any: that of their sources which is placed
-- best, on a tie the first. Returns each changed entry before and after, and the leaderboards with a decision.
with place as (
    select distinct problem, gpu, problem_number, account
    from result
    where submission = any(%(touched)s::text[])
    union
    select problem, gpu, problem_number, account
    from entry
    where account = any(%(merged)s::text[])
), best as (
    select place.problem, place.gpu, place.problem_number, place.account, one.submission,
           one.number, one.source, one.pooled_over, one.pooled_us, one.pooled_placed_us,
           one.pooled_error, one.pooled_freedom, one.pooled_delta, one.received_at
    from place
    left join lateral (
        select submission, number, source, pooled_over, pooled_us, pooled_placed_us, pooled_error,
               pooled_freedom, pooled_delta, received_at
        from result
        where result.account = place.account and result.problem = place.problem
          and result.gpu = place.gpu and result.problem_number = place.problem_number
          and result.pooled_us is not null
        order by result.pooled_placed_us, result.number
        limit 1
    ) as one on true
), changed as (
    select best.problem, best.gpu, best.problem_number, best.account, best.submission, best.number,
           best.source, best.pooled_over, best.pooled_us, best.pooled_placed_us, best.pooled_error,
           best.pooled_freedom, best.pooled_delta, best.received_at,
           entry.submission as old_submission, entry.number as old_number,
           entry.source as old_source, entry.pooled_over as old_pooled_over,
           entry.score_us as old_score_us, entry.placed_us as old_placed_us, entry.order_us as old_order_us,
           entry.order_number as old_order_number,
           entry.error as old_error, entry.freedom as old_freedom, entry.delta as old_delta,
           coalesce(entry.is_hidden, exists (
               select 1 from ban
               join checkpoint on checkpoint.name = 'ranker'
               where ban.account = best.account
                 and (ban.until_at is null or ban.until_at > checkpoint.folded_at)
           )) as is_hidden
    from best
    left join entry on entry.problem = best.problem and entry.gpu = best.gpu
         and entry.problem_number = best.problem_number and entry.account = best.account
    where (entry.submission, entry.pooled_over, entry.score_us, entry.placed_us, entry.error,
           entry.freedom, entry.delta)
          is distinct from (best.submission, best.pooled_over, best.pooled_us,
                            best.pooled_placed_us, best.pooled_error, best.pooled_freedom,
                            best.pooled_delta)
), gone as (
    delete from entry
    using changed
    where changed.submission is null and entry.problem = changed.problem
      and entry.gpu = changed.gpu and entry.problem_number = changed.problem_number
      and entry.account = changed.account
), chosen as (
    insert into entry (problem, problem_number, gpu, account, submission, number, source,
                       pooled_over, score_us, placed_us, error, freedom, delta, received_at,
                       is_hidden, order_us, order_number)
    select problem, problem_number, gpu, account, submission, number, source, pooled_over,
           pooled_us, pooled_placed_us, pooled_error, pooled_freedom, pooled_delta, received_at,
           is_hidden, pooled_placed_us, number
    from changed
    where submission is not null
    on conflict (problem, gpu, problem_number, account) do update
    set submission = excluded.submission, number = excluded.number, source = excluded.source,
        pooled_over = excluded.pooled_over, score_us = excluded.score_us,
        placed_us = excluded.placed_us, error = excluded.error,
        freedom = excluded.freedom, delta = excluded.delta, received_at = excluded.received_at,
        order_us = excluded.order_us, order_number = excluded.order_number
), remembered as (
    insert into entry_before (problem, gpu, problem_number, account, until_seq, at, submission,
                              number, source, pooled_over, score_us, placed_us, error, freedom,
                              delta, is_hidden)
    select problem, gpu, problem_number, account, %(seq)s, %(at)s, old_submission, old_number,
           old_source, old_pooled_over, old_score_us, old_placed_us, old_error, old_freedom, old_delta, is_hidden
    from changed
    where %(is_recent)s
)
select changed.problem, changed.gpu, changed.problem_number, changed.account, changed.is_hidden,
       changed.number, changed.pooled_us as score_us, changed.pooled_placed_us as placed_us,
       changed.pooled_error as error, changed.pooled_freedom as freedom,
       changed.pooled_delta as delta, changed.source, changed.old_number, changed.old_order_us,
       changed.old_order_number, changed.old_source,
       exists (
           select 1 from entry as copy
           where copy.source in (changed.source, changed.old_source)
             and copy.problem = changed.problem and copy.gpu = changed.gpu
             and copy.problem_number = changed.problem_number and not copy.is_hidden
             and copy.account <> changed.account
           union all
           select 1 from duel_win
           where duel_win.problem = changed.problem and duel_win.gpu = changed.gpu
             and duel_win.problem_number = changed.problem_number
             and (duel_win.winner in (changed.source, changed.old_source)
                  or duel_win.loser in (changed.source, changed.old_source))
       ) as is_linked
from changed
union all
select distinct result.problem, result.gpu, result.problem_number, null, false, null::bigint,
       null::float8, null::float8, null::float8, null::int, null::float8, null, null::bigint,
       null::float8, null::bigint, null, false
from result
join moderation on moderation.submission = result.submission
where result.submission = any(%(touched)s::text[]);

-- name: results_of_accounts
-- The submissions with results of some accounts.
select distinct submission from result where account = any(%(accounts)s::text[]);

-- name: account_merged
-- An account becomes part of another one.
insert into account_merge (seq, account, into_account) values (%(seq)s, %(id)s, %(into)s);

-- name: submissions_merged
-- Its submissions are now the other's.
update submission set account = %(into)s, sender = %(id)s where account = %(id)s;

-- name: results_merged
-- So are their results.
update result set account = %(into)s where account = %(id)s;

-- name: items_merged
-- So are their places in rejudges.
update rejudge_item as item
set account = %(into)s
from submission
where submission.id = item.submission and submission.sender = %(id)s;

-- name: evaluations_merged
-- So are its evaluations.
update evaluation set account = %(into)s, sender = %(id)s where account = %(id)s;

-- name: records_merged
-- So are its records.
update record set account = %(into)s, sender = %(id)s where account = %(id)s;

-- name: milestones_merged
-- So are its milestones.
update milestone set into_account = %(into)s where account = %(id)s;

-- name: results_separated
-- The results of what an account sent are its own again.
update result
set account = %(id)s
from submission
where submission.id = result.submission and submission.sender = %(id)s;

-- name: items_separated
-- So are its places in rejudges.
update rejudge_item as item
set account = %(id)s
from submission
where submission.id = item.submission and submission.sender = %(id)s;

-- name: submissions_separated
-- So are its submissions.
update submission set account = sender, sender = '' where sender = %(id)s;

-- name: evaluations_separated
-- So are its evaluations.
update evaluation set account = sender, sender = '' where sender = %(id)s;

-- name: records_separated
-- So are its records.
update record set account = sender, sender = '' where sender = %(id)s;

-- name: milestones_separated
-- So are its milestones.
update milestone set into_account = '' where account = %(id)s;

-- name: account_separated
-- The account is part of no other one.
update account_merge set undone_seq = %(seq)s where account = %(id)s and undone_seq is null;

-- name: boards_of_accounts
-- The leaderboards with entries of some accounts.
select distinct problem, gpu, problem_number
from result
where account = any(%(accounts)s::text[]) and pooled_us is not null;

-- name: problem_published
-- One row per version.
insert into problem (slug, number, digest, title, manifest, gpus, cases_count, ranking_by,
                     budgets_s, source_bytes_max, source_files_max, languages, roofs, baselines, milestones,
                     source_visible, publish, consent, report, unchecked, tested_gpus,
                     published_at)
values (%(slug)s, %(number)s, %(digest)s, %(title)s, %(manifest)s, %(gpus)s, %(cases_count)s,
        %(ranking_by)s, %(budgets_s)s, %(source_bytes_max)s, %(source_files_max)s,
        %(languages)s, %(roofs)s,
        %(baselines)s, %(milestones)s, %(source_visible)s, %(publish)s, %(consent)s, %(report)s,
        %(unchecked)s, %(tested_gpus)s, %(at)s);

-- name: consent_given
-- A participant accepts a text of a problem.
insert into consent (account, problem, digest) values (%(id)s, %(problem)s, %(digest)s)
on conflict do nothing;

-- name: consent_withdrawn
-- A participant no longer accepts any text of a problem.
delete from consent where account = %(id)s and problem = %(problem)s;

-- name: agent_registered
-- An agent's current capabilities.
insert into agent (id, gpu, count, fingerprint, level, harness, details, tier, missing,
                   toolchains, modes, quarantine, registered_at)
values (%(id)s, %(gpu)s, %(count)s, %(fingerprint)s, %(level)s, %(harness)s, %(details)s,
        %(tier)s, %(missing)s, %(toolchains)s, %(modes)s, %(quarantine)s, %(at)s)
on conflict (id) do update
set gpu = excluded.gpu, count = excluded.count, fingerprint = excluded.fingerprint,
    level = excluded.level, harness = excluded.harness, details = excluded.details,
    tier = excluded.tier, missing = excluded.missing, toolchains = excluded.toolchains,
    modes = excluded.modes, quarantine = excluded.quarantine,
    registered_at = excluded.registered_at;

-- name: harness_seen
-- An agent registers with a harness code; later agents with the same code change nothing.
insert into harness (digest, version, seq, seen_at)
values (%(digest)s, %(version)s, %(seq)s, %(at)s)
on conflict (digest) do nothing;

-- name: agent_harness_changed
-- The harness code of an agent from now on, '' if there is none.
insert into agent_harness (agent, seq, digest) values (%(id)s, %(seq)s, %(digest)s);

-- name: agent_key_changed
-- The signing key of an agent from now on.
insert into agent_key (agent, seq, sign_key) values (%(id)s, %(seq)s, %(sign_key)s);

-- name: agent_enrolled
-- An agent gets an owner.
insert into agent_standing (id, owner, enrolled_at) values (%(id)s, %(owner)s, %(at)s)
on conflict (id) do update
set owner = excluded.owner, enrolled_at = excluded.enrolled_at, revoked = null;

-- name: agent_revoked
-- An agent may no longer work.
insert into agent_standing (id, revoked) values (%(id)s, %(reason)s)
on conflict (id) do update set revoked = excluded.revoked;

-- name: agent_cordoned
-- An agent takes only canaries.
insert into agent_standing (id, cordoned) values (%(id)s, %(reason)s)
on conflict (id) do update set cordoned = excluded.cordoned;

-- name: agent_drained
-- An agent takes no further jobs.
insert into agent_standing (id, drained) values (%(id)s, %(reason)s)
on conflict (id) do update set drained = excluded.drained;

-- name: agent_quarantined
-- An agent takes nothing until it is released.
insert into agent_standing (id, quarantined) values (%(id)s, %(reason)s)
on conflict (id) do update set quarantined = excluded.quarantined;

-- name: agent_released
-- Cordon, drain and quarantine end.
update agent_standing set cordoned = null, drained = null, quarantined = null where id = %(id)s;

-- name: canary_judged
-- A canary ran on an agent.
insert into canary (agent, seq, at, ratio, is_good)
values (%(id)s, %(seq)s, %(at)s, %(ratio)s, %(is_good)s);

-- name: pool_paused
-- No jobs of a GPU type are assigned.
insert into pool (gpu, paused, paused_at) values (%(id)s, %(reason)s, %(at)s)
on conflict (gpu) do update set paused = excluded.paused, paused_at = excluded.paused_at;

-- name: pool_resumed
-- Jobs of a GPU type are assigned again.
update pool set paused = null, paused_at = null where gpu = %(id)s;

-- name: account_banned
-- A participant is on no leaderboard during a ban; a later ban replaces an earlier one.
insert into ban (account, seq, reason, banned_at, until_at)
values (%(id)s, %(seq)s, %(reason)s, %(at)s, %(until_at)s)
on conflict (account) do update
set seq = excluded.seq, reason = excluded.reason, banned_at = excluded.banned_at,
    until_at = excluded.until_at, is_over = false;

-- name: account_unbanned
-- A ban ends early.
delete from ban where account = %(id)s;

-- name: submission_held
-- Keep a submission off its leaderboards until a review.
insert into moderation (submission, seq, is_held, excluded_seq, rule, reason, evidence, actor,
                        decided_at)
values (%(id)s, %(seq)s, true, %(seq)s, %(rule)s, %(reason)s, %(evidence)s, %(actor)s, %(at)s)
on conflict (submission) do update
set seq = excluded.seq, is_held = true,
    excluded_seq = coalesce(moderation.excluded_seq, excluded.seq), rule = excluded.rule,
    reason = excluded.reason, evidence = excluded.evidence, actor = excluded.actor,
    decided_at = excluded.decided_at;

-- name: submission_released
-- A submission may be ranked if nothing else keeps it off.
insert into moderation (submission, seq, reason, actor, decided_at)
values (%(id)s, %(seq)s, %(reason)s, %(actor)s, %(at)s)
on conflict (submission) do update
set seq = excluded.seq, is_held = false,
    excluded_seq = case when moderation.is_disqualified or moderation.is_withdrawn
                        then moderation.excluded_seq end,
    reason = case when moderation.is_disqualified then moderation.reason
                  else excluded.reason end,
    actor = excluded.actor, decided_at = excluded.decided_at;

-- name: hold_lifted
-- A run that was held with its score was reviewed: it counts from now on.
with counting as (
    update result
    set is_eligible = true, code = 'ranked', reason = %(reason)s, seq = %(seq)s, at = %(at)s
    where submission = %(id)s and code = any(%(codes)s) and not is_eligible and score_us is not null
      and seq < %(seq)s
    returning submission, rejudge
)
update submission
set is_eligible = true, code = 'ranked', reason = %(reason)s
from counting
where submission.id = counting.submission and counting.rejudge = '';

-- name: yardstick_fixed
-- The unit of all scores on a leaderboard; the first one stays.
insert into yardstick (problem, gpu, problem_number, seq, times_us, runs, at)
values (%(problem)s, %(gpu)s, %(problem_number)s, %(seq)s, %(times_us)s, %(runs)s, %(at)s)
on conflict do nothing;

-- name: result_restated
-- The score of an earlier run in the unit that was fixed since.
update result
set score_us = %(score_us)s,
    placed_us = case when grade = 'noisy' then %(slow_us)s::float8 else %(score_us)s end,
    yardstick_us = %(yardstick_us)s, low_us = %(low_us)s,
    high_us = %(high_us)s, process_us = %(process_us)s, error = %(error)s,
    freedom = %(freedom)s, delta = %(delta)s
where submission = %(submission)s and problem_number = %(problem_number)s and run = %(run)s;

-- name: submission_disqualified
-- Remove a submission from its leaderboards.
insert into moderation (submission, seq, is_disqualified, excluded_seq, rule, reason, evidence,
                        actor, decided_at)
values (%(id)s, %(seq)s, true, %(seq)s, %(rule)s, %(reason)s, %(evidence)s, %(actor)s, %(at)s)
on conflict (submission) do update
set seq = excluded.seq, is_disqualified = true,
    excluded_seq = coalesce(moderation.excluded_seq, excluded.seq), rule = excluded.rule,
    reason = excluded.reason, evidence = excluded.evidence, actor = excluded.actor,
    decided_at = excluded.decided_at;

-- name: submission_restored
-- A submission may be ranked again if it is not also held.
insert into moderation (submission, seq, reason, actor, decided_at)
values (%(id)s, %(seq)s, %(reason)s, %(actor)s, %(at)s)
on conflict (submission) do update
set seq = excluded.seq, is_disqualified = false,
    excluded_seq = case when moderation.is_held or moderation.is_withdrawn
                        then moderation.excluded_seq end,
    reason = excluded.reason, actor = excluded.actor, decided_at = excluded.decided_at;

-- name: appeal_filed
-- A participant asks for another review.
insert into moderation (submission, seq, appeal, appeal_text, appealed_at)
values (%(id)s, %(seq)s, 'filed', %(text)s, %(at)s)
on conflict (submission) do update
set seq = excluded.seq, appeal = 'filed', appeal_text = excluded.appeal_text,
    appeal_reason = null, appealed_at = excluded.appealed_at;

-- name: appeal_decided
-- An accepted appeal lifts everything that keeps a submission off its leaderboards.
insert into moderation (submission, seq, appeal, appeal_reason, actor, decided_at)
values (%(id)s, %(seq)s, case when %(is_accepted)s then 'accepted' else 'rejected' end,
        %(reason)s, %(actor)s, %(at)s)
on conflict (submission) do update
set seq = excluded.seq, appeal = excluded.appeal, appeal_reason = excluded.appeal_reason,
    is_held = moderation.is_held and excluded.appeal = 'rejected',
    is_disqualified = moderation.is_disqualified and excluded.appeal = 'rejected',
    excluded_seq = case when excluded.appeal = 'rejected' or moderation.is_withdrawn
                        then moderation.excluded_seq end,
    actor = excluded.actor, decided_at = excluded.decided_at;

-- name: submission_withdrawn
-- Remove a submission from its leaderboards for good: no later decision restores it.
insert into moderation (submission, seq, is_withdrawn, excluded_seq, withdrawn_reason,
                        withdrawn_at)
values (%(id)s, %(seq)s, true, %(seq)s, %(reason)s, %(at)s)
on conflict (submission) do update
set seq = excluded.seq, is_withdrawn = true,
    excluded_seq = coalesce(moderation.excluded_seq, excluded.seq),
    withdrawn_reason = excluded.withdrawn_reason, withdrawn_at = excluded.withdrawn_at;

-- name: leaderboard_changed
-- Change the visibility, GPU types, deadline, practice or contest of a leaderboard; null leaves a
-- value unchanged.
insert into leaderboard (slug, visibility, deadline_at, gpus, gpus_said, contest, has_practice)
values (%(id)s, coalesce(%(visibility)s, 'public'), %(deadline_at)s, %(gpus)s::text[],
        coalesce(%(gpus)s::text[], '{}'), coalesce(%(contest)s::text, ''),
        coalesce(%(has_practice)s::boolean, false))
on conflict (slug) do update
set visibility = coalesce(%(visibility)s, leaderboard.visibility),
    deadline_at = case when %(is_deadline_said)s then excluded.deadline_at
                       else leaderboard.deadline_at end,
    gpus = coalesce(excluded.gpus, leaderboard.gpus),
    contest = coalesce(%(contest)s::text, leaderboard.contest),
    has_practice = coalesce(%(has_practice)s::boolean, leaderboard.has_practice),
    gpus_said = leaderboard.gpus_said || excluded.gpus_said;

-- name: version_tested
-- A later check ran the newest version of a problem on further GPU types.
update problem set tested_gpus = tested_gpus || %(tested_gpus)s::text[]
where slug = %(id)s
  and number = (select max(known.number) from problem as known where known.slug = %(id)s);

-- name: leaderboard_archived
-- A leaderboard accepts no more submissions.
insert into leaderboard (slug, archived_at) values (%(id)s, %(at)s)
on conflict (slug) do update set archived_at = coalesce(leaderboard.archived_at, %(at)s);

-- name: rejudge_requested
-- A rejudge of these submissions.
insert into rejudge (id, seq, version, problem, from_number, to_number, select_, reason, actor,
                     count, state, requested_at)
values (%(id)s, %(seq)s, %(seq)s, %(problem)s, %(from_number)s, %(to_number)s, %(select)s,
        %(reason)s, %(actor)s, %(count)s, 'running', %(at)s);

-- name: rejudge_moved
-- A rejudge has a new draft, or is over.
update rejudge
set version = %(seq)s, state = %(state)s,
    ended_at = case when %(state)s <> 'running' then %(at)s end,
    end_actor = case when %(state)s <> 'running' then %(actor)s end,
    end_reason = %(reason)s
where id = %(id)s and state in ('running', 'previewed');

-- name: rejudge_previewed
-- A rejudge has all drafts and a preview.
update rejudge
set version = %(seq)s, state = 'previewed', diff = %(diff)s, changed_count = %(changed_count)s,
    previewed_at = %(at)s
where id = %(id)s and state = 'running';

-- name: ranking_moved
-- The history of a leaderboard's records grew.
insert into ranking (problem, gpu, seq) values (%(problem)s, %(gpu)s, %(seq)s)
on conflict (problem, gpu) do update set seq = excluded.seq;

-- name: record_set
-- One row per record.
insert into record (seq, problem, gpu, problem_number, submission, run, account, sender, score_us,
                    previous_us, at)
select %(seq)s, %(problem)s, %(gpu)s, %(problem_number)s, %(submission)s, %(run)s,
       coalesce(merged.into_account, mover.account),
       case when merged.account is null then '' else mover.account end, %(score_us)s,
       %(previous_us)s, %(at)s
from (select %(account)s::text as account) as mover
left join account_merge as merged on merged.account = mover.account and merged.undone_seq is null;

-- name: podium_changed
-- The first three places as last announced.
insert into podium (problem, gpu, problem_number, accounts)
values (%(problem)s, %(gpu)s, %(problem_number)s, %(after)s)
on conflict (problem, gpu, problem_number) do update set accounts = excluded.accounts;

-- name: milestone_reached
-- Reached once for good, under any version.
insert into milestone (problem, gpu, milestone, account, into_account, problem_number, submission,
                       title, value, seq, at)
values (%(problem)s, %(gpu)s, %(milestone)s, %(account)s, coalesce((
            select into_account from account_merge
            where account = %(account)s and undone_seq is null
        ), ''), %(problem_number)s, %(submission)s, %(title)s, %(value)s, %(seq)s, %(at)s)
on conflict (problem, gpu, milestone, account) do nothing;

-- name: duel_requested
-- Two submissions of a leaderboard are to be timed in alternation.
insert into duel (id, seq, problem, gpu, problem_number, first_number, second_number, first_source,
                  second_source)
values (%(id)s, %(seq)s, %(problem)s, %(gpu)s, %(problem_number)s, %(first_number)s,
        %(second_number)s, %(first_source)s, %(second_source)s)
on conflict (id) do nothing;

-- name: duel_judged
-- A duel is over, with a winner or without.
update duel
set judged_seq = %(seq)s, run = %(run)s, winner = %(winner)s, ratio = %(ratio)s, low = %(low)s,
    high = %(high)s, code = %(code)s, reason = %(reason)s
where id = %(id)s and judged_seq is null;

-- name: duel_unwon
-- The newest duel of a pair with a result replaces the earlier ones.
delete from duel_win
using duel
where duel.id = %(id)s and duel.judged_seq = %(seq)s
  and duel_win.problem = duel.problem and duel_win.gpu = duel.gpu
  and duel_win.problem_number = duel.problem_number
  and ((duel_win.winner = duel.first_source and duel_win.loser = duel.second_source)
       or (duel_win.winner = duel.second_source and duel_win.loser = duel.first_source));

-- name: duel_won
-- The winner's source is placed before the loser's where their scores are tied.
insert into duel_win (problem, gpu, problem_number, winner, loser, ratio, low, high)
select problem, gpu, problem_number,
       case winner when 'A' then first_source else second_source end,
       case winner when 'A' then second_source else first_source end,
       ratio, low, high
from duel
where id = %(id)s and judged_seq = %(seq)s and winner in ('A', 'B')
on conflict (problem, gpu, problem_number, winner, loser)
do update set ratio = excluded.ratio, low = excluded.low, high = excluded.high;

-- name: confirmation_requested
-- A ranked run is to be repeated on another agent.
insert into confirmation (id, seq, problem, gpu, problem_number, submission, run, score_us,
                          yardstick_us, contest, is_fresh)
values (%(id)s, %(seq)s, %(problem)s, %(gpu)s, %(problem_number)s, %(submission)s, %(run)s,
        %(score_us)s, %(yardstick_us)s, %(contest)s, %(is_fresh)s)
on conflict (id) do nothing;

-- name: confirmation_judged
-- A confirmation is over, with a result or without.
update confirmation
set judged_seq = %(seq)s, code = %(code)s, reason = %(reason)s, shown = %(shown)s,
    -- A release that knew no contests wrote no agent.
    agent = case when contest = '' then '' else %(agent)s end
where id = %(id)s and judged_seq is null;

-- name: park
-- The event at which a projection stopped, and why.
insert into parked (projection, seq, error) values (%(projection)s, %(seq)s, %(error)s)
on conflict (projection, seq) do update set error = excluded.error;

-- name: unpark
-- An operator skipped the event.
delete from parked where projection = %(projection)s and seq <= %(seq)s;

-- name: undecided
-- Runs with a verdict whose submission has no end yet, with their agent's signing key and harness
-- code at that time.
select submission.id, submission.version, submission.mode, submission.job, run.id as run,
       run.agent, run.token, run.ended_seq, run.verdict, run.stage, run.reason, run.cases,
       run.level, run.tier, run.sigma_run, run.tie_us, run.composition, run.stopped, run.over_limit,
       problem.ranking_by, submission.baseline, submission.is_practice, problem.roofs, submission.problem,
       submission.problem_number, problem.digest as problem_digest, submission.gpu,
       (select times_us from yardstick
        where yardstick.problem = problem.slug and yardstick.problem_number = problem.number
          and yardstick.gpu = submission.gpu) as fixed_us,
       (select sign_key from agent_key
        where agent_key.agent = run.agent and agent_key.seq < run.ended_seq
        order by agent_key.seq desc limit 1) as sign_key,
       (select digest from agent_harness
        where agent_harness.agent = run.agent and agent_harness.seq < run.ended_seq
        order by agent_harness.seq desc limit 1) as harness_code,
       run.key_commit
from submission
join run on run.id = submission.run
join problem on problem.slug = submission.problem and problem.number = submission.problem_number
where submission.state = 'ranking'
order by submission.number
limit %(limit)s;

-- name: undecided_items
-- Rejudge items that are due: verdicts without a result, and jobs that were given up.
select item.rejudge, item.is_retime, item.submission, item.state,
       item.reason as why, rejudge.version, item.job,
       submission.mode, run.id as run, run.agent, run.token, run.ended_seq, run.verdict,
       run.stage, run.reason, coalesce(run.cases, '[]') as cases, run.level, run.tier,
       run.sigma_run, run.tie_us, run.composition, run.stopped, run.over_limit, problem.ranking_by,
       submission.baseline, submission.is_practice, problem.roofs, submission.problem,
       problem.number as problem_number, problem.digest as problem_digest, submission.gpu,
       (select times_us from yardstick
        where yardstick.problem = problem.slug and yardstick.problem_number = problem.number
          and yardstick.gpu = submission.gpu) as fixed_us,
       (select sign_key from agent_key
        where agent_key.agent = run.agent and agent_key.seq < run.ended_seq
        order by agent_key.seq desc limit 1) as sign_key,
       (select digest from agent_harness
        where agent_harness.agent = run.agent and agent_harness.seq < run.ended_seq
        order by agent_harness.seq desc limit 1) as harness_code,
       run.key_commit
from rejudge_item as item
join rejudge on rejudge.id = item.rejudge and rejudge.state = 'running'
join submission on submission.id = item.submission
join problem on problem.slug = rejudge.problem and problem.number = rejudge.to_number
left join run on run.id = item.run
where item.state in ('ranking', 'given_up')
order by rejudge.seq, submission.number
limit %(limit)s;

-- name: unpreviewed
-- Rejudges under another version with all drafts.
select rejudge.id, rejudge.version, rejudge.problem, rejudge.from_number, rejudge.to_number
from rejudge
where rejudge.state = 'running' and rejudge.from_number <> rejudge.to_number and not exists (
    select 1 from rejudge_item as item
    where item.rejudge = rejudge.id and item.state <> 'judged'
)
order by rejudge.seq
limit 10;

-- name: evaluation_requested
-- An evaluation, whose cached items have their verdicts.
insert into evaluation (id, seq, version, account, sender, token, problem, problem_number,
                        problem_digest, gpu, mode, file, sources, cached_count, state, completed,
                        requested_at, deadline_at)
select %(id)s, %(seq)s, %(seq)s, coalesce(merged.into_account, sent.account),
       case when merged.account is null then '' else sent.account end, %(token)s, %(problem)s,
       %(problem_number)s, %(problem_digest)s, %(gpu)s, %(mode)s, %(file)s, %(sources)s::text[],
       %(cached_count)s, 'queued', %(cached_count)s, %(at)s, %(deadline_at)s
from (select %(account)s::text as account) as sent
left join account_merge as merged on merged.account = sent.account and merged.undone_seq is null;

-- name: evaluation_cached
-- The items of an evaluation that have the verdict of an equal source: the last ones.
insert into evaluation_part (evaluation, seq, first, count, outcome, verdicts, results, line,
                             is_cached)
select %(id)s, %(seq)s, %(first)s::int + place::int - 1, 1, 'completed', array[verdict], results,
       line, true
from unnest(%(verdicts)s::text[], %(results)s::text[], %(lines)s::int[])
     with ordinality as cached (verdict, results, line, place);

-- name: evaluation_started
-- A first chunk of an evaluation has an agent.
update evaluation
set state = 'running', started_at = %(at)s, version = %(seq)s
where id = %(evaluation)s and state = 'queued';

-- name: evaluation_cancelling
-- Somebody wants an evaluation to end.
update evaluation set is_cancelling = true, version = %(seq)s where id = %(id)s;

-- name: evaluation_items_ended
-- Items of an evaluation have verdicts.
with ended as (
    insert into evaluation_part (evaluation, seq, first, count, outcome, verdicts, results, harness,
                                 run)
    values (%(evaluation)s, %(seq)s, %(first)s, %(count)s, 'completed', %(verdicts)s::text[],
            %(results)s, %(harness)s, %(run)s)
)
update evaluation
set completed = completed + %(count)s, device_s = device_s + %(device_s)s, version = %(seq)s
where id = %(evaluation)s;

-- name: evaluation_items_lost
-- Items of an evaluation ended without a verdict.
with ended as (
    insert into evaluation_part (evaluation, seq, first, count, outcome, code, reason)
    values (%(evaluation)s, %(seq)s, %(first)s, %(count)s, %(outcome)s, %(code)s, %(reason)s)
)
update evaluation
set failed = failed + case when %(outcome)s = 'failed' then %(count)s else 0 end,
    cancelled = cancelled + case when %(outcome)s = 'cancelled' then %(count)s else 0 end,
    version = %(seq)s
where id = %(evaluation)s;

-- name: evaluation_finished
-- All items of an evaluation ended.
update evaluation
set state = 'finished', outcome = %(outcome)s, device_s = %(device_s)s, finished_at = %(at)s,
    version = %(seq)s
where id = %(id)s;

-- name: verdicts_cached
-- Keep the verdicts of tested items for equal sources; the first of equal ones stays.
insert into verdict (source, problem_digest, gpu, harness, seq, verdict, results, line)
select evaluation.sources[%(first)s::int + place], evaluation.problem_digest, evaluation.gpu,
       %(harness)s, %(seq)s, ended.verdict, %(results)s, place - 1
from evaluation
cross join unnest(%(verdicts)s::text[]) with ordinality as ended (verdict, place)
where evaluation.id = %(evaluation)s and evaluation.mode = 'test'
  and ended.verdict = any(%(kept)s::text[])
on conflict do nothing;

-- name: verdicts_forgotten
-- Drop the verdicts of old events, so that the table has a bound.
delete from verdict where seq < %(seq)s - %(events_kept)s;

-- name: contest_published
-- The newest version of a contest.
insert into contest (slug, number, seq, definition, published_at)
values (%(id)s, %(number)s, %(seq)s, %(definition)s, %(at)s)
on conflict (slug) do update
set number = excluded.number, seq = excluded.seq, definition = excluded.definition;

-- name: contest_registered
-- A person takes part in a contest, perhaps again.
insert into contest_person (contest, account, division, declaration, registered_at)
values (%(id)s, %(account)s, %(division)s, %(declared)s, %(at)s)
on conflict (contest, account) do update
set division = excluded.division, declaration = excluded.declaration, question = null,
    is_registered = true, registered_at = excluded.registered_at;

-- name: contest_registration_withdrawn
-- A person no longer takes part.
update contest_person set is_registered = false, team = ''
where contest = %(id)s and account = %(account)s;

-- name: contest_team_created
-- A team, of which its captain is the first member; it begins with what the captain declared.
insert into contest_team (contest, team, name, captain, division, declaration, created_at)
select %(id)s, %(team)s, %(name)s, %(captain)s, coalesce(captain.division, ''),
       coalesce(captain.declaration, '{}'), %(at)s
from (select 1) as team
left join contest_person as captain
     on captain.contest = %(id)s and captain.account = %(captain)s
on conflict (contest, team) do nothing;

-- name: contest_team_joined
-- A person is in a team.
update contest_person set team = %(team)s where contest = %(id)s and account = %(account)s;

-- name: contest_team_left
-- A person is no longer in a team.
update contest_person set team = ''
where contest = %(id)s and account = %(account)s and team = %(team)s;

-- name: contest_captain_changed
-- A team has another captain.
update contest_team set captain = %(captain)s where contest = %(id)s and team = %(team)s;

-- name: contest_person_declared
-- A person is in a division and declares what it demands.
update contest_person set division = %(division)s, declaration = %(declared)s, question = null
where contest = %(id)s and account = %(contestant)s;

-- name: contest_team_declared
-- A team is in a division and declares what it demands.
update contest_team set division = %(division)s, declaration = %(declared)s, question = null
where contest = %(id)s and team = %(contestant)s;

-- name: contest_person_questioned
-- The declaration of a person is doubted; null if it no longer is.
update contest_person set question = %(question)s
where contest = %(id)s and account = %(contestant)s;

-- name: contest_team_questioned
-- The declaration of a team is doubted; null if it no longer is.
update contest_team set question = %(question)s
where contest = %(id)s and team = %(contestant)s;

-- name: contest_person_disqualified
-- A person is out of a contest, or back in it.
update contest_person set is_disqualified = %(is_disqualified)s
where contest = %(id)s and account = %(subject)s;

-- name: contest_team_disqualified
-- A team is out of a contest, or back in it.
update contest_team set is_disqualified = %(is_disqualified)s
where contest = %(id)s and team = %(subject)s;

-- name: contest_reviewed
-- The newest decision on an item of a check list.
insert into contest_review (contest, contestant, item, is_passed, note, actor, at)
values (%(id)s, %(contestant)s, %(item)s, %(is_passed)s, %(note)s, %(actor)s, %(at)s)
on conflict (contest, contestant, item) do update
set is_passed = excluded.is_passed, note = excluded.note, actor = excluded.actor,
    at = excluded.at;

-- name: contest_result_announced
-- The newest finalists or results of a contest.
insert into contest_result (contest, stage, seq, as_of_seq, places, at, appeals_until_at)
values (%(id)s, %(stage)s, %(seq)s, %(as_of_seq)s, %(listed)s::json, %(at)s, %(appeals)s)
on conflict (contest, stage) do update
set seq = excluded.seq, as_of_seq = excluded.as_of_seq, places = excluded.places,
    at = excluded.at, appeals_until_at = excluded.appeals_until_at;

-- name: contest_embargoes_removed
-- An older version of a contest hides nothing.
delete from contest_embargo where contest = %(id)s;

-- name: contest_embargoes_added
-- What the newest version of a contest hides.
insert into contest_embargo (contest, problem, from_at, until_at, hides_ranks, sources, organisers)
select %(id)s, problem, from_at, until_at, hides_ranks, sources, %(organisers)s::text[]
from json_to_recordset(%(embargoes)s::json) as embargo (
    problem text, from_at timestamptz, until_at timestamptz, hides_ranks boolean, sources text
);
