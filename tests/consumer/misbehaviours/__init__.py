"""What the consumer does where librdkafka, the brokers or the group misbehave."""
