"""The program on every machine: its life, the control channel, its processes, and the shipping of what they make.

Nothing here knows which target started it.
"""
