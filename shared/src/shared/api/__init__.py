"""The types of the HTTP API: each response is defined here once.

Ingest and ranker return them, the document at `/openapi.json` describes them, and every client of
ours decodes them. The report of an audit, which a command of ranker prints, is here as well.
"""
