-- What may be timed again: entries whose run was noisy, of the newest version of an open problem.
create view noisy_entry as
select entry.problem, entry.gpu, entry.problem_number, entry.submission, entry.number,
       result.at, version.digest, leaderboard.deadline_at
from result
join entry on entry.problem = result.problem and entry.gpu = result.gpu
     and entry.problem_number = result.problem_number and entry.account = result.account
     and entry.submission = result.submission
join problem as version on version.slug = entry.problem and version.number = entry.problem_number
left join leaderboard on leaderboard.slug = entry.problem
where result.grade = 'noisy' and not entry.is_hidden and leaderboard.archived_at is null
  and not exists (
      select 1 from problem as newer
      where newer.slug = version.slug and newer.number > version.number
  );
create index result_noisy on result (submission, problem_number) where grade = 'noisy';

-- Rejudges under the same version, which time noisy runs again.
alter table rejudge_item add column is_retime boolean not null default false;
create index retime_of_submission on rejudge_item (submission) where is_retime;
create view retime as
select rejudge.id, rejudge.problem, rejudge.to_number as problem_number, item.gpu, item.submission,
       rejudge.version, rejudge.state, rejudge.ended_at, item.state as item_state, item.result
from rejudge
join rejudge_item as item on item.rejudge = rejudge.id
where item.is_retime;
