-- Cases and rooflines that were folded before they had weights get the weight that their events now
-- have by default. It comes last in a case, as the fold writes it, since a replay compares bytes.
update run
set cases = (
    select ('[' || string_agg(left(item::text, -1) || ',"weight":1.0}', ',' order by place) || ']')::json
    from json_array_elements(cases) with ordinality as listed (item, place)
)
where json_array_length(cases) > 0;

update problem
set roofs = (
    select jsonb_agg(item || '{"weight": 1.0}' order by place)
    from jsonb_array_elements(roofs) with ordinality as listed (item, place)
)
where jsonb_array_length(roofs) > 0;
