"""The collectives benchmark: `python -m minijax bench`.

It measures minijax's collectives with the conventions of nccl-tests. It uses the
public API of minijax only (`overhead.py`, which compares with the executable beneath,
says where it looks inside), and `import minijax` does not load it. Start reading at
`cli.py`; `docs/benchmark.md` says what every column means.
"""
