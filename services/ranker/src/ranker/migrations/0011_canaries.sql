-- How each canary on an agent was judged; `ratio` is its time divided by the pool's usual time, 0 if
-- it failed. Canaries from before this table appear after `warpboard server replay --switch`.
create table canary (
    agent text not null,
    seq bigint not null,
    at timestamptz not null,
    ratio double precision not null,
    is_good boolean not null,
    primary key (agent, seq)
);
