"""How nodes become one cluster: each framework's commands, environment, ports and readiness.

Pure: a framework says what to start, as values, and starts nothing. One framework is one file and one entry point.
"""
