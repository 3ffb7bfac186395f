-- Logins that wait for a person, and the secrets of those who come by name and password. All of it
-- is short-lived or can be erased; none of it is in an event. A secret lies here as its hash alone.
create table cli_login (
    cli_hash text primary key,
    provider text not null,
    network text not null,
    requested_at timestamptz not null,
    expires_at timestamptz not null,
    account text references participant (account)
);

create index cli_login_expires on cli_login (expires_at);

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

-- A login that is on its way to another provider and back, and one that waits for a click.
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

create table password (
    name text primary key,
    account text not null references participant (account),
    hash text not null,
    changed_at timestamptz not null
);
