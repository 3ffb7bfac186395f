-- Where participants are told of events. The log alone decides what goes there; `kinds` and
-- `problems` lie here to be shown. The secret lies here as it is, for it signs. `seq` is the place
-- of WebhookAdded, null until that is in the log; a hook that is off has a notice that says why.
create table webhook (
    webhook text primary key,
    account text not null references participant (account) on delete cascade,
    url text not null,
    secret text not null,
    kinds text[] not null,
    problems text[] not null,
    created_at timestamptz not null default now(),
    seq bigint,
    off_at timestamptz,
    notice text
);

create index webhook_account on webhook (account);

-- What is to be told, and what became of it. An event goes to a hook once, whoever finds it out how
-- often; `next_at` is when it is tried next, or when a try that was begun counts as lost.
create table webhook_delivery (
    delivery bigint generated always as identity primary key,
    webhook text not null references webhook (webhook) on delete cascade,
    event text not null,
    kind text not null,
    problem text not null,
    data text not null,
    at timestamptz not null,
    state text not null default 'pending'
    check (state in ('pending', 'delivered', 'failed', 'dropped')),
    tries int not null default 0,
    created_at timestamptz not null default now(),
    next_at timestamptz not null default now(),
    tried_at timestamptz,
    took_ms int,
    status int,
    error text,
    unique (webhook, event)
);

create index webhook_delivery_due on webhook_delivery (next_at) where state = 'pending';
create index webhook_delivery_newest on webhook_delivery (webhook, delivery desc);
create index webhook_delivery_old on webhook_delivery (created_at);

-- How far the log was looked through; nothing before is ever told again.
create table webhook_place (
    name text primary key,
    seq bigint not null,
    looked_at timestamptz not null
);
