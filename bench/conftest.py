"""The peers are programs that import what need not be installed: no doctests there."""

collect_ignore_glob = ["minijax_bench/peers/*"]
