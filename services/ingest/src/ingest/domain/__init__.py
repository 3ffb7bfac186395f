"""What may come in, and what participants and operators may do: pure functions of histories."""
