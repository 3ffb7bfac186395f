"""Problems: their tasks, their publication, and repositories of problems."""
