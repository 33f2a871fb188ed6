"""How an Answer or a Sweep is printed: data (JSON, CSV), text, Markdown, HTML."""
