"""The types of the HTTP API: each response is defined here once.

Ingest and ranker return them, the document at `/openapi.json` describes them, and every client of
ours decodes them.
"""
