"""What operators ask for about quotas: a `QuotaLimitSet` for an account or for everybody."""

EVERYBODY = "default"
UNLIMITED = -1
LIMIT_MAX = 1_000_000
