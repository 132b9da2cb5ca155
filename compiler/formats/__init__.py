"""The formats of files, for those who read them (`frontends`), write them (`targets`) or run what came from them
(`runtime`).
"""
