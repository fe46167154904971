"""Does what is assigned while its circuit is open stand still?"""
