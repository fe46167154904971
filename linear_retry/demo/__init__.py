"""What does a consumer do while the thing behind it is down, and can that be proved?"""
