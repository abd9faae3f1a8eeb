"""Horovod from its source: its authors offer no wheel, and its source alone fits no framework of today.

Used by `muster setup horovod` alone; no run imports it.
"""
