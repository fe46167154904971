"""A broker in this process, made of librdkafka's mock cluster."""
