"""A broker inside the process, on librdkafka's mock cluster."""
