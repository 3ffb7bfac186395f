-- What equal sources have in common: the digest of the source without comments, white space and the
-- names of local variables, or of its bytes if it has no such form. The `source` of a result, an
-- entry and a duel is this digest.
alter table submission add column pooling_source text not null default '';
update submission set pooling_source = source;
