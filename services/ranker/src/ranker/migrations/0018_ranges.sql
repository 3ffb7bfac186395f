-- The time that decides a place: the score, or for a noisy time the slow end of its interval.
alter table result
    add column placed_us double precision,
    add column pooled_placed_us double precision;
alter table entry add column placed_us double precision not null;
alter table entry_before add column placed_us double precision;
drop index result_in_order;
create index result_in_order
    on result (account, problem, gpu, problem_number, pooled_placed_us, number)
    where pooled_us is not null;
drop index entry_by_score;
create index entry_by_place on entry (problem, gpu, problem_number, placed_us, number);

-- The best rank that an interval allows, by its fast end: one more than the entries of the groups
-- that it is behind. The reach of groups grows with their leaders, so the last one of these tells.
create function best_rank(slug text, gpu_type text, version int, fast_us double precision)
returns bigint
language sql
stable
as $$
    select 1 + coalesce((
        select (
            select coalesce(sum(entries_count), 0)
            from tie_block
            where problem = slug and gpu = gpu_type and problem_number = version
              and block < last.block
        ) + (
            select coalesce(sum(entries_count), 0)
            from tie_group
            where problem = slug and gpu = gpu_type and problem_number = version
              and block = last.block
              and (first_us, first_number) <= (last.first_us, last.first_number)
        )
        from tie_group as last
        where last.problem = slug and last.gpu = gpu_type and last.problem_number = version
          and last.first_us < fast_us and last.reach_us < fast_us
        order by last.first_us desc, last.first_number desc
        limit 1
    ), 0)::bigint
$$;
