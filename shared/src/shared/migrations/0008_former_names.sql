-- What participants were called before an operator renamed them. Nobody else ever gets such a name,
-- so a name keeps its account for ever.
create table former_name (
    name text primary key,
    account text not null references participant (account),
    until_at timestamptz not null default now()
);
