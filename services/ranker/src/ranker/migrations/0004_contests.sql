-- The contest that a submission was sent to, and its contestant of that moment: an account or a
-- team. Both are '' for none.
alter table submission add column contest text not null default '';
alter table submission add column contestant text not null default '';

create index submission_of_contest on submission (contest, problem, received_at)
    where contest <> '';

-- The newest version of each contest. `definition` is as in its event.
create table contest (
    slug text primary key,
    number int not null,
    seq bigint not null,
    definition text not null,
    published_at timestamptz not null
);

-- Who registered for a contest. `team` is '' for one who takes part alone. `question` is why their
-- declaration is doubted, null if it is not.
create table contest_person (
    contest text not null,
    account text not null,
    division text not null,
    team text not null default '',
    declaration text not null default '{}',
    question text,
    is_registered boolean not null default true,
    is_disqualified boolean not null default false,
    registered_at timestamptz not null,
    primary key (contest, account)
);

-- The teams of a contest. Without a division of its own, a team is in that of its captain.
create table contest_team (
    contest text not null,
    team text not null,
    name text not null,
    captain text not null,
    division text not null default '',
    declaration text not null default '{}',
    question text,
    is_disqualified boolean not null default false,
    created_at timestamptz not null,
    primary key (contest, team)
);

-- The check list of the winners: the newest decision on each item.
create table contest_review (
    contest text not null,
    contestant text not null,
    item text not null,
    is_passed boolean not null,
    note text not null,
    actor text not null,
    at timestamptz not null,
    primary key (contest, contestant, item)
);

-- What was announced of a contest: the finalists (places of 0), and the provisional and the final
-- results. `places` has contestants, divisions, places and points.
create table contest_result (
    contest text not null,
    stage text not null check (stage in ('finalists', 'proposed', 'confirmed')),
    seq bigint not null,
    as_of_seq bigint not null,
    places json not null,
    at timestamptz not null,
    primary key (contest, stage)
);
