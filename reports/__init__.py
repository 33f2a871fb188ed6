"""Model in, answers out: theory, joining, checks, findings, comparing, pages."""
