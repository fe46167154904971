"""What do the tables of a lake come to, in few rows?"""
