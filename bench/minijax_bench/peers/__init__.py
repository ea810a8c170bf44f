"""Programs that measure the same collectives with another library.

Each is a file of its own, run by its path in processes of its own, and imports neither
minijax nor the other peers. A request is a line of JSON on standard input, the answer
a line of JSON on standard output; see `versus.py`. While it waits for a request it
sleeps, so as not to take time from what is measured in between.
"""
