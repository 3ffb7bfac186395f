"""What reads answer, theme by theme; the OpenAPI document shows it."""
