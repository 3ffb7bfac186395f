"""The roles, schemas and privileges of Postgres."""
