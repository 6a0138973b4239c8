"""The live page: the papers' recursions in the browser, and full descent beside them by a local server."""
