"""DEER's question as a world: does a query need a tool, and does one of the candidates fit?"""
