-- Each harness code that an agent ever registered with, by the digest of its zip; its agent's word is
-- which version it is.
create table harness (
    digest text primary key,
    version text not null,
    seq bigint not null,
    seen_at timestamptz not null
);
