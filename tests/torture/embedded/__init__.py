"""Do real clients keep the promises on brokers with faults?"""
