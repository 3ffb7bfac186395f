-- What requests under an Idempotency-Key were answered first; a null status is one that is still
-- being handled. The text of a token is never in `body`.
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
