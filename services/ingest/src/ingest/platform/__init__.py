"""Operating the platform: intake, projections, dead letters, and a record of manual actions."""
