"""A user's kernel file as a task folder: read (source, facts), cut (launch), written, checked."""
