-- What was done outside because of an event. It cannot be derived from the log, so it lies beside
-- the names, not in a read model.
create table outbox (
    event text not null,
    target text not null,
    tries int not null default 1,
    begun_at timestamptz not null default now(),
    done_at timestamptz,
    primary key (event, target)
);

create index outbox_pending on outbox (begun_at) where done_at is null;
