-- What contests hide, by problem and interval, until the instant before `until_at`: the ranks, and
-- the sources of others from all (`hidden`), from those who are not registered, or from nobody.
-- Organisers of the contest see both. It counts while the problem belongs to the contest.
create table contest_embargo (
    contest text not null,
    problem text not null,
    from_at timestamptz not null,
    until_at timestamptz,
    hides_ranks boolean not null,
    sources text not null check (sources in ('hidden', 'registered', 'public')),
    organisers text[] not null,
    primary key (contest, problem, from_at)
);

create index contest_embargo_of_problem on contest_embargo (problem, from_at);

-- Whether a problem's ranks, and everything that tells them, are hidden from a reader at an instant.
create function ranks_hidden(slug text, at timestamptz, organiser text, is_staff boolean)
returns boolean
language sql
stable
as $$
    select not is_staff and exists (
        select 1 from contest_embargo
        join leaderboard on leaderboard.slug = contest_embargo.problem
             and leaderboard.contest = contest_embargo.contest
        where contest_embargo.problem = $1 and from_at <= $2 and (until_at is null or until_at > $2)
          and hides_ranks and coalesce(organiser <> all(organisers), true)
    )
$$;

-- Whether the sources of others are hidden from a reader, whatever the problem's own policy.
create function sources_hidden(slug text, at timestamptz, organiser text, is_staff boolean)
returns boolean
language sql
stable
as $$
    select not is_staff and exists (
        select 1 from contest_embargo
        join leaderboard on leaderboard.slug = contest_embargo.problem
             and leaderboard.contest = contest_embargo.contest
        where contest_embargo.problem = $1 and from_at <= $2 and (until_at is null or until_at > $2)
          and coalesce(organiser <> all(organisers), true)
          and (hides_ranks or sources = 'hidden' or sources = 'registered' and not exists (
              select 1 from contest_person
              where contest_person.contest = contest_embargo.contest
                and contest_person.account = organiser and contest_person.is_registered
                and not contest_person.is_disqualified
          ))
    )
$$;
