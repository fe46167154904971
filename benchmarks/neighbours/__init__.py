"""How fast do other libraries read the same topic?"""
