-- Which harness code an agent has registered since an event, '' if none; its runs may name no other.
create table agent_harness (
    agent text not null,
    seq bigint not null,
    digest text not null,
    primary key (agent, seq)
);

-- Of what was registered before, the newest is known.
insert into agent_harness (agent, seq, digest)
select id, 0, coalesce(details ->> 'harness_code', '') from agent;
