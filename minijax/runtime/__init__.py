"""Devices, arrays on them, and compiled programs run on them, through PJRT."""
