"""What would Kafka do, told in virtual time and with faults on command?"""
