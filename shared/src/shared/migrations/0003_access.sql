-- What events say by id alone: where an identity is known, what a token is called, an invite's code.
-- All of it can be erased; none of it decides who may do what, which the log alone does.
create table identity (
    identity text primary key,
    provider text not null,
    subject text not null,
    account text not null references participant (account),
    linked_at timestamptz not null default now(),
    unique (provider, subject)
);

create index identity_account on identity (account);

create table token (
    token text primary key,
    account text not null references participant (account),
    name text not null,
    prefix text not null,
    created_at timestamptz not null default now(),
    last_used_at timestamptz
);

create index token_account on token (account);

create table invite (
    invite text primary key,
    code text not null unique,
    created_at timestamptz not null default now()
);
