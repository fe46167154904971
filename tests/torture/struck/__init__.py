"""What is left of a member that is struck at a point of its life?"""
