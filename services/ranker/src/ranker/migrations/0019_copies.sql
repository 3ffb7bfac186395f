-- An entry stands where the earliest entry of an equal source does, whatever its score: the order of
-- a copy is that of its original, whose own number is its order_number.
drop index entry_by_place;
create index entry_by_place on entry (problem, gpu, problem_number, placed_us);
create index entry_of_original on entry (problem, gpu, problem_number, order_us, order_number)
    where not is_hidden and number = order_number;
