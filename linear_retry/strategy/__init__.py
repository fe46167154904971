"""The wait after failure k of a message: delays, strategy files, schedules, simulation."""
