"""Does every sequence of steps keep the promises, in small worlds?"""
