-- What the log must not contain: names, secrets and whatever else can be erased, and what depends
-- on it. ingest writes these tables, ranker reads them. No event contains personal data.

-- The name of each account.
create table participant (
    account text primary key,
    name text not null unique,
    opened_at timestamptz not null default now()
);

-- Names from before an operator renamed their owner. Nobody else ever gets such a name, so that a
-- name always means the same account.
create table former_name (
    name text primary key,
    account text not null references participant (account),
    until_at timestamptz not null default now()
);

-- Identities of other providers. The log alone decides which account one belongs to.
create table identity (
    identity text primary key,
    provider text not null,
    subject text not null,
    account text not null references participant (account),
    linked_at timestamptz not null default now(),
    unique (provider, subject)
);

create index identity_account on identity (account);

-- What the owner of a token called it. The log has its hash, scopes and expiry.
create table token (
    token text primary key,
    account text not null references participant (account),
    name text not null,
    prefix text not null,
    created_at timestamptz not null default now(),
    last_used_at timestamptz
);

create index token_account on token (account);

-- The codes of invites; the log has their hashes.
create table invite (
    invite text primary key,
    code text not null unique,
    created_at timestamptz not null default now()
);

-- Passwords, as hashes only.
create table password (
    name text primary key,
    account text not null references participant (account),
    hash text not null,
    changed_at timestamptz not null
);

-- A login of the command line that waits for its user in a browser.
create table cli_login (
    cli_hash text primary key,
    provider text not null,
    network text not null,
    requested_at timestamptz not null,
    expires_at timestamptz not null,
    account text references participant (account)
);

create index cli_login_expires on cli_login (expires_at);

-- A login by a code that its user types on another device.
create table device_login (
    device_hash text primary key,
    user_code text not null unique,
    client text not null,
    scopes text[] not null,
    network text not null,
    requested_at timestamptz not null,
    expires_at timestamptz not null,
    polled_at timestamptz,
    account text references participant (account),
    is_denied boolean not null default false,
    token bigint
);

create index device_login_expires on device_login (expires_at);

-- A login that is at another provider, and one that waits for a click.
create table login_state (
    state_hash text primary key,
    purpose text not null,
    provider text not null,
    bound_to text not null,
    verifier text not null,
    account text references participant (account),
    next_path text not null,
    expires_at timestamptz not null
);

create index login_state_expires on login_state (expires_at);

-- Private notes of participants on their submissions. If both columns are null, the note was
-- deleted.
create table submission_note (
    submission text primary key,
    account text not null references participant (account) on delete cascade,
    note text,
    tag text,
    said_at timestamptz not null default now()
);

create index submission_note_account on submission_note (account);

-- The first responses to requests with an Idempotency-Key. A request without a status is still in
-- progress. `body` never contains the text of a token.
create table idempotency (
    actor text not null,
    route text not null,
    key text not null,
    request_hash text not null,
    begun_at timestamptz not null,
    status int,
    body bytea,
    primary key (actor, route, key)
);

create index idempotency_begun on idempotency (begun_at);

-- Where participants are notified of events. The log decides what goes there; `kinds` and
-- `problems` are copies to show. The secret is plain text, because deliveries are signed with it.
-- `seq` is the sequence of WebhookAdded, null until that is in the log. A webhook that is off has a
-- notice that says why.
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

-- What webhooks are sent, and with which result. An event goes to a webhook once, however often it
-- is found. `next_at` is the time of the next attempt, or when an attempt in progress counts as
-- lost.
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

-- How far the log was searched for events to send; earlier events are never sent again.
create table webhook_place (
    name text primary key,
    seq bigint not null,
    looked_at timestamptz not null
);

-- Effects of events on the outside world. They do not follow from the log, so they are not in a
-- read model, which a replay would empty.
create table outbox (
    event text not null,
    target text not null,
    tries int not null default 1,
    begun_at timestamptz not null default now(),
    done_at timestamptz,
    primary key (event, target)
);

create index outbox_pending on outbox (begun_at) where done_at is null;

-- Which database this is, in one row, which is created with the tables and is in every copy of
-- them. The log names the register whose names are right (AccountTablesAdopted). While `is_lost`,
-- the log's accounts are not those of these tables, so nobody gets a name that another participant
-- may have had. `written_at` is updated every few seconds, to test whether the server accepts
-- writes.
create table register (
    is_only boolean primary key default true check (is_only),
    register text not null default gen_random_uuid()::text,
    is_lost boolean not null default false,
    written_at timestamptz not null default now()
);

insert into register default values;
