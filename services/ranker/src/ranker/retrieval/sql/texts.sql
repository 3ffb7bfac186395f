-- name: keep_sources
-- Store what some sources are about.
insert into retrieval.source_text (digest, terms, operations, signature, bands, words)
select digest, terms, operations, signature, bands, array_to_tsvector(words)
from jsonb_to_recordset(%(rows)s::jsonb) as source (
    digest text, terms jsonb, operations text[], signature bigint[], bands bigint[], words text[]
)
on conflict (digest) do nothing;

-- name: keep_near_copies
-- Store what some submissions are nearly copies of.
insert into retrieval.near_copy (number, parent, similarity)
select number, parent, similarity
from jsonb_to_recordset(%(rows)s::jsonb) as copy (number bigint, parent bigint, similarity real)
on conflict (number) do nothing;

-- name: keep_problems
-- Store what some problems are about.
insert into retrieval.problem_text (digest, terms, operations)
select digest, terms, operations
from jsonb_to_recordset(%(rows)s::jsonb) as problem (
    digest text, terms jsonb, operations text[]
)
on conflict (digest) do nothing;

-- name: keep_labels
-- Store what a version of the advisory screen found in some sources.
insert into retrieval.source_labels (digest, file_name, version, findings, rules)
select digest, file_name, version, findings, rules
from jsonb_to_recordset(%(rows)s::jsonb) as source (
    digest text, file_name text, version int, findings jsonb, rules text[]
)
on conflict (digest, file_name) do update
set version = excluded.version, findings = excluded.findings, rules = excluded.rules;
