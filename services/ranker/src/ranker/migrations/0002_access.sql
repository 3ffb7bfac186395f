-- Who sees a leaderboard and until when it takes submissions in; no row is a public one without end.
create table leaderboard (
    slug text primary key,
    visibility text not null default 'public',
    deadline_at timestamptz,
    archived_at timestamptz
);

-- A submission that its owner, or an operator, took off its leaderboard for ever.
alter table moderation
    add column is_withdrawn boolean not null default false,
    add column withdrawn_reason text,
    add column withdrawn_at timestamptz;
